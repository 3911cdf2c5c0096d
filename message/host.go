package message

import (
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"
)

// hostOf reads an address and the 4 bytes of its port.
func hostOf(b []byte) netip.AddrPort {
	at := len(b) - 4
	if at != 4 && at != 16 {
		return netip.AddrPort{} // the flags changed underneath: no host is better than a panic
	}
	addr, _ := netip.AddrFromSlice(b[:at])
	return netip.AddrPortFrom(addr, uint16(be.Uint32(b[at:])))
}

// appendHost writes an address and its port as 4 bytes. An invalid address is 0.0.0.0.
func appendHost(dst []byte, h netip.AddrPort) []byte {
	switch addr := h.Addr(); {
	case addr.Is6():
		b := addr.As16()
		dst = append(dst, b[:]...)
	case addr.Is4():
		b := addr.As4()
		dst = append(dst, b[:]...)
	default:
		dst = append(dst, 0, 0, 0, 0)
	}
	return be.AppendUint32(dst, uint32(h.Port()))
}

// HostString writes a host as Java's InetSocketAddress.toString does, which is what
// RocketMQ's tools print: "/127.0.0.1:10911", "/[1050:0:0:0:5:600:300c:326b]:10911".
func HostString(h netip.AddrPort) string {
	var sb strings.Builder
	sb.WriteByte('/')
	if addr := h.Addr(); addr.Is4() || addr.Is4In6() {
		// Java makes an Inet4Address of a mapped one.
		sb.WriteString(addr.Unmap().String())
	} else {
		sb.WriteByte('[')
		b := addr.As16()
		for i := 0; i < len(b); i += 2 {
			if i > 0 {
				sb.WriteByte(':')
			}
			sb.WriteString(strconv.FormatUint(uint64(be.Uint16(b[i:])), 16))
		}
		sb.WriteByte(']')
	}
	sb.WriteByte(':')
	sb.WriteString(strconv.Itoa(int(h.Port())))
	return sb.String()
}

// ID returns the broker's message id: store host and physical offset in upper-case hex,
// 32 characters for an IPv4 store host and 56 for an IPv6 one.
func (v *View) ID() string {
	var b [hostV6 + 8]byte
	n := copy(b[:], v.storeHost())
	n += copy(b[n:], v.raw[atPhysical:atPhysical+8])
	return strings.ToUpper(hex.EncodeToString(b[:n]))
}
