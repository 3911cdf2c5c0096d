package warmlog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/warmlog/warmlog/commitlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

// KeyQuery asks for a topic's messages that have a key: their UNIQ_KEY or one of their KEYS.
type KeyQuery struct {
	Topic, Key string
	From, To   int64 // store time, ms since 1970, inclusive; To 0: no bound
	Max        int   // how many of the newest; 0: 64
}

// KeyResult is the answer to a [KeyQuery].
type KeyResult struct {
	// Offsets are the physical offsets of the messages, in ascending order, each once.
	Offsets []int64
	// More says that there are older ones, or that the search was too large and ended early.
	More bool
	// Damaged is what was passed over: parts of the index, which the log stood in for.
	Damaged []*message.DamageError
}

// FindByKey looks up messages by key. Each answer was compared with the record's own topic,
// keys and store time. Where the index cannot answer (it is missing, damaged, or behind the
// log), the log is read.
func (s *Store) FindByKey(ctx context.Context, q KeyQuery) (*KeyResult, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	if _, err := s.follow(ctx); err != nil {
		return nil, err
	}
	trust, err := s.indexTrust()
	if err != nil {
		return nil, err
	}
	if q.Max == 0 {
		q.Max = keyindex.DefaultMax
	}
	q.Max = min(q.Max, mostFound)
	// Who wants many may have many looked at.
	index, err := keyindex.Open(s.paths.Index(), keyindex.Options{Trust: trust, MaxReads: max(leastReads, 2*q.Max), MaxSteps: max(leastSteps, 4*q.Max)})
	if err != nil {
		return nil, err
	}
	min, max := s.Bounds()
	known, err := index.Find(ctx, keyindex.Query{Topic: q.Topic, Key: q.Key, From: q.From, To: q.To, Max: q.Max, LogMin: min, LogEnd: max}, &indexRecords{store: s})
	if err != nil {
		return nil, err
	}
	f := keySearch{store: s, q: q, found: known.Offsets, complete: known.SearchedFrom} // ascending
	if q.To == 0 {
		f.q.To = math.MaxInt64
	}
	more, err := f.scan(ctx, known.Uncovered)
	if err != nil {
		return nil, err
	}
	found := f.found
	if known.Limited {
		// Below this only parts of the log were searched: what was found there is not the
		// newest of what there is.
		i, _ := slices.BinarySearch(found, known.SearchedFrom)
		found = found[i:]
	}
	if n := len(found) - q.Max; n > 0 {
		found, more = found[n:], true
	}
	return &KeyResult{found, more || known.More || known.Limited, known.Damaged}, nil
}

// How many index entries and records a search may look at, at the least.
const (
	mostFound  = 1 << 30 // what a search may be asked for
	leastSteps = 1 << 20
	leastReads = 1 << 16
)

// indexTrust says which index files may be believed. A machine that went down may have lost
// any page of a file that was not yet full; RocketMQ gives such files up at its next start.
func (s *Store) indexTrust() (func(keyindex.Header) bool, error) {
	if !s.abort.Exists {
		return nil, nil
	}
	if held, _, err := layout.Holder(s.paths.Lock()); err != nil || held {
		return nil, err // a living writer's pages are in memory
	}
	return func(h keyindex.Header) bool { return h.EndTimestamp <= s.checkpoint.IndexTime }, nil
}

// indexRecords gives the index the records that its entries name.
type indexRecords struct {
	store *Store
	buf   []byte
}

func (r *indexRecords) Record(off int64) (message.View, error) {
	v, buf, err := r.store.log.ReadRecord(off, 0, r.buf)
	r.buf = buf
	if errors.Is(err, commitlog.ErrGone) || errors.Is(err, commitlog.ErrBeyond) {
		err = fmt.Errorf("%w: %w", keyindex.ErrGone, err)
	}
	if err == nil && r.store.deleted.covers(v.Topic(), v.QueueID(), off) {
		err = fmt.Errorf("%w: its queue was deleted", keyindex.ErrGone)
	}
	return v, err
}

// keySearch reads the log for a key, from the newest part to the oldest.
type keySearch struct {
	store    *Store
	q        KeyQuery
	found    []int64 // ascending, each once
	complete int64   // from this physical offset on, found has what the index knows
}

// scan reads the ranges that the index does not cover. It ends when enough was found that
// is newer than the rest, and then reports more.
func (f *keySearch) scan(ctx context.Context, ranges []keyindex.Range) (more bool, err error) {
	for _, r := range slices.Backward(ranges) {
		for to := r.To; to > r.From; {
			seg := f.store.log.Segment(to - 1)
			if seg == nil {
				break // deleted meanwhile
			}
			from := max(r.From, seg.Base)
			if f.enough(to) {
				return true, nil
			}
			if f.mayHold(seg) {
				if err := f.part(ctx, from, to); err != nil {
					return false, err
				}
			}
			to = from
		}
	}
	return false, nil
}

// enough reports whether more messages than wanted are known at or above an offset, down to
// which everything was searched.
func (f *keySearch) enough(at int64) bool {
	i, _ := slices.BinarySearch(f.found, max(at, f.complete))
	return len(f.found)-i > f.q.Max
}

// mayHold reports whether a segment can have messages stored within the wanted time: its
// own first record's store time and that of the next segment bound it, but for a clock that
// was set back.
func (f *keySearch) mayHold(seg *commitlog.Segment) bool {
	disorder := consumequeue.Disorder(f.store.disorder.Load())
	first := func(off int64) (int64, bool) {
		v, _, err := f.store.log.ReadRecord(off, 0, nil)
		if err != nil {
			return 0, false
		}
		return v.StoreTimestamp(), true
	}
	if t, ok := first(seg.Base); ok && disorder.Before(t) > f.q.To {
		return false
	}
	if t, ok := first(seg.Base + f.store.log.SegmentSize()); ok && disorder.After(t) < f.q.From {
		return false
	}
	return true
}

// part reads one part of one segment.
func (f *keySearch) part(ctx context.Context, from, to int64) error {
	err := f.store.records(ctx, f.boundary(from), to, func(v *message.View, pos int64) error {
		if pos < from || pos >= to || string(v.Topic()) != f.q.Topic || f.store.deleted.covers(v.Topic(), v.QueueID(), pos) {
			return nil
		}
		if t := v.StoreTimestamp(); t < f.q.From || t > f.q.To {
			return nil
		}
		for key := range v.IndexKeys() {
			if string(key) == f.q.Key {
				f.found = append(f.found, pos)
				break
			}
		}
		return nil
	}, nil)
	slices.Sort(f.found)
	f.found = slices.Compact(f.found) // the index can know a record of such a range too
	return err
}

// boundary returns where a record begins, at or below an offset of a range: ranges end
// right behind the first byte of a record, or begin with a segment.
func (f *keySearch) boundary(from int64) int64 {
	if v, _, err := f.store.log.ReadRecord(from-1, 0, nil); err == nil {
		return from - 1 + int64(v.Size())
	}
	if seg := f.store.log.Segment(from); seg != nil {
		return seg.Base
	}
	return from
}

// Record reads and checks the record at a physical offset, by system call into buf or a
// larger buffer, which it returns for the next call.
func (s *Store) Record(off int64, buf []byte) (message.View, []byte, error) {
	if s.closed.Load() {
		return message.View{}, buf, ErrClosed
	}
	v, buf, err := s.log.ReadRecord(off, 0, buf)
	if err == nil {
		if err = v.Check(); err != nil {
			err = s.log.Damage(off, err)
		}
	}
	return v, buf, err
}

// RecordAt returns where a record begins, at or below a physical offset and not far from
// it: where a reader that wants everything from there on may begin with [Store.Records].
func (s *Store) RecordAt(off int64) (int64, error) {
	if s.closed.Load() {
		return 0, ErrClosed
	}
	min, max := s.Bounds()
	if off <= min {
		return min, nil
	}
	if off >= max {
		return max, nil
	}
	if _, _, err := s.log.ReadRecord(off, 0, nil); err == nil {
		return off, nil
	}
	return s.log.Segment(off).Base, nil
}
