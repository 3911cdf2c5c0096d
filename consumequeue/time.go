package consumequeue

import (
	"context"
	"math"
)

// Bound says which message a search by time is for.
type Bound int

const (
	Lower Bound = iota // the first with a store time of at least t
	Upper              // the last with a store time of at most t
)

// Disorder is the most, in ms, by which a store time ever fell below an earlier one: times
// rise but for a clock that was set back. Math.MaxInt64 stands for anything above it, too.
type Disorder int64

// Before returns the lowest store time that a message behind one of time t can have.
func (d Disorder) Before(t int64) int64 {
	if d == math.MaxInt64 || t < math.MinInt64+int64(d) {
		return math.MinInt64
	}
	return t - int64(d)
}

// After returns the highest store time that a message before one of time t can have.
func (d Disorder) After(t int64) int64 {
	if d == math.MaxInt64 || t > math.MaxInt64-int64(d) {
		return math.MaxInt64
	}
	return t + int64(d)
}

// OffsetByTime searches for a message by store time, ms since 1970, among the messages that
// the log still has. Lower answers max where every message is older. Upper answers min where
// every message is younger.
//
// The answer is that of a linear scan; the cost is a bisection and the messages within
// disorder of t. A message for which time reports false is passed over.
func (q *Queue) OffsetByTime(ctx context.Context, t int64, bound Bound, disorder Disorder, time func(Entry) (int64, bool)) (int64, error) {
	min, max, err := q.Bounds(ctx)
	if err != nil {
		return 0, err
	}
	st := q.state.Load()
	s := timeSearch{reader: q.reader(st), time: time, min: min, max: max}
	var off int64
	if bound == Lower {
		off = s.lower(ctx, t, disorder)
	} else {
		off = s.upper(ctx, t, disorder)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if q.again(st, s.reader.err) {
		return q.OffsetByTime(ctx, t, bound, disorder, time)
	}
	return off, s.reader.err
}

type timeSearch struct {
	reader   *reader
	time     func(Entry) (int64, bool)
	min, max int64
}

// at returns the store time of the first readable message in [off, end), and its offset.
func (s *timeSearch) at(ctx context.Context, off, end int64) (time, at int64, ok bool) {
	for off = s.reader.st.above(off); off < end && ctx.Err() == nil; off = s.reader.st.above(off + 1) {
		if e := s.reader.at(off); e.Real() {
			if time, ok = s.time(e); ok {
				return time, off, true
			}
		}
	}
	return 0, end, false
}

func (s *timeSearch) lower(ctx context.Context, t int64, disorder Disorder) int64 {
	// Everything below lo is older than t: a message older than least has no younger one than
	// t before it.
	least := disorder.Before(t)
	lo, hi := s.min, s.max
	for lo < hi && ctx.Err() == nil {
		mid := lo + (hi-lo)/2
		if time, at, ok := s.at(ctx, mid, hi); ok && time < least {
			lo = at + 1
		} else {
			hi = mid
		}
	}
	for lo < s.max {
		time, at, ok := s.at(ctx, lo, s.max)
		if !ok || time >= t {
			return at
		}
		lo = at + 1
	}
	return s.max
}

func (s *timeSearch) upper(ctx context.Context, t int64, disorder Disorder) int64 {
	// Everything from hi on is younger than t.
	most := disorder.After(t)
	lo, hi := s.min, s.max
	for lo < hi && ctx.Err() == nil {
		mid := lo + (hi-lo)/2
		if time, at, ok := s.at(ctx, mid, hi); !ok || time > most {
			hi = mid
		} else {
			lo = at + 1
		}
	}
	for off := s.reader.st.below(hi - 1); off >= s.min && ctx.Err() == nil; off = s.reader.st.below(off - 1) {
		if e := s.reader.at(off); e.Real() {
			if time, ok := s.time(e); ok && time <= t {
				return off
			}
		}
	}
	return s.min
}
