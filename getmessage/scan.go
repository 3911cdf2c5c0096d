package getmessage

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/message"
)

// scan is row 5 of the state table: an offset within the bounds of its queue.
type scan struct {
	*Reader
	q         Queue
	req       Request // a copy: a pointer would move each caller's request to the heap
	b         *Batch
	want      int   // messages
	wantBytes int64 // of records
	logMax    int64
	threshold int64

	pulled  int64 // physical offset of the last entry reached
	reached bool

	// The segment of the last record: the next one in it costs no look-up.
	base int64
	data []byte

	// Entries below this physical offset are of a part that was removed.
	skipUntil int64

	touched byte // keeps the compiler from leaving touch out
}

// missing stands for an entry that a queue does not have.
var missing [consumequeue.EntrySize]byte

// run goes over the queue's entries from the requested offset on, to the end of the queue
// or of its file at the most.
func (s *scan) run(ctx context.Context) error {
	s.want, s.wantBytes = s.req.wanted()
	off := s.req.Offset
	per := s.q.FileEntries()
	end := min(s.b.MaxOffset, off-off%per+per)
	// How many entries to look at when a filter rejects them.
	look := max((s.Limits.FilterBytes+consumequeue.EntrySize-1)/consumequeue.EntrySize, int64(s.want))
	end = off + min(look, end-off)
	for off < end {
		entries, ref, err := s.q.Slice(off)
		if err != nil {
			return err
		}
		if len(entries) < consumequeue.EntrySize {
			entries = missing[:]
		}
		s.b.pin = ref // released by the batch if a fault cuts this short
		var full bool
		off, full, err = s.entries(ctx, entries, off, end)
		s.b.unpin()
		s.b.NextOffset = off
		if len(s.b.records) > 0 {
			s.b.Status = Found
		}
		if err != nil || full {
			return err
		}
	}
	return nil
}

// entries takes the messages of encoded entries, the first for offset off. It returns the
// offset behind the last entry that was dealt with, and whether the batch is full.
//
// The loop is the hot path: a message near the end of the log, that this process has seen
// whole, in the segment at hand. Of its record only the head is read, to be sure that it is
// still the one that the entry names. Everything else is for entry.
func (s *scan) entries(ctx context.Context, entries []byte, off, end int64) (next int64, full bool, err error) {
	b := s.b
	id := message.Identity{Topic: s.req.Topic, QueueID: s.req.QueueID}
	checked, memoryFrom := s.q.Checked(), s.logMax-s.threshold
	most, mostBytes := min(s.want, s.Limits.MemoryMessages), min(s.wantBytes, s.Limits.MemoryBytes)
	if s.req.Filter != nil {
		most = 0
	}
	if len(s.data) == 0 {
		_ = s.segment(consumequeue.Decode(entries))
	}
	s.touch(entries, min(int64(most), end-off))
	for ; len(entries) >= consumequeue.EntrySize && off < end; off, entries = off+1, entries[consumequeue.EntrySize:] {
		e := consumequeue.Decode(entries)
		at, size := uint64(e.Offset-s.base), uint64(e.Size) // of a negative one, a huge one
		if at >= uint64(len(s.data)) && s.segment(e) == nil {
			at = uint64(e.Offset - s.base)
		}
		if at < uint64(len(s.data)) && size <= uint64(len(s.data))-at && off >= checked && e.Offset >= memoryFrom &&
			len(b.records) < most && b.Bytes+int64(size) <= mostBytes {
			id.QueueOffset, id.PhysicalOffset = off, e.Offset
			if v, ok := message.ViewOf(s.data[at:at+size:at+size], &id); ok {
				b.records = append(b.records, v)
				b.Bytes += int64(size)
				s.pulled, s.reached = e.Offset, true
				continue
			}
		}
		full, err := s.entry(ctx, e, off, false)
		if err != nil || full {
			return off, full, err
		}
	}
	return off, false, nil
}

// touch loads the heads of the next records, all at once. The loop that compares them would
// wait for one cache miss after the other: a processor does not see far enough ahead in it.
func (s *scan) touch(entries []byte, n int64) {
	const headEnd = 39
	data, base := s.data, s.base
	sum := byte(0)
	for ; n > 0 && len(entries) >= consumequeue.EntrySize; n, entries = n-1, entries[consumequeue.EntrySize:] {
		at := uint64(int64(binary.BigEndian.Uint64(entries)) - base)
		if at+headEnd >= uint64(len(data)) {
			break
		}
		sum += data[at] + data[at+headEnd]
	}
	s.touched = sum
}

// entry takes or passes over one message. full means that it was left for the next pull.
// The order of the tests is RocketMQ's. healed says that the log itself gave the entry.
func (s *scan) entry(ctx context.Context, e consumequeue.Entry, off int64, healed bool) (full bool, err error) {
	b := s.b
	if !e.Real() {
		return s.damaged(ctx, e, off, healed, consumequeue.ErrEntry)
	}
	inMemory := s.logMax-e.Offset <= s.threshold
	if s.Limits.full(len(b.records), b.Bytes, int64(e.Size), s.want, s.wantBytes, inMemory) || b.Bytes >= s.wantBytes {
		return true, nil
	}
	s.pulled, s.reached = e.Offset, true
	if e.Offset < s.skipUntil {
		return false, nil
	}
	filter := s.req.Filter
	if filter != nil && !filter.MatchEntry(e.TagCode) {
		s.passed(NoMatchedMessage)
		return false, nil
	}
	v, err := s.record(e)
	if err == nil && !v.Is(s.req.Topic, s.req.QueueID, off) {
		err = message.ErrOtherEntry
	}
	if err != nil {
		return s.rejected(ctx, e, off, healed, err)
	}
	n := len(b.records)
	b.records = append(b.records, v)
	if filter != nil && !filter.MatchRecord(e.TagCode, &b.records[n]) {
		b.records = b.records[:n]
		s.passed(NoMatchedMessage)
		return false, nil
	}
	b.Bytes += int64(e.Size)
	return false, nil
}

// record returns the record that an entry points to, checked for its structure, place and
// size.
func (s *scan) record(e consumequeue.Entry) (message.View, error) {
	at := e.Offset - s.base
	if uint64(at) >= uint64(len(s.data)) {
		if err := s.segment(e); err != nil {
			return message.View{}, err
		}
		at = e.Offset - s.base
	}
	v, err := message.Decode(s.data[at:])
	if err == nil && (v.Size() != e.Size || v.PhysicalOffset() != e.Offset) {
		err = message.ErrMisplaced
	}
	return v, err
}

// segment makes base and data those of the segment that an entry points into. The batch
// holds one reference of each.
func (s *scan) segment(e consumequeue.Entry) error {
	min, max := s.Log.Bounds()
	switch {
	case e.Offset < min:
		return ErrRemoved
	case e.End() > max:
		return consumequeue.ErrEntry
	}
	base, data, ref, err := s.hot(e.Offset)
	if err != nil {
		return err
	}
	s.base, s.data = base, data
	s.b.refs = append(s.b.refs, ref)
	return nil
}

// passed notes why a message was passed over, for a batch without any so far.
func (s *scan) passed(status Status) {
	if len(s.b.records) == 0 {
		s.b.Status = status
	}
}

// rejected deals with a record that could not be taken.
func (s *scan) rejected(ctx context.Context, e consumequeue.Entry, off int64, healed bool, err error) (bool, error) {
	var kind *message.Kind
	switch {
	case errors.Is(err, ErrRemoved):
		// Everything below the log's minimum went with it.
		s.skipUntil, _ = s.Log.Bounds()
		s.passed(MessageWasRemoving)
		return false, nil
	case errors.As(err, &kind) && error(kind) == err:
		return s.damaged(ctx, e, off, healed, err)
	}
	return false, err // a segment that is out of service, or what the system said
}

// damaged asks the log for the message of an entry that is wrong, or that points to a
// wrong record, and passes over a message that the log does not have either.
func (s *scan) damaged(ctx context.Context, e consumequeue.Entry, off int64, healed bool, cause error) (bool, error) {
	if !healed {
		right, ok, err := s.q.Heal(ctx, off)
		if err != nil {
			return false, err
		}
		if ok && right != e {
			return s.entry(ctx, right, off, true)
		}
	}
	damage := s.q.Damage(off, cause)
	if _, max := s.Log.Bounds(); e.Real() && e.Offset < max {
		damage = s.Log.Damage(e.Offset, cause)
	}
	if s.Strict {
		return false, damage
	}
	s.b.Damaged = append(s.b.Damaged, damage)
	s.passed(MessageWasRemoving)
	return false, nil
}
