package consumequeue

import (
	"encoding/binary"
	"math"

	"github.com/warmlog/warmlog/message"
)

// Sizes in bytes.
const (
	EntrySize       = 20
	DefaultFileSize = 300_000 * EntrySize
)

// ErrEntry is the damage of an entry that names no record of its queue.
var ErrEntry = message.NewKind("bad-queue-entry", "the entry does not name a record of its queue")

// Entry says where the record of one message lies.
type Entry struct {
	Offset  int64 // physical offset of the record
	Size    int32 // bytes of the record
	TagCode int64
}

// Decode reads an entry of EntrySize bytes.
func Decode(b []byte) Entry {
	_ = b[EntrySize-1]
	be := binary.BigEndian
	return Entry{int64(be.Uint64(b)), int32(be.Uint32(b[8:])), int64(be.Uint64(b[12:]))}
}

// AppendTo appends the encoded entry.
func (e Entry) AppendTo(b []byte) []byte {
	be := binary.BigEndian
	b = be.AppendUint64(b, uint64(e.Offset))
	b = be.AppendUint32(b, uint32(e.Size))
	return be.AppendUint64(b, uint64(e.TagCode))
}

// Filler is the entry that fills the head of a queue's first file. Source:
// ConsumeQueue.fillPreBlank.
var Filler = Entry{Size: math.MaxInt32}

// Real reports whether the entry could be one of a message: not one that was never
// written, nor a filler, nor one that reaches past all offsets.
func (e Entry) Real() bool {
	return e.Offset >= 0 && e.Size > 0 && e.Size != Filler.Size && e.End() > e.Offset
}

// lostSize marks what stands for an entry whose record the log does not have.
const lostSize = -1

// lost returns what stands for an entry whose record the log does not have: no Real entry,
// with its place in the log if it had one.
func (e Entry) lost() Entry {
	if at, ok := e.Place(); ok {
		return Entry{Offset: at, Size: lostSize}
	}
	return Entry{}
}

// Place returns where in the log the record should lie, and false where that is not known.
func (e Entry) Place() (int64, bool) { return e.Offset, e.Real() || e.Size == lostSize }

// End returns the physical offset behind the record.
func (e Entry) End() int64 { return e.Offset + int64(e.Size) }

// EntryOf returns the entry of a record that lies at a physical offset.
func EntryOf(v *message.View, off int64) Entry { return Entry{off, v.Size(), v.TagCode()} }
