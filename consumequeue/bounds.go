package consumequeue

import (
	"context"
	"sort"
)

// findMax returns the offset behind the queue's last message, in a queue of which no scan
// of the log has seen a message: what its files say, as far as the log agrees. unseen is
// the physical offset from which on the log was scanned: entries at or above it are wrong.
func (q *Queue) findMax(ctx context.Context, st *state, unseen int64) (int64, error) {
	low := st.low()
	end, err := q.filesEnd(st)
	if err != nil {
		return 0, err
	}
	end = max(end, st.runsEnd())
	// Entries of records that the log does not reach any more: after a cut they are at the
	// end, ordered by physical offset.
	r := q.reader(st)
	if last := r.lastReal(low, end); last >= low && r.at(last).Offset >= unseen {
		end = low + int64(sort.Search(int(end-low), func(i int) bool {
			e := r.at(low + int64(i))
			return e.Real() && e.Offset >= unseen
		}))
	}
	return q.trustEnd(ctx, r, low, end, unseen)
}

// withLost moves the queue's end past the entries behind it whose records were lost to
// damage: a consumer passes over them, and is not sent back to before them.
func (q *Queue) withLost(r *reader, end int64, lost func(int64) bool) int64 {
	for {
		e := r.at(end)
		if !e.Real() || !lost(e.Offset) {
			return end
		}
		end++
	}
}

// trustEnd steps back from end to the last entry that the log confirms. Messages between
// that and end are looked up in the log.
func (q *Queue) trustEnd(ctx context.Context, r *reader, low, end, unseen int64) (int64, error) {
	const tries = 1024
	for off, n := end-1, 0; off >= low && n < tries; off, n = off-1, n+1 {
		e := r.at(off)
		if !e.Real() {
			if e == Filler {
				return max(end, off+1), nil // the head of the first file: numbering goes on from here
			}
			continue
		}
		if e.Offset < q.log.Min() || q.log.Holds(q.topic, q.id, off, e) {
			if off == end-1 {
				return end, nil
			}
			// What lies above is damaged, or is no entry at all.
			return q.endFrom(ctx, off+1, e.End(), unseen)
		}
	}
	// Not one entry is right.
	return q.endFrom(ctx, low, q.log.Min(), unseen)
}

// endFrom finds the queue's end in a part of the log; end is what it is at the least.
func (q *Queue) endFrom(ctx context.Context, end, from, to int64) (int64, error) {
	lost, err := q.log.Rescan(ctx, q.topic, q.id, from, to, func(off int64, e Entry) {
		q.layLocked(off, e.AppendTo(nil))
		end = max(end, off+1)
	})
	if err != nil {
		return 0, err
	}
	return q.withLost(q.reader(q.state.Load()), end, lost), nil
}

// filesEnd returns the offset behind the last entry in the files that was ever written.
func (q *Queue) filesEnd(st *state) (int64, error) {
	f := st.files
	for i := len(f.slots) - 1; i >= 0; i-- {
		from := f.first + int64(i)*f.per
		if f.slots[i] == nil {
			continue
		}
		n, err := q.writtenIn(f, from)
		if err != nil {
			return 0, err
		}
		if n > 0 {
			return from + n, nil
		}
	}
	return f.first, nil
}

// writtenIn returns how many entries of the file that begins with off were written. Files
// are written from the front, so a bisection finds the end; but an entry that was zeroed
// by accident must not hide those behind it, so what follows is looked through for one
// that the log confirms.
func (q *Queue) writtenIn(f *files, off int64) (int64, error) {
	var failed error
	used := int64(sort.Search(int(f.per), func(i int) bool {
		b, err := f.read(off+int64(i), 1, nil)
		if err != nil {
			failed = err
		}
		return len(b) < EntrySize || Decode(b).Size <= 0
	}))
	if failed != nil {
		return 0, failed
	}
	const chunk = 4096
	var buf []byte
	for at := used; at < f.per; {
		at = f.dataFrom(off, at)
		if at >= f.per {
			break
		}
		b, err := f.read(off+at, chunk, buf)
		if err != nil {
			return 0, err
		}
		if len(b) == 0 {
			break
		}
		for i := 0; i+EntrySize <= len(b); i += EntrySize {
			n := at + int64(i/EntrySize)
			if e := Decode(b[i:]); e.Real() && q.log.Holds(q.topic, q.id, off+n, e) {
				used = n + 1
			}
		}
		at += int64(len(b) / EntrySize)
		buf = b
	}
	return used, nil
}

// lowest returns the offset below which the log has no message: what a scan of all of it saw
// first, else where the files begin.
func (q *Queue) lowest(r *reader, max, logMin int64) int64 {
	if q.log.Scanned() > logMin {
		return r.st.low()
	}
	low := max
	if q.seenFrom >= 0 {
		low = q.seenFrom
	}
	for e := r.at(low - 1); e.Real() && q.log.Lost(e.Offset); e = r.at(low - 1) {
		low--
	}
	return low
}

// findMin returns the offset, from low to max, of the first message whose record the log
// still has, max if there is none.
func findMin(r *reader, low, max, logMin int64) int64 {
	has := func(off int64) bool {
		e := r.at(off)
		return e.Real() && e.Offset >= logMin
	}
	first := low + int64(sort.Search(int(max-low), func(i int) bool { return has(low + int64(i)) }))
	// Entries are ordered by physical offset, so that a bisection finds the first. A damaged
	// one can lead it astray: past good ones below, or past all of them.
	const window = 256
	for off := first - 1; off >= low && off >= first-window; off-- {
		if has(off) {
			first = off
		}
	}
	if first == max && r.lastReal(low, max) >= low && has(r.lastReal(low, max)) {
		for first = r.st.above(low); first < max && !has(first); first = r.st.above(first + 1) {
		}
	}
	return first
}

// FirstAt returns the offset of the first message whose record lies at or above a physical
// offset; the queue's end if there is none. The bounds must be known.
func (q *Queue) FirstAt(pos int64) int64 {
	b := q.minMax.Load()
	return findMin(q.reader(q.state.Load()), b.min, b.max, pos)
}

// wholeHead reports whether what lies below a queue's minimum is what retention leaves
// there: nothing, the fillers of a head, or entries of records that were deleted.
func wholeHead(r *reader, low, min, logMin int64) bool {
	if min <= low {
		return true
	}
	e := r.at(min - 1)
	return e == Filler || e.Real() && e.Offset < logMin
}

// fillLocked looks in the log for what stood in files that are missing, or are no longer as
// they were listed, and below the minimum that was found without it, and lays it over the
// queue.
func (q *Queue) fillLocked(ctx context.Context, min int64) error {
	f, gone := q.state.Load().files.onlyReadable()
	q.state.Store(&state{f, q.state.Load().runs})
	for _, s := range gone {
		s.Close()
	}
	for i := 0; i < len(f.slots); i++ {
		if f.slots[i] != nil {
			continue
		}
		first := i
		for i+1 < len(f.slots) && f.slots[i+1] == nil {
			i++
		}
		if err := q.fillBetween(ctx, f.first+int64(first)*f.per, f.first+int64(i+1)*f.per); err != nil {
			return err
		}
	}
	q.filled = f
	r, logMin := q.reader(q.state.Load()), q.log.Min()
	low := q.lowest(r, min, logMin)
	if min = findMin(r, low, min, logMin); wholeHead(r, low, min, logMin) {
		return nil
	}
	q.headFilled = min
	return q.fillBetween(ctx, 0, min)
}

// fillBetween looks in the log for the messages from one offset to below another.
func (q *Queue) fillBetween(ctx context.Context, begin, end int64) error {
	st := q.state.Load()
	_, from := q.soundBelow(st, begin, st.low())
	_, to := q.soundAbove(st, end-1, max(st.files.limit(), st.runsEnd()))
	_, err := q.log.Rescan(ctx, q.topic, q.id, from, to, func(off int64, e Entry) {
		if off >= begin && off < end {
			q.layLocked(off, e.AppendTo(nil))
		}
	})
	return err
}
