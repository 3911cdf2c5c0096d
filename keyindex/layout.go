package keyindex

import (
	"bytes"
	"io"
	"math"
)

// Layout is how many slots and entries a file has room for. Entry 0 is never used, so it
// holds at most Entries-1 keys.
type Layout struct{ Slots, Entries int32 }

// Size returns the bytes of the file.
func (l Layout) Size() int64 { return l.EntryAt(l.Entries) }

// SlotAt returns where slot i stands in the file.
func (l Layout) SlotAt(i int32) int64 { return HeaderSize + SlotSize*int64(i) }

// EntryAt returns where entry n stands in the file.
func (l Layout) EntryAt(n int32) int64 { return l.SlotAt(l.Slots) + EntrySize*int64(n) }

// withSlots returns the layout of a file of that size, if there is one.
func withSlots(size, slots int64) (Layout, bool) {
	left := size - HeaderSize - SlotSize*slots
	if slots < 1 || slots > math.MaxInt32 || left < EntrySize || left%EntrySize != 0 || left/EntrySize > math.MaxInt32 {
		return Layout{}, false
	}
	return Layout{int32(slots), int32(left / EntrySize)}, true
}

// findLayout says how a file is divided. The header does not hold it, and it can be set in
// the broker. With slots given, the size says the rest. Otherwise four entries per slot is
// what RocketMQ's defaults have and what is tried first; the content has the last word.
// The zero Layout without an error means: not known, and nothing to be read, since there
// is no key yet.
func findLayout(f io.ReaderAt, size int64, h *Header, slots int32) (Layout, error) {
	if size > math.MaxInt32 {
		return Layout{}, ErrLayout // Java cannot map it: nobody wrote it as an index file
	}
	if slots > 0 {
		if l, ok := withSlots(size, int64(slots)); ok {
			return l, nil
		}
		return Layout{}, ErrLayout
	}
	if size < HeaderSize+SlotSize+EntrySize || size%SlotSize != 0 {
		return Layout{}, ErrLayout
	}
	const perSlot = SlotSize + 4*EntrySize
	usual, ok := withSlots(size, (size-HeaderSize)/perSlot)
	ok = ok && usual.Entries == 4*usual.Slots
	if h.Keys() == 0 {
		return usual, nil
	}
	if ok && (usual.Slots == DefaultSlots || explains(f, usual, h)) {
		return usual, nil // of the default size no other division is to be expected
	}
	if l, found := searchLayout(f, size, h); found {
		return l, nil
	}
	if ok {
		return usual, nil // its damage will be found and named more exactly
	}
	return Layout{}, ErrLayout
}

// searchLayout looks for the place of the entries in a file with keys. Entry 0 is zero;
// entry 1 has no predecessor and names the header's begin offset: every place that looks
// so, in steps of an entry, is a candidate, and its slots and its last entry decide. One
// candidate must remain. This reads the file up to the candidates, which costs a fraction of
// a second for a default file in memory; the index remembers the outcome.
func searchLayout(f io.ReaderAt, size int64, h *Header) (found Layout, ok bool) {
	const (
		stride = 256 << 10 / EntrySize * EntrySize
		tries  = 1000 // candidates that are looked at more closely
	)
	var zero [EntrySize]byte
	var begin [8]byte
	be.PutUint64(begin[:], uint64(h.BeginOffset))
	block := make([]byte, stride+EntrySize)
	// The first place of entry 0 that leaves a whole number of entries behind it.
	first := HeaderSize + SlotSize + (size-HeaderSize-SlotSize)%EntrySize
	looked := 0
	for at := first; at+2*EntrySize <= size; at += stride {
		n, err := f.ReadAt(block, at)
		if err != nil && err != io.EOF {
			return Layout{}, false
		}
		for i := 0; i+2*EntrySize <= n && i < stride; i += EntrySize {
			one := block[i+EntrySize : i+2*EntrySize]
			if !bytes.Equal(block[i:i+EntrySize], zero[:]) || !bytes.Equal(one[4:12], begin[:]) ||
				!bytes.Equal(one[16:], zero[:4]) || bytes.Equal(one, zero[:]) {
				continue
			}
			l, fits := withSlots(size, (at+int64(i)-HeaderSize)/SlotSize)
			if looked++; looked > tries {
				return Layout{}, false
			}
			if !fits || !explains(f, l, h) {
				continue
			}
			if ok {
				return Layout{}, false // two explanations are none
			}
			found, ok = l, true
		}
	}
	return found, ok
}

// explains reports whether a header with keys and a layout fit the content: the first and
// the last entry.
func explains(f io.ReaderAt, l Layout, h *Header) bool {
	x := &file{at: f, layout: l}
	return x.fits(h) == nil
}
