package getmessage

import (
	"context"
	"errors"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/message"
)

// scan is row 5 of the state table: an offset within the bounds of its queue.
type scan struct {
	*Reader
	q Queue
	b *Batch

	// Of the request. Not a pointer to it: that would move each caller's request to the heap.
	group     string
	topic     string
	queueID   int32
	filter    Filter
	want      int   // messages
	wantBytes int64 // of records

	logMax    int64
	threshold int64
	fresh     int64 // see Log.Fresh

	// mode is that of the records taken so far: they are wholly slices of the log, or wholly
	// copies of it.
	mode mode
	// calls is how often the kernel was asked.
	calls int

	pulled  int64 // physical offset of the last entry reached
	reached bool
	touched byte // keeps the compiler from leaving TouchHeads out

	// The bytes that records are taken from, and the physical offset of the first: those of
	// the segment of the last record, or those that were read by system call.
	base   int64
	data   []byte
	copied bool
	// The segment that was mapped last. What data was read into keeps no place of its own.
	mem             Memory
	memBase, memEnd int64
	memData         []byte

	// rest are the entries from the one at hand on, in their piece.
	rest []byte
	// The record that the next pull reads first; nextTo is 0 where it is not known, or there is none.
	nextFrom, nextTo int64

	// Entries below this physical offset are of a part that was removed.
	skipUntil int64
}

// missing stands for an entry that a queue does not have.
var missing [consumequeue.EntrySize]byte

// run goes over the queue's entries from an offset on, to the end of the queue or of its
// file at the most.
func (s *scan) run(ctx context.Context, off int64) error {
	per := s.q.FileEntries()
	end := min(s.b.MaxOffset, off-off%per+per)
	// How many entries to look at when a filter rejects them.
	look := max((s.Limits.FilterBytes+consumequeue.EntrySize-1)/consumequeue.EntrySize, int64(s.want))
	end = off + min(look, end-off)
	for off < end {
		entries, held, err := s.q.Slice(off)
		if err != nil {
			return err
		}
		if len(entries) < consumequeue.EntrySize {
			entries = missing[:]
		}
		s.b.pin = held // released by the batch if a fault cuts this short
		var full bool
		first := off
		off, full, err = s.entries(ctx, entries, off, end)
		if err == nil && off-first < int64(len(entries)/consumequeue.EntrySize) {
			s.next(entries[(off-first)*consumequeue.EntrySize:])
		}
		s.b.unpin()
		s.b.NextOffset = off
		if err != nil && len(s.b.records) > 0 && ctx.Err() == nil {
			return nil // what was found is given; the next pull meets what is wrong
		}
		if err != nil || full {
			return err
		}
	}
	return nil
}

// entries takes the messages of encoded entries, the first for offset off. It returns the
// offset behind the last entry that was dealt with, and whether the batch is full.
func (s *scan) entries(ctx context.Context, entries []byte, off, end int64) (next int64, full bool, err error) {
	checked := s.q.Checked()
	for len(entries) >= consumequeue.EntrySize && off < end {
		n := 0
		if off >= checked && s.filter == nil && s.mode != cold {
			n = s.plain(entries[:min(int64(len(entries)), (end-off)*consumequeue.EntrySize)], off)
		}
		if n == 0 {
			s.rest = entries
			full, err := s.entry(ctx, consumequeue.Decode(entries), off, false)
			if err != nil || full {
				return off, full, err
			}
			n = 1
		}
		off, entries = off+int64(n), entries[n*consumequeue.EntrySize:]
		if len(s.b.records) >= max(s.want, 1) {
			return off, true, nil
		}
	}
	return off, false, nil
}

// entry takes or passes over one message. full means that it was left for the next pull.
// The order of the tests is RocketMQ's. healed says that the log itself gave the entry.
func (s *scan) entry(ctx context.Context, e consumequeue.Entry, off int64, healed bool) (full bool, err error) {
	b := s.b
	if b.Bytes >= s.wantBytes {
		return true, nil
	}
	if !e.Real() {
		return s.damaged(ctx, e, off, healed, consumequeue.ErrEntry)
	}
	if s.Limits.full(len(b.records), b.Bytes, int64(e.Size), s.want, s.wantBytes, s.inMemory(e)) {
		return true, nil
	}
	if e.Offset < s.skipUntil {
		s.reach(e)
		return false, nil
	}
	filter := s.filter
	if filter != nil && !filter.MatchEntry(e.TagCode) {
		s.reach(e)
		s.passed(NoMatchedMessage)
		return false, nil
	}
	if full, err := s.reachable(ctx, e); full || err != nil {
		if err != nil {
			return s.rejected(ctx, e, off, healed, err)
		}
		return true, nil
	}
	v, err := s.record(e)
	if err == nil && !v.Is(s.topic, s.queueID, off) {
		err = message.ErrOtherEntry
	}
	if err != nil {
		return s.rejected(ctx, e, off, healed, err)
	}
	s.reach(e)
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

// reach notes how far into the log the pull came: entries that are left for the next one do
// not count.
func (s *scan) reach(e consumequeue.Entry) { s.pulled, s.reached = e.Offset, true }

// record returns the record that an entry points to, checked for its structure, place and
// size. Its bytes may be touched: see reachable.
func (s *scan) record(e consumequeue.Entry) (message.View, error) {
	v, err := message.Decode(s.data[e.Offset-s.base:])
	switch {
	case err != nil:
	case v.Size() != e.Size:
		err = message.ErrOtherEntry
	case v.PhysicalOffset() != e.Offset:
		err = v.At(e.Offset)
	case !v.Whole() && !s.Log.Reaches(e.End()):
		err = message.ErrTruncated
	}
	return v, err
}

// passed notes why a message was passed over, for a batch without any so far.
func (s *scan) passed(status Status) {
	if len(s.b.records) == 0 {
		s.b.Status = status
	}
}

// rejected deals with a record that could not be taken.
func (s *scan) rejected(ctx context.Context, e consumequeue.Entry, off int64, healed bool, err error) (bool, error) {
	var placed *message.DamageError // names a file already: a segment out of service
	switch {
	case errors.Is(err, ErrRemoved):
		// Everything below the log's minimum went with it.
		s.reach(e)
		s.skipUntil, _ = s.Log.Bounds()
		s.passed(MessageWasRemoving)
		return false, nil
	case errors.Is(err, message.ErrDamaged) && !errors.As(err, &placed):
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
	if at, ok := e.Place(); ok && at < s.logMax {
		damage = s.Log.Damage(at, cause)
	}
	if s.Strict {
		return false, damage
	}
	if e.Real() && e.Offset < s.logMax {
		s.reach(e)
	}
	s.b.Damaged = append(s.b.Damaged, damage)
	s.passed(MessageWasRemoving)
	return false, nil
}
