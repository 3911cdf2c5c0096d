package keyindex

import (
	"encoding/binary"
	"math"
)

// Sizes in bytes, and RocketMQ's default numbers (maxHashSlotNum, maxIndexNum).
const (
	HeaderSize = 40
	SlotSize   = 4
	EntrySize  = 20

	DefaultSlots   = 5_000_000
	DefaultEntries = 20_000_000
)

var be = binary.BigEndian

// Header is the head of an index file as it is stored.
type Header struct {
	BeginTimestamp, EndTimestamp int64 // store times of the first and the last key's record, ms
	BeginOffset, EndOffset       int64 // where these two records begin in the commit log
	SlotsUsed                    int32 // slots that are not 0
	Count                        int32 // number of the next entry; 0 and below count as 1
}

// ParseHeader decodes the first [HeaderSize] bytes of b.
func ParseHeader(b []byte) Header {
	return Header{
		int64(be.Uint64(b)), int64(be.Uint64(b[8:])),
		int64(be.Uint64(b[16:])), int64(be.Uint64(b[24:])),
		int32(be.Uint32(b[32:])), int32(be.Uint32(b[36:])),
	}
}

// Keys returns how many entries the file has. Source: IndexHeader.load.
func (h Header) Keys() int32 { return max(h.Count, 1) - 1 }

// Entry is one entry as it is stored.
type Entry struct {
	Hash    int32 // see Hash
	Offset  int64 // where the record begins in the commit log
	Seconds int32 // see Seconds
	Prev    int32 // number of the previous entry of the chain, 0 for none
}

// ParseEntry decodes the first [EntrySize] bytes of b.
func ParseEntry(b []byte) Entry {
	return Entry{int32(be.Uint32(b)), int64(be.Uint64(b[4:])), int32(be.Uint32(b[12:])), int32(be.Uint32(b[16:]))}
}

// Seconds returns the time that an entry stores: whole seconds from begin, the file's
// begin timestamp at that moment, to the record's store time, both in ms. What is negative
// becomes 0, and so does everything while the file has no begin timestamp. Source:
// IndexFile.putKey.
func Seconds(begin, store int64) int32 {
	if begin <= 0 || store < begin {
		return 0
	}
	return int32(min((store-begin)/1000, math.MaxInt32))
}

// storeTimes returns the bounds, in ms and inclusive, between which the store time of
// entry n's record is proven to lie. Seconds of 0 and of the maximum are clamped values
// and prove one side only; those of entry 1 prove nothing: they were computed from another
// begin timestamp. Seconds beyond the end timestamp can come from a clock that was set
// back, or from damage: they prove nothing either.
//
// A second is given away on both sides, so that a begin timestamp that is wrong by less
// than what [file.fits] notices cannot hide a record.
func (h Header) storeTimes(n int32, e Entry) (lo, hi int64) {
	const slack = 1000
	lo, hi = math.MinInt64, math.MaxInt64
	if n <= 1 || h.BeginTimestamp <= 0 || h.BeginTimestamp >= 1<<53 || e.Seconds < 0 || e.Seconds > Seconds(h.BeginTimestamp, h.EndTimestamp) {
		return lo, hi
	}
	at := h.BeginTimestamp + 1000*int64(e.Seconds)
	if e.Seconds > 0 {
		lo = at - slack
	}
	if e.Seconds < math.MaxInt32 {
		hi = at + 999 + slack
	}
	return lo, hi
}
