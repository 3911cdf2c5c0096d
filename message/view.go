package message

import (
	"encoding/binary"
	"math"
	"net/netip"

	"github.com/warmlog/warmlog/internal/poison"
)

var be = binary.BigEndian

// View is a record over bytes that it does not own. The zero View is no record: its
// accessors must not be called. [Decode] makes a View whose structure was checked.
//
// An accessor reads the lengths that it needs from the bytes, and returns nothing (nil, 0,
// an invalid address) where they lead out of the record. So none of them panics, whatever
// happens to the bytes meanwhile, as it may to those of a mapped file.
type View struct {
	raw []byte // the whole record, MinSize bytes at the least
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
	switch {
	case magic != MagicV1 && magic != MagicV2:
		return View{}, ErrMagic
	case size < MinSize:
		return View{}, ErrSize
	case int(size) > len(b):
		return View{}, ErrTruncated
	}
	v := View{b[:size:size]}
	if _, ok := v.properties(); !ok {
		return View{}, ErrLengths
	}
	return v, nil
}

// Raw returns the whole record.
func (v *View) Raw() []byte { return v.live() }

// live returns the record's bytes. A debug build panics where their batch was released. What
// an accessor reads behind SysFlag, which decides where that lies, it takes from raw.
func (v *View) live() []byte {
	poison.Check(v.raw)
	return v.raw
}

// Size returns the bytes of the whole record.
func (v *View) Size() int32 { return int32(len(v.raw)) }

// Version returns 1 or 2: the number of bytes of the topic's length.
func (v *View) Version() int {
	if be.Uint32(v.live()[atMagic:]) == MagicV2 {
		return 2
	}
	return 1
}

// BodyCRC returns the stored checksum of the body.
func (v *View) BodyCRC() uint32 { return be.Uint32(v.live()[atBodyCRC:]) }

// QueueID returns the number of the queue within the topic.
func (v *View) QueueID() int32 { return int32(be.Uint32(v.live()[atQueueID:])) }

// Flag returns the user's flag.
func (v *View) Flag() int32 { return int32(be.Uint32(v.live()[atFlag:])) }

// QueueOffset returns the index of the message in its queue.
func (v *View) QueueOffset() int64 { return int64(be.Uint64(v.live()[atQueueOffset:])) }

// PhysicalOffset returns the byte position in the commit log that the record claims.
func (v *View) PhysicalOffset() int64 { return int64(be.Uint64(v.live()[atPhysical:])) }

// SysFlag returns the system flags.
func (v *View) SysFlag() int32 { return int32(be.Uint32(v.live()[atSysFlag:])) }

// BornTimestamp returns the producer's time in ms since 1970.
func (v *View) BornTimestamp() int64 { return int64(be.Uint64(v.live()[atBornTimestamp:])) }

// StoreTimestamp returns the time of the append in ms since 1970.
func (v *View) StoreTimestamp() int64 {
	return int64(be.Uint64(v.raw[atBornHost+bornHostSize(v.SysFlag()):]))
}

// BornHost returns the producer's address.
func (v *View) BornHost() netip.AddrPort {
	return hostOf(v.raw[atBornHost : atBornHost+bornHostSize(v.SysFlag())])
}

// StoreHost returns the address of the broker that stored the message.
func (v *View) StoreHost() netip.AddrPort { return hostOf(v.storeHost()) }

func (v *View) storeHost() []byte {
	flag := v.SysFlag()
	from, to := atBornHost+bornHostSize(flag)+8, bodyAt(flag)-16
	if to > len(v.raw) {
		return nil
	}
	return v.raw[from:to:to]
}

// ReconsumeTimes returns how often the message was sent back for another try.
func (v *View) ReconsumeTimes() int32 {
	at := bodyAt(v.SysFlag()) - 16
	if at+4 > len(v.raw) {
		return 0
	}
	return int32(be.Uint32(v.raw[at:]))
}

// PreparedTransactionOffset returns the physical offset of the half message of a
// committed transaction.
func (v *View) PreparedTransactionOffset() int64 {
	at := bodyAt(v.SysFlag()) - 12
	if at+8 > len(v.raw) {
		return 0
	}
	return int64(be.Uint64(v.raw[at:]))
}

// Body returns the body as stored: compressed if SysFlag says so (see [View.DecodedBody]).
func (v *View) Body() []byte {
	from, to, _ := v.body()
	return v.raw[from:to:to]
}

// Topic returns the topic's bytes.
func (v *View) Topic() []byte {
	from, to, _ := v.topic()
	return v.raw[from:to:to]
}

// Properties returns the encoded properties; see [Properties] for what is in them.
func (v *View) Properties() Properties {
	from, _ := v.properties()
	return Properties(v.raw[from:])
}

// Property returns the value of a property, nil if it is absent.
func (v *View) Property(name string) []byte { return v.Properties().Get(name) }

// Transaction returns the transaction bits of SysFlag: 0, [SysFlagPrepared],
// [SysFlagCommit] or [SysFlagRollback].
func (v *View) Transaction() int32 { return v.SysFlag() & SysFlagTransactionMask }

// Queued reports whether the record has an entry in its consume queue: prepared and
// rollback records have none.
func (v *View) Queued() bool {
	return v.SysFlag()&SysFlagPrepared == 0 // a rollback has that bit too
}

// body, topic and properties return where the three parts of variable length lie, each
// found behind the one before. ok is false, and the part empty, where the lengths lead out
// of the record; for properties, which end with the record, also where they do not.

func (v *View) body() (from, to int, ok bool) {
	from = bodyAt(v.SysFlag())
	if from > len(v.raw) {
		return 0, 0, false
	}
	n := uint(be.Uint32(v.raw[from-4:])) // a negative one is larger than any record
	if n > uint(len(v.raw)-from) {
		return 0, 0, false
	}
	return from, from + int(n), true
}

func (v *View) topic() (from, to int, ok bool) {
	_, at, ok := v.body()
	if !ok || at+2 > len(v.raw) { // properties follow: two bytes at the least
		return 0, 0, false
	}
	var n, limit int
	if v.Version() == 1 {
		from, n, limit = at+1, int(v.raw[at]), MaxTopicV1
	} else {
		from, n, limit = at+2, int(be.Uint16(v.raw[at:])), math.MaxInt16
	}
	// The lengths are signed in Java: a record with a longer topic cannot be written.
	if n > limit || n > len(v.raw)-from {
		return 0, 0, false
	}
	return from, from + n, true
}

func (v *View) properties() (from int, ok bool) {
	_, at, ok := v.topic()
	if !ok || at+2 > len(v.raw) {
		return len(v.raw), false
	}
	n := int(be.Uint16(v.raw[at:]))
	if n > MaxProperties || at+2+n != len(v.raw) {
		return len(v.raw), false
	}
	return at + 2, true
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
