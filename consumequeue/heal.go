package consumequeue

import (
	"context"
	"errors"

	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/message"
)

// Heal answers for an offset within the bounds whose entry is missing or does not name its
// record: the entry that the log itself has for it, or false where the log has none, because
// the record is damaged. It reads the log between the queue's nearest sound entries and
// remembers what it found for every offset between them. For a message that retention deleted
// meanwhile the entry names a place below the log.
func (q *Queue) Heal(ctx context.Context, off int64) (Entry, bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	st := q.state.Load()
	if run, _ := st.runAt(off); run != nil {
		// The log was asked already.
		e := Decode(run.entries[(off-run.first)*EntrySize:])
		return e, e.Real(), nil
	}
	b, err := q.boundsLocked(ctx)
	if err != nil {
		return Entry{}, false, err
	}
	switch { // the offset was within the bounds when the caller looked
	case off < b.min && b.logMin > 0:
		return Entry{Offset: b.logMin - 1, Size: 1}, true, nil // expired: its record lay below the log
	case off < b.min || off >= b.max:
		return Entry{}, false, nil // the queue was deleted
	}
	st = q.state.Load()
	below, from := q.soundBelow(st, off, b.min)
	above, to := q.soundAbove(st, off, b.max)
	below, above = max(below, off-healed), min(above, off+healed)
	// Where nothing is found, the entry is not Real, but says where the record should be.
	entries := make([]byte, 0, (above-below-1)*EntrySize)
	r := q.reader(st)
	for off := below + 1; off < above; off++ {
		entries = r.at(off).lost().AppendTo(entries)
	}
	_, err = q.log.Rescan(ctx, q.topic, q.id, from, to, func(off int64, e Entry) {
		if off > below && off < above {
			e.AppendTo(entries[:(off-below-1)*EntrySize])
		}
	})
	if err != nil {
		return Entry{}, false, err
	}
	q.layLocked(below+1, entries)
	e := Decode(entries[(off-below-1)*EntrySize:])
	return e, e.Real(), nil
}

// healed bounds for how many offsets on each side an answer is remembered.
const healed = 1 << 16

// soundTries bounds how many entries are compared with the log in the search for a sound
// one. Entries that were never written are passed over and do not count.
const soundTries = 1024

// soundBelow returns the nearest offset below off with a sound entry and the physical
// offset behind its record; min-1 and the log's beginning if there is none.
func (q *Queue) soundBelow(st *state, off, min int64) (int64, int64) {
	r := q.reader(st)
	tries := 0
	for off = st.below(off - 1); off >= min && tries < soundTries; off = st.below(off - 1) {
		if e := r.at(off); e.Real() {
			if q.log.Holds(q.topic, q.id, off, e) {
				return off, e.End()
			}
			tries++
		}
	}
	return min - 1, q.log.Min()
}

// soundAbove returns the nearest offset above off with a sound entry and the physical
// offset of its record; max and the log's end if there is none.
func (q *Queue) soundAbove(st *state, off, max int64) (int64, int64) {
	r := q.reader(st)
	tries := 0
	for off = st.above(off + 1); off < max && tries < soundTries; off = st.above(off + 1) {
		if e := r.at(off); e.Real() {
			if q.log.Holds(q.topic, q.id, off, e) {
				return off, e.Offset
			}
			tries++
		}
	}
	return max, q.log.Max()
}

// Gap reports whether messages are missing below the first one that the scan of the log saw:
// the offset below which, 0 for none, and the physical offset from which on the log has to
// be read for them.
func (q *Queue) Gap() (from, below int64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.seenFrom <= 0 {
		return 0, 0, nil
	}
	st, err := q.stateLocked()
	if err != nil {
		return 0, 0, err
	}
	off := q.seenFrom - 1
	e := q.reader(st).at(off)
	if e == Filler || e.Real() && (e.Offset < q.log.Min() || q.log.Holds(q.topic, q.id, off, e)) {
		return 0, 0, nil
	}
	_, from = q.soundBelow(st, off, st.low())
	return from, q.seenFrom, nil
}

// EntryAt returns the entry of an offset, read by pread; false where none is. Unlike
// [Queue.Slice] it may be asked before the bounds are known.
func (q *Queue) EntryAt(off int64) (Entry, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	st, err := q.stateLocked()
	if err != nil {
		return Entry{}, false
	}
	e := q.reader(st).at(off)
	return e, e.Real()
}

// Quarantine gives up a file of the queue on whose mapping a fault happened: what it held is
// missing from now on, and found in the log. It reports whether the file is one of the
// queue's.
func (q *Queue) Quarantine(damage *message.DamageError) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	st := q.state.Load()
	if st == nil {
		return false
	}
	f, gone := st.files.without(damage.File)
	if gone != nil {
		q.state.Store(&state{f, st.runs})
		gone.Close()
	}
	return gone != nil
}

// again reports whether an error of reading in a state is that one of its files was given up
// meanwhile: another state leads elsewhere.
func (q *Queue) again(st *state, err error) bool {
	return errors.Is(err, mapfile.ErrClosed) && q.state.Load() != st
}
