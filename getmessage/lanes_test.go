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

// reads is a script of cold reads in synctest's time: each read takes a second, if nothing else
// is said, and notes its name when it begins.
type reads struct {
	t      *testing.T
	lanes  *getmessage.Lanes
	mu     sync.Mutex
	began  []string
	ahead  []string
	failed map[string]error
	group  sync.WaitGroup
}

func newReads(t *testing.T, o getmessage.LaneOptions) *reads {
	return &reads{t: t, lanes: getmessage.NewLanes(o), failed: map[string]error{}}
}

// add lets a read come in, and returns when it runs or waits.
func (r *reads) add(ctx context.Context, group, name string, bytes int64) {
	r.group.Go(func() {
		err := r.lanes.Do(ctx, group, bytes, func() { r.note(&r.ahead, name) }, func() error {
			r.note(&r.began, name)
			time.Sleep(time.Second)
			return nil
		})
		if err != nil {
			r.mu.Lock()
			r.failed[name] = err
			r.mu.Unlock()
		}
	})
	synctest.Wait()
}

// backlog adds reads of one group, named by number.
func (r *reads) backlog(group string, n int, bytes int64) {
	for i := range n {
		r.add(r.t.Context(), group, fmt.Sprint(group, i), bytes)
	}
}

func (r *reads) note(list *[]string, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, name)
}

// seen returns a copy of a list.
func (r *reads) seen(list *[]string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(*list)
}

func (r *reads) want(what string, list *[]string, want ...string) {
	r.t.Helper()
	if got := r.seen(list); !slices.Equal(got, want) {
		r.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func (r *reads) stats(want getmessage.LaneStats) {
	r.t.Helper()
	if got := r.lanes.Stats(); got != want {
		r.t.Errorf("stats %+v, want %+v", got, want)
	}
}

// A group that comes to one with 100 reads waiting is next.
func TestLanesNewcomerIsNext(t *testing.T) {
	for _, lanes := range []int{1, 3} {
		t.Run(fmt.Sprint(lanes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReads(t, getmessage.LaneOptions{Lanes: lanes})
				r.backlog("a", lanes+100, 64<<10)
				time.Sleep(10*time.Second + time.Millisecond)
				synctest.Wait()
				before := len(r.seen(&r.began))
				r.add(t.Context(), "b", "b", 64<<10)
				r.group.Wait()
				if at := slices.Index(r.began, "b"); at-before >= lanes {
					t.Errorf("%d reads began before the newcomer's", at-before)
				}
			})
		})
	}
}

// Two backlogs share by what their reads cost, not by their number.
func TestLanesShareByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReads(t, getmessage.LaneOptions{Lanes: 1})
		r.backlog("large", 20, 960<<10) // cost 1 MiB
		r.backlog("small", 100, 64<<10) // cost 128 KiB
		time.Sleep(90 * time.Second)
		large, small := 0, 0
		for _, name := range r.seen(&r.began) {
			if name[0] == 'l' {
				large++
			} else {
				small++
			}
		}
		if large < 9 || large > 12 {
			t.Errorf("%d large and %d small reads began, want one large for each 8 small", large, small)
		}
		r.group.Wait()
	})
}

// A group is not new each time that it comes back: what it had counts while others wait, whether
// it had to wait for it or not.
func TestLanesRememberWhoWasServed(t *testing.T) {
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint("waits=", waits), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReads(t, getmessage.LaneOptions{Lanes: 1})
				if waits {
					r.add(t.Context(), "b", "b", 64<<10)
				}
				r.add(t.Context(), "a", "a0", 8<<20)
				r.backlog("b", 20, 64<<10)
				time.Sleep(2500 * time.Millisecond)
				r.add(t.Context(), "a", "a1", 8<<20)
				r.group.Wait()
				if last := r.began[len(r.began)-1]; last != "a1" {
					t.Errorf("order %v", r.began)
				}
			})
		})
	}
}

// Debts are forgotten when nobody is there to be paid.
func TestLanesIdleForgives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReads(t, getmessage.LaneOptions{Lanes: 1})
		r.add(t.Context(), "a", "a0", 8<<20)
		r.group.Wait()
		r.add(t.Context(), "b", "b0", 64<<10)
		r.add(t.Context(), "a", "a1", 64<<10)
		r.add(t.Context(), "b", "b1", 64<<10)
		r.group.Wait()
		r.want("order", &r.began, "a0", "b0", "a1", "b1")
	})
}

// Within a group the order is that of coming.
func TestLanesOrderInGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReads(t, getmessage.LaneOptions{Lanes: 1})
		r.backlog("a", 5, 1)
		r.group.Wait()
		r.want("order", &r.began, "a0", "a1", "a2", "a3", "a4")
		r.stats(getmessage.LaneStats{Done: 5, Bytes: 5, LongestWait: 4 * time.Second})
	})
}

// Prefetches are asked for in the order of turns, for as many as were said, and not for a read
// that has a lane at once.
func TestLanesPrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReads(t, getmessage.LaneOptions{Lanes: 1, Ahead: 2})
		r.backlog("a", 6, 64<<10)
		r.want("at first", &r.ahead, "a1", "a2")
		r.add(t.Context(), "b", "b0", 64<<10)
		r.stats(getmessage.LaneStats{Waiting: 6, Submitted: 2, Running: 1})
		time.Sleep(time.Second + time.Millisecond) // b0 runs, its prefetch was never needed
		r.want("no place", &r.ahead, "a1", "a2")
		time.Sleep(time.Second)
		r.want("a1 runs", &r.ahead, "a1", "a2", "a3")
		r.group.Wait()
		r.want("in the end", &r.ahead, "a1", "a2", "a3", "a4", "a5")
		r.want("order", &r.began, "a0", "b0", "a1", "a2", "a3", "a4", "a5")
	})
}

// The groups' prefetches take turns as their reads do.
func TestLanesPrefetchIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReads(t, getmessage.LaneOptions{Lanes: 1, Ahead: 1})
		r.backlog("a", 4, 64<<10)
		r.backlog("b", 3, 64<<10)
		r.group.Wait()
		r.want("order", &r.began, "a0", "b0", "a1", "b1", "a2", "b2", "a3")
		r.want("prefetches", &r.ahead, "a1", "b1", "a2", "b2", "a3")
	})
}

// Several at once are shared between the groups, and who has had prefetches has not for ever had
// more than others.
func TestLanesPrefetchSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReads(t, getmessage.LaneOptions{Lanes: 1, Ahead: 4, RateAll: 1})
		r.add(t.Context(), "c", "c", 1000)
		time.Sleep(2 * time.Second) // its lane is free again, the rate forbids everything
		r.backlog("a", 4, 64<<10)
		r.backlog("b", 4, 64<<10)
		r.want("none", &r.ahead)
		r.lanes.SetRate(0, 0)
		synctest.Wait()
		at := r.seen(&r.ahead)
		slices.Sort(at) // they are called by goroutines of their own
		if want := []string{"a1", "a2", "b0", "b1"}; !slices.Equal(at, want) {
			t.Errorf("%v, want %v", at, want)
		}
		r.group.Wait()
		r.want("order", &r.began, "c", "a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3")
	})
	synctest.Test(t, func(t *testing.T) {
		r := newReads(t, getmessage.LaneOptions{Lanes: 1, Ahead: 1})
		r.backlog("a", 6, 64<<10)
		time.Sleep(3500 * time.Millisecond)
		r.backlog("d", 4, 64<<10)
		r.group.Wait()
		r.want("order", &r.began, "a0", "a1", "a2", "a3", "d0", "a4", "d1", "a5", "d2", "d3")
		r.want("prefetches", &r.ahead, "a1", "a2", "a3", "a4", "d1", "a5", "d2", "d3")
	})
}

// Without prefetch there is none, and a function that is nil is not called.
func TestLanesNoPrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReads(t, getmessage.LaneOptions{Lanes: 1, Ahead: -1})
		r.backlog("a", 4, 1)
		r.group.Wait()
		r.want("prefetches", &r.ahead)

		l := getmessage.NewLanes(getmessage.LaneOptions{Lanes: 1})
		for range 4 {
			r.group.Go(func() {
				_ = l.Do(t.Context(), "a", 1, nil, func() error { time.Sleep(time.Second); return nil })
			})
		}
		r.group.Wait()
		if s := l.Stats(); s.Done != 4 {
			t.Errorf("%+v", s)
		}
	})
}

// A context that ends while its read waits ends the waiting, and no other's; one that ends
// while the read runs does not end that.
func TestLanesContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReads(t, getmessage.LaneOptions{Lanes: 1, Ahead: 1})
		brief, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		r.add(brief, "a", "a0", 1)
		r.add(brief, "a", "a1", 1)
		r.add(t.Context(), "a", "a2", 1)
		r.add(brief, "b", "b0", 1)
		time.Sleep(600 * time.Millisecond)
		r.stats(getmessage.LaneStats{Waiting: 1, Submitted: 1, Running: 1, GivenUp: 2, LongestWait: 500 * time.Millisecond})
		r.want("prefetches", &r.ahead, "a1", "a2")
		r.group.Wait()
		r.want("order", &r.began, "a0", "a2")
		for _, name := range []string{"a1", "b0"} {
			if !errors.Is(r.failed[name], context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, r.failed[name])
			}
		}
		r.add(brief, "a", "late", 1) // a lane is free, but its time has passed
		if len(r.failed) != 3 {
			t.Errorf("%v", r.failed)
		}
	})
}

// What may not wait is refused at once, and waits for nothing.
func TestLanesBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReads(t, getmessage.LaneOptions{Lanes: 1, Waiting: 6, GroupWaiting: 4})
		r.backlog("a", 6, 1)
		r.stats(getmessage.LaneStats{Waiting: 4, Submitted: 4, Running: 1, Refused: 1})
		r.backlog("b", 2, 1)
		r.stats(getmessage.LaneStats{Waiting: 6, Submitted: 6, Running: 1, Refused: 1})
		r.backlog("c", 1, 1) // takes the room of a's newest
		r.backlog("d", 1, 1) // likewise: then nobody has more than two
		r.add(t.Context(), "c", "c1", 1)
		r.backlog("e", 1, 1) // b and a have two
		r.backlog("f", 1, 1)
		r.backlog("g", 1, 1) // all have one
		r.group.Wait()
		refused := make([]string, 0, len(r.failed))
		for name, err := range r.failed {
			if !errors.Is(err, getmessage.ErrColdBusy) {
				t.Errorf("%s: %v", name, err)
			}
			refused = append(refused, name)
		}
		slices.Sort(refused)
		if want := []string{"a2", "a3", "a4", "a5", "b1", "c1", "g0"}; !slices.Equal(refused, want) {
			t.Errorf("refused %v, want %v", refused, want)
		}
		if s := r.lanes.Stats(); s.Done != 7 || s.Refused != 7 || s.LongestWait < 6*time.Second {
			t.Errorf("%+v", s)
		}
	})
}

// Whatever ends a read gives its lane back.
func TestLanesGiveBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := getmessage.NewLanes(getmessage.LaneOptions{Lanes: 1})
		caught := func(prefetch func(), read func() error) (p any, err error) {
			defer func() { p = recover() }()
			return nil, l.Do(t.Context(), "a", 1, prefetch, read)
		}
		fails := errors.New("fails")
		if _, err := caught(nil, func() error { return fails }); err != fails {
			t.Error(err)
		}
		if p, _ := caught(nil, func() error { panic("read") }); p != "read" {
			t.Error(p)
		}
		var group sync.WaitGroup
		group.Go(func() { _, _ = caught(nil, func() error { time.Sleep(time.Second); return nil }) })
		synctest.Wait()
		if p, _ := caught(func() { panic("prefetch") }, func() error { panic("read") }); p != "prefetch" {
			t.Error(p)
		}
		// A lane that comes while the prefetch is called, which then panics.
		if p, _ := caught(func() { time.Sleep(2 * time.Second); panic("late") }, func() error { panic("read") }); p != "late" {
			t.Error(p)
		}
		group.Wait()
		if s := l.Stats(); s.Running != 0 || s.Waiting != 0 || s.Submitted != 0 || s.Done != 3 || s.GivenUp != 2 {
			t.Errorf("%+v", s)
		}
		if _, err := caught(nil, func() error { return nil }); err != nil {
			t.Error(err)
		}
	})
}
