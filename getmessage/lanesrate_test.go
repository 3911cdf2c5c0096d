package getmessage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmlog/warmlog/getmessage"
)

// quick is reads that take no time, with when each began.
type quick struct {
	lanes *getmessage.Lanes
	start time.Time
	mu    sync.Mutex
	bytes map[string][]moved
	group sync.WaitGroup
}

type moved struct {
	at    time.Duration
	bytes int64
}

func newQuick(o getmessage.LaneOptions) *quick {
	return &quick{lanes: getmessage.NewLanes(o), start: time.Now(), bytes: map[string][]moved{}}
}

func (q *quick) note(group string, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes[group] = append(q.bytes[group], moved{time.Since(q.start), bytes})
}

// run lets n readers of a group read until a time, each one read after the other. Bytes count
// from when they are taken from the disk: by the prefetch, else by the read.
func (q *quick) run(group string, n int, bytes int64, until time.Duration) {
	for range n {
		q.group.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), until-time.Since(q.start))
			defer cancel()
			for ctx.Err() == nil {
				ahead := false
				_ = q.lanes.Do(ctx, group, bytes, func() {
					ahead = true
					q.note(group, bytes)
				}, func() error {
					if !ahead {
						q.note(group, bytes)
					}
					time.Sleep(time.Microsecond)
					return nil
				})
			}
		})
	}
}

// between returns the bytes taken in [from, to).
func (q *quick) between(group string, from, to time.Duration) (sum int64) {
	for _, m := range q.bytes[group] {
		if m.at >= from && m.at < to {
			sum += m.bytes
		}
	}
	return sum
}

// Rates hold in every span of time, for all and for each group, with prefetches.
func TestLanesRate(t *testing.T) {
	const mib, read = 1 << 20, 64 << 10
	synctest.Test(t, func(t *testing.T) {
		q := newQuick(getmessage.LaneOptions{Lanes: 2, RateAll: 10 * mib, RateEach: 8 * mib})
		q.lanes.SetGroupRate("slow", mib)
		q.run("slow", 20, read, 10*time.Second)
		q.run("fast", 20, read, 10*time.Second)
		q.group.Wait()
		all := slices.Concat(q.bytes["slow"], q.bytes["fast"])
		q.bytes["all"] = all
		for _, c := range []struct {
			group string
			rate  int64
		}{{"slow", mib}, {"fast", 8 * mib}, {"all", 10 * mib}} {
			if got, want := q.between(c.group, 0, 10*time.Second), c.rate*10; got < want*97/100 && c.group != "all" {
				t.Errorf("%s: %d bytes in 10 s, less than its rate of %d", c.group, got, c.rate)
			}
			for _, span := range []time.Duration{time.Millisecond, 50 * time.Millisecond, time.Second} {
				for _, m := range q.bytes[c.group] {
					most := int64(float64(c.rate)*(span.Seconds()+0.1)) + read
					if got := q.between(c.group, m.at, m.at+span); got > most {
						t.Fatalf("%s: %d bytes in %v from %v on, more than %d", c.group, got, span, m.at, most)
					}
				}
			}
		}
	})
}

// Two groups that share the bound of all get the same.
func TestLanesRateIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuick(getmessage.LaneOptions{Lanes: 1, RateAll: 1 << 20})
		q.run("many", 100, 64<<10, 20*time.Second)
		q.run("one", 1, 64<<10, 20*time.Second)
		q.group.Wait()
		many, one := q.between("many", 0, time.Minute), q.between("one", 0, time.Minute)
		if one*10 < many*9 {
			t.Errorf("100 readers got %d bytes, one reader %d", many, one)
		}
	})
}

// Rates are set while reads wait for them.
func TestLanesSetRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := getmessage.NewLanes(getmessage.LaneOptions{Lanes: 1})
		start := time.Now()
		var began []time.Duration
		do := func(ctx context.Context, group string, bytes int64) error {
			return l.Do(ctx, group, bytes, nil, func() error { began = append(began, time.Since(start)); return nil })
		}
		read := func(group string, bytes int64) {
			if err := do(t.Context(), group, bytes); err != nil {
				t.Error(err)
			}
		}
		want := func(want ...time.Duration) {
			t.Helper()
			if !slices.EqualFunc(began, want, func(a, b time.Duration) bool { return (a - b).Abs() < time.Millisecond }) {
				t.Errorf("began at %v, want %v", began, want)
			}
			began = nil
			start = time.Now()
		}
		read("a", 1000)
		read("a", 1000)
		want(0, 0)
		l.SetRate(100, 0)
		read("a", 1000) // in debt for 10 s
		time.AfterFunc(5*time.Second, func() { l.SetRate(1000, 0) })
		read("a", 1000) // of the 500 that were left at 5 s it pays off 1,000 a second
		want(0, 5500*time.Millisecond)
		time.AfterFunc(300*time.Millisecond, func() { l.SetRate(-1, -1) })
		read("a", 1)
		want(300 * time.Millisecond)

		l.SetRate(0, 100)
		read("a", 100)
		read("b", 100) // has its own
		read("a", 100)
		want(0, 0, time.Second)
		l.SetGroupRate("b", -1)
		read("b", 1000)
		read("b", 1000)
		l.SetGroupRate("b", 0)
		l.SetGroupRate("unknown", 0)
		read("b", 100)
		read("b", 100)
		want(0, 0, 0, time.Second)

		// A context that ends before the rate allows the read; nothing of its time is used up.
		l.SetGroupRate("c", 1)
		read("c", 10)
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := do(brief, "c", 10); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		read("c", 10)
		want(0, 10*time.Second)
		l.SetGroupRate("c", 0)

		// Nonsense is survived.
		l.SetRate(1, 1)
		read("d", 1<<62)
		l.SetRate(1<<62, 1<<62)
		read("d", 1<<62)
		read("d", -1<<62)
		l.SetRate(0, 0)
	})
}

// A group that waits for its rate keeps no lane from others, and nobody passes it in turn for
// the rate of all.
func TestLanesRateHoldsNoLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReads(t, getmessage.LaneOptions{Lanes: 1, Ahead: -1})
		r.lanes.SetGroupRate("slow", 1)
		r.add(t.Context(), "slow", "s0", 10)
		r.add(t.Context(), "slow", "s1", 10)
		for _, name := range []string{"f0", "f1", "f2"} {
			r.add(t.Context(), "fast", name, 1)
		}
		r.group.Wait()
		r.want("order", &r.began, "s0", "f0", "f1", "f2", "s1")
		if s := r.lanes.Stats(); s.LongestWait != 10*time.Second {
			t.Errorf("%+v", s)
		}
	})
}

// What waits for a rate is not prefetched before it may be read.
func TestLanesRatePrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReads(t, getmessage.LaneOptions{Lanes: 1, RateAll: 1 << 20})
		r.backlog("a", 4, 2<<20) // each is paid for in 2 s, and read in 1 s
		time.Sleep(time.Millisecond)
		r.want("at once", &r.ahead)
		r.group.Wait()
		r.want("in the end", &r.ahead)
		r.lanes.SetRate(10<<20, 0)
		r.add(t.Context(), "a", "b", 1<<20) // 0.1 s
		r.add(t.Context(), "a", "c", 1<<20)
		r.add(t.Context(), "a", "d", 1<<20)
		time.Sleep(50 * time.Millisecond)
		before := len(r.seen(&r.ahead))
		time.Sleep(500 * time.Millisecond)
		r.want("while another is read", &r.ahead, "c", "d")
		if before == 2 {
			t.Error("both prefetches before the rate allowed them")
		}
		r.group.Wait()
	})
}

// A rate that was not used for long lets through a tenth of a second's bytes more, not all that
// it could have.
func TestLanesRateBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := getmessage.NewLanes(getmessage.LaneOptions{Lanes: 1, RateAll: 100})
		time.Sleep(time.Hour)
		start := time.Now()
		for _, want := range []time.Duration{0, 900 * time.Millisecond, 1900 * time.Millisecond} {
			_ = l.Do(t.Context(), "a", 100, nil, func() error {
				if d := time.Since(start); (d - want).Abs() > time.Millisecond {
					t.Errorf("began after %v, want %v", d, want)
				}
				return nil
			})
		}
	})
}

// What was prefetched is paid for, and not paid again when it is read.
func TestLanesRatePaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReads(t, getmessage.LaneOptions{Lanes: 1, RateAll: 1 << 20})
		start := time.Now()
		r.backlog("a", 5, 900<<10) // 0.9 s of the rate, and 1 s of a lane
		r.group.Wait()
		r.want("prefetches", &r.ahead, "a1", "a2", "a3", "a4")
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("%v", d)
		}
	})
}

// A group in debt is not forgotten, however many others there are.
func TestLanesRateKeepsDebts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := getmessage.NewLanes(getmessage.LaneOptions{RateEach: 1})
		for i := range 1000 {
			_ = l.Do(t.Context(), fmt.Sprint(i), 100, nil, func() error { return nil })
		}
		start := time.Now()
		_ = l.Do(t.Context(), "0", 100, nil, func() error { return nil })
		if d := time.Since(start); d < 99*time.Second {
			t.Errorf("a debt of 100 s is forgotten after %v", d)
		}
	})
}
