package message

import (
	"net/netip"
)

// Message is what a producer gives to be stored. Queue offset, physical offset and store
// time are the store's to assign.
type Message struct {
	Topic   string
	QueueID int32
	Body    []byte // nil is an empty body

	// Tags and Keys become the properties TAGS and KEYS; empty ones are left out.
	Tags, Keys string
	// Properties are stored in this order, after Keys and Tags.
	Properties []Property

	Flag           int32 // the user's own
	SysFlag        int32 // compression and transaction bits; the host bits are set by Encode
	BornTimestamp  int64 // ms since 1970
	BornHost       netip.AddrPort
	ReconsumeTimes int32
	// PreparedTransactionOffset is the physical offset of the half message, for a
	// committed transaction.
	PreparedTransactionOffset int64
}

// Property is one name and its value.
type Property struct{ Name, Value string }

// AppendRecord appends the record of m to dst and returns it, without queue offset,
// physical offset and store time, which [Stamp] fills in. withCRC reserves the tail for
// the whole-record checksum, which Stamp fills in too. m must be valid: see
// [Message.Validate].
func AppendRecord(dst []byte, m *Message, storeHost netip.AddrPort, withCRC bool) []byte {
	from := len(dst)
	sysFlag := m.SysFlag &^ (SysFlagBornHostV6 | SysFlagStoreHostV6)
	if m.BornHost.Addr().Is6() {
		sysFlag |= SysFlagBornHostV6
	}
	if storeHost.Addr().Is6() {
		sysFlag |= SysFlagStoreHostV6
	}
	magic := MagicV1
	if len(m.Topic) > MaxTopicV1 {
		magic = MagicV2
	}
	dst = be.AppendUint32(dst, 0) // total size, below
	dst = be.AppendUint32(dst, magic)
	dst = be.AppendUint32(dst, BodyCRC(m.Body))
	dst = be.AppendUint32(dst, uint32(m.QueueID))
	dst = be.AppendUint32(dst, uint32(m.Flag))
	dst = append(dst, make([]byte, 16)...) // queue and physical offset
	dst = be.AppendUint32(dst, uint32(sysFlag))
	dst = be.AppendUint64(dst, uint64(m.BornTimestamp))
	dst = appendHost(dst, m.BornHost)
	dst = be.AppendUint64(dst, 0) // store time
	dst = appendHost(dst, storeHost)
	dst = be.AppendUint32(dst, uint32(m.ReconsumeTimes))
	dst = be.AppendUint64(dst, uint64(m.PreparedTransactionOffset))
	dst = be.AppendUint32(dst, uint32(len(m.Body)))
	dst = append(dst, m.Body...)
	if magic == MagicV2 {
		dst = be.AppendUint16(dst, uint16(len(m.Topic)))
	} else {
		dst = append(dst, byte(len(m.Topic)))
	}
	dst = append(dst, m.Topic...)
	props := len(dst)
	dst = be.AppendUint16(dst, 0)
	if m.Keys != "" {
		dst = AppendProperty(dst, PropKeys, m.Keys)
	}
	if m.Tags != "" {
		dst = AppendProperty(dst, PropTags, m.Tags)
	}
	for _, p := range m.Properties {
		dst = AppendProperty(dst, p.Name, p.Value)
	}
	if withCRC {
		var tail [PropCRCSize]byte
		dst = append(dst, tail[:]...)
	}
	be.PutUint16(dst[props:], uint16(len(dst)-props-2))
	be.PutUint32(dst[from:], uint32(len(dst)-from))
	return dst
}

// Stamp fills in what is only known when the record gets its place: rec is one record of
// [AppendRecord]. withCRC is what that call was given.
func Stamp(rec []byte, queueOffset, physicalOffset, storeTimestamp int64, withCRC bool) {
	be.PutUint64(rec[atQueueOffset:], uint64(queueOffset))
	be.PutUint64(rec[atPhysical:], uint64(physicalOffset))
	born := bornHostSize(int32(be.Uint32(rec[atSysFlag:])))
	be.PutUint64(rec[atBornHost+born:], uint64(storeTimestamp))
	if withCRC {
		putPropCRC(rec)
	}
}

// PutBlank writes the head of a blank that fills the left bytes of a segment.
func PutBlank(dst []byte, left int32) {
	be.PutUint32(dst, uint32(left))
	be.PutUint32(dst[atMagic:], MagicBlank)
}
