package consumequeue

import (
	"errors"
	"io"

	"github.com/warmlog/warmlog/internal/mapfile"
)

// Entries that are not known to be in memory are read by blocks, which are remembered for a
// reader who goes on: so a backlog costs one read of the queue for many pulls, though nothing of
// the queue's file stays in the page cache.
const blockBytes = 16 << 10

// block is the entries whose first byte lies in one block of a file. Immutable.
type block struct {
	files *files // as they were: others can have other entries
	first int64  // entry of the file
	bytes []byte
}

// slice returns some entries of a file from off on, below end, and what keeps them valid, nil for
// nothing. Nothing is returned where the file is missing.
func (f *files) slice(off, end int64) ([]byte, interface{ Release() }, error) {
	slot, at := f.slot(off)
	if slot == nil {
		return nil, nil, nil
	}
	file, err := slot.Acquire()
	if err != nil {
		return nil, nil, unlessGone(err)
	}
	// A page that is not in memory must not be touched: the entries up to where something else
	// is remembered are as far as one look goes.
	from := at * EntrySize
	most := from + min(f.per-at, max(end-off, 1))*EntrySize
	to := min(mapfile.RegionEnd(from), most)
	if to -= to % EntrySize; to <= from {
		to = from + EntrySize
	}
	r, _ := file.Known(from, to-from)
	if r == mapfile.Unknown {
		r = file.Ask(from, to-from).Presence
	}
	if r == mapfile.InMemory {
		return file.Bytes()[from:to:to], file, nil
	}
	defer file.Release()
	b, err := f.block(slot, file, at, most)
	if err != nil {
		return nil, nil, err
	}
	entries := b.bytes[min((at-b.first)*EntrySize, int64(len(b.bytes))):]
	return entries[:min(int64(len(entries)), most-from)], nil, nil
}

// block returns the block with an entry of a file. Bytes from most on may not be there yet, and are
// not remembered.
func (f *files) block(slot *mapfile.Slot, file *mapfile.File, at, most int64) (*block, error) {
	from := at * EntrySize / blockBytes * blockBytes
	b, _ := slot.Kept(from).(*block)
	if b != nil && b.files == f && (at+1-b.first)*EntrySize <= int64(len(b.bytes)) {
		return b, nil
	}
	b = &block{files: f, first: (from + EntrySize - 1) / EntrySize}
	to := min((from+blockBytes+EntrySize-1)/EntrySize*EntrySize, most)
	b.bytes = make([]byte, to-b.first*EntrySize)
	n, err := file.ReadCold(b.bytes, b.first*EntrySize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	b.bytes = b.bytes[:n-n%EntrySize] // a file that was shortened has fewer
	slot.Keep(from, b)
	return b, nil
}
