package message

import (
	"encoding/binary"
	"net/netip"
)

var be = binary.BigEndian

// View is a decoded record over bytes that it does not own. The zero View is no record:
// its accessors must not be called.
type View struct {
	raw      []byte // the whole record
	bodyLen  int32
	topicLen uint16
	propsLen uint16
	bodyAt   uint8
	topicK   uint8 // bytes of the topic's length: 1 or 2
}

// Size returns the total size that stands at the head of a record or of a blank, and
// its magic. b has at least [BlankSize] bytes.
func Size(b []byte) (size int32, magic uint32) {
	return int32(be.Uint32(b)), be.Uint32(b[atMagic:])
}

// Decode makes a view of the record at the head of b. It checks the structure: magic,
// total size, that the lengths inside add up to it, that b holds it. It checks neither
// checksum ([View.Check]) nor position ([View.PhysicalOffset]). Nothing is copied or
// allocated.
func Decode(b []byte) (View, error) {
	if len(b) < BlankSize {
		return View{}, ErrTruncated
	}
	size, magic := Size(b)
	k := 1
	switch magic {
	case MagicV1:
	case MagicV2:
		k = 2
	default:
		return View{}, ErrMagic
	}
	if size < MinSize {
		return View{}, ErrSize
	}
	if int(size) > len(b) {
		return View{}, ErrTruncated
	}
	b = b[:size:size]
	body := bodyAt(int32(be.Uint32(b[atSysFlag:])))
	// The total is at least MinSize, but the hosts may be longer: check before reading on.
	if int(size) < body+k+2 {
		return View{}, ErrLengths
	}
	bodyLen := int64(int32(be.Uint32(b[body-4:])))
	topic := int64(body) + bodyLen // where the topic's length stands
	if bodyLen < 0 || topic+int64(k)+2 > int64(size) {
		return View{}, ErrLengths
	}
	topicLen := int64(b[topic])
	if k == 2 {
		topicLen = topicLen<<8 | int64(b[topic+1])
	}
	if topicLen > MaxTopicV1 && (k == 1 || topicLen > 0x7FFF) {
		return View{}, ErrLengths // signed in Java: such a record cannot be written
	}
	props := topic + int64(k) + topicLen
	if props+2 > int64(size) {
		return View{}, ErrLengths
	}
	propsLen := be.Uint16(b[props:])
	if propsLen > MaxProperties || props+2+int64(propsLen) != int64(size) {
		return View{}, ErrLengths
	}
	return View{b, int32(bodyLen), uint16(topicLen), propsLen, uint8(body), uint8(k)}, nil
}

// Raw returns the whole record.
func (v *View) Raw() []byte { return v.raw }

// Size returns the bytes of the whole record.
func (v *View) Size() int32 { return int32(len(v.raw)) }

// Version returns 1 or 2: the number of bytes of the topic's length.
func (v *View) Version() int { return int(v.topicK) }

// BodyCRC returns the stored checksum of the body.
func (v *View) BodyCRC() uint32 { return be.Uint32(v.raw[atBodyCRC:]) }

// QueueID returns the number of the queue within the topic.
func (v *View) QueueID() int32 { return int32(be.Uint32(v.raw[atQueueID:])) }

// Flag returns the user's flag.
func (v *View) Flag() int32 { return int32(be.Uint32(v.raw[atFlag:])) }

// QueueOffset returns the index of the message in its queue.
func (v *View) QueueOffset() int64 { return int64(be.Uint64(v.raw[atQueueOffset:])) }

// PhysicalOffset returns the byte position in the commit log that the record claims.
func (v *View) PhysicalOffset() int64 { return int64(be.Uint64(v.raw[atPhysical:])) }

// SysFlag returns the system flags.
func (v *View) SysFlag() int32 { return int32(be.Uint32(v.raw[atSysFlag:])) }

// BornTimestamp returns the producer's time in ms since 1970.
func (v *View) BornTimestamp() int64 { return int64(be.Uint64(v.raw[atBornTimestamp:])) }

// StoreTimestamp returns the time of the append in ms since 1970.
func (v *View) StoreTimestamp() int64 {
	return int64(be.Uint64(v.raw[atBornHost+v.bornSize():]))
}

// BornHost returns the producer's address.
func (v *View) BornHost() netip.AddrPort {
	return hostOf(v.raw[atBornHost : atBornHost+v.bornSize()])
}

// StoreHost returns the address of the broker that stored the message.
func (v *View) StoreHost() netip.AddrPort { return hostOf(v.storeHost()) }

// ReconsumeTimes returns how often the message was sent back for another try.
func (v *View) ReconsumeTimes() int32 { return int32(be.Uint32(v.raw[v.bodyAt-16:])) }

// PreparedTransactionOffset returns the physical offset of the half message of a
// committed transaction.
func (v *View) PreparedTransactionOffset() int64 { return int64(be.Uint64(v.raw[v.bodyAt-12:])) }

// Body returns the body as stored: compressed if SysFlag says so (see [View.DecodedBody]).
func (v *View) Body() []byte {
	end := int(v.bodyAt) + int(v.bodyLen)
	return v.raw[v.bodyAt:end:end]
}

// Topic returns the topic's bytes.
func (v *View) Topic() []byte {
	from := int(v.bodyAt) + int(v.bodyLen) + int(v.topicK)
	return v.raw[from : from+int(v.topicLen) : from+int(v.topicLen)]
}

// Properties returns the encoded properties; see [Properties] for what is in them.
func (v *View) Properties() Properties {
	return Properties(v.raw[len(v.raw)-int(v.propsLen):])
}

// Property returns the value of a property, nil if it is absent.
func (v *View) Property(name string) []byte { return v.Properties().Get(name) }

// Transaction returns the transaction bits of SysFlag: 0, [SysFlagPrepared],
// [SysFlagCommit] or [SysFlagRollback].
func (v *View) Transaction() int32 { return v.SysFlag() & SysFlagTransactionMask }

// Queued reports whether the record has an entry in its consume queue: prepared and
// rollback records have none.
func (v *View) Queued() bool {
	t := v.Transaction()
	return t == 0 || t == SysFlagCommit
}

// bornSize and storeHost take the hosts' sizes from the view, not from the bytes: the
// body's position, checked once, says whether there is room for two, one or no IPv6
// address; only which of two is the long one has to be read again.
func (v *View) bornSize() int {
	switch v.bodyAt {
	case minHeader:
		return hostV4
	case HeaderSize:
		return hostV6
	}
	return bornHostSize(v.SysFlag())
}

func (v *View) storeHost() []byte {
	end := int(v.bodyAt) - 16
	return v.raw[atBornHost+v.bornSize()+8 : end : end]
}

// PlausibleHead reports whether the head of a record ([HeaderSize] bytes) fits its total
// size and its position, so that it is worth reading or allocating as much as the total
// size says.
func PlausibleHead(head []byte, pos int64) bool {
	const mostBehindBody = 2 + 0x7FFF + 2 + MaxProperties
	body := bodyAt(int32(be.Uint32(head[atSysFlag:])))
	behind := int64(int32(be.Uint32(head))) - int64(body) - int64(int32(be.Uint32(head[body-4:])))
	return int64(be.Uint64(head[atPhysical:])) == pos && behind > 0 && behind <= mostBehindBody
}

// Is reports whether the record is message off of a queue: its own, or one of those to
// which it was dispatched besides (light message queues, see [PropMultiDispatch]).
func (v *View) Is(topic string, queueID int32, off int64) bool {
	if v.QueueOffset() == off && v.QueueID() == queueID && string(v.Topic()) == topic {
		return v.Queued()
	}
	return v.dispatchedTo(topic, queueID, off)
}
