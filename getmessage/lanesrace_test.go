package getmessage_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmlog/warmlog/getmessage"
)

// Everything at once: no more run than there are lanes, a prefetch is called at most once, before
// its read and never after Do, and in the end nothing is left.
func TestLanesHammer(t *testing.T) {
	const lanes, workers, each = 3, 32, 300
	l := getmessage.NewLanes(getmessage.LaneOptions{Lanes: lanes, Waiting: 20, GroupWaiting: 12, Ahead: 4})
	var running, done, refused, ended, panics atomic.Int64
	one := func(rng *rand.Rand) {
		ctx := t.Context()
		if rng.IntN(4) == 0 {
			brief, cancel := context.WithTimeout(ctx, time.Duration(rng.IntN(200))*time.Microsecond)
			defer cancel()
			ctx = brief
		}
		var over, read atomic.Bool
		var prefetched atomic.Int64
		defer over.Store(true)
		defer func() {
			if recover() != nil {
				panics.Add(1)
			}
		}()
		err := l.Do(ctx, fmt.Sprint(rng.IntN(5)), rng.Int64N(1<<20), func() {
			if over.Load() || read.Load() || prefetched.Add(1) > 1 {
				t.Error("a prefetch that was called too late, or again")
			}
			if rng.IntN(20) == 0 {
				panic("prefetch")
			}
		}, func() error {
			read.Store(true)
			if n := running.Add(1); n > lanes {
				t.Errorf("%d run", n)
			}
			defer done.Add(1)
			defer running.Add(-1)
			runtime.Gosched()
			if rng.IntN(20) == 0 {
				panic("read")
			}
			return nil
		})
		switch {
		case errors.Is(err, getmessage.ErrColdBusy):
			refused.Add(1)
		case errors.Is(err, context.DeadlineExceeded):
			ended.Add(1)
		case err != nil || !read.Load():
			t.Errorf("%v, read: %v", err, read.Load())
		}
	}
	var group sync.WaitGroup
	for id := range workers {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(id)))
			for range each {
				one(rng)
			}
		})
	}
	group.Go(func() {
		for i := range int64(200) {
			l.SetRate(i%3<<34, i%2<<32)
			l.SetGroupRate(fmt.Sprint(i%5), i%3-1)
			l.SetGroupRate(fmt.Sprint(i%5), 0)
			l.Stats()
			runtime.Gosched()
		}
		l.SetRate(0, 0)
	})
	group.Wait()
	s := l.Stats()
	t.Logf("%+v; %d panics", s, panics.Load())
	if s.Running != 0 || s.Waiting != 0 || s.Submitted != 0 || s.Done != done.Load() || s.Refused != refused.Load() {
		t.Errorf("%+v, %d done, %d refused", s, done.Load(), refused.Load())
	}
	// A context that had ended before Do is counted nowhere.
	if s.Done+s.Refused+s.GivenUp > workers*each {
		t.Errorf("%+v of %d", s, workers*each)
	}
	if err := l.Do(t.Context(), "a", 1, nil, func() error { return nil }); err != nil {
		t.Error(err)
	}
}

// A read that has a lane at once allocates nothing, with rates too.
func TestLanesAllocateNothing(t *testing.T) {
	for name, o := range map[string]getmessage.LaneOptions{"free": {}, "rates": {RateAll: 1 << 50, RateEach: 1 << 50}} {
		l := getmessage.NewLanes(o)
		ctx := t.Context()
		read, prefetch := func() error { return nil }, func() {}
		if n := testing.AllocsPerRun(100, func() { _ = l.Do(ctx, "group", 1<<10, prefetch, read) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// Groups that were seen once are not kept: their names come from whoever asks.
func TestLanesForgetGroups(t *testing.T) {
	for name, o := range map[string]getmessage.LaneOptions{"free": {}, "rates": {RateEach: 1 << 50}} {
		l := getmessage.NewLanes(o)
		before := heap()
		for i := range 50_000 {
			_ = l.Do(t.Context(), fmt.Sprint("group ", i), 1, nil, func() error { return nil })
			if o.RateEach > 0 && i%1000 == 0 {
				time.Sleep(5 * time.Millisecond) // they are kept for a tenth of a second
			}
		}
		if more := heap() - before; more > 4<<20 {
			t.Errorf("%s: %d bytes more", name, more)
		}
		runtime.KeepAlive(l)
	}
}

func BenchmarkLanes(b *testing.B) {
	ctx := context.Background()
	read, prefetch := func() error { return nil }, func() {}
	run := func(name string, o getmessage.LaneOptions, before func(*getmessage.Lanes) (after func())) {
		b.Run(name, func(b *testing.B) {
			l := getmessage.NewLanes(o)
			after := before(l)
			b.ReportAllocs()
			for b.Loop() {
				_ = l.Do(ctx, "group", 32<<10, prefetch, read)
			}
			b.StopTimer()
			after()
		})
	}
	nothing := func(*getmessage.Lanes) func() { return func() {} }
	run("free", getmessage.LaneOptions{}, nothing)
	run("free,rates", getmessage.LaneOptions{RateAll: 1 << 50, RateEach: 1 << 50}, nothing)
	// Others wait, each a group of its own, for a rate that will not let them: all are looked at.
	for _, n := range []int{10, 100, 1000} {
		run(fmt.Sprintf("waiting=%d", n), getmessage.LaneOptions{}, func(l *getmessage.Lanes) func() {
			ctx, cancel := context.WithCancel(ctx)
			var group sync.WaitGroup
			for i := range n {
				name := fmt.Sprint(i)
				l.SetGroupRate(name, 1)
				_ = l.Do(ctx, name, 1<<30, nil, read)
				group.Go(func() { _ = l.Do(ctx, name, 1, nil, read) })
			}
			for l.Stats().Waiting < n {
				runtime.Gosched()
			}
			return func() { cancel(); group.Wait() }
		})
	}
	// Others wait, each a group of its own, and one after the other reads and comes back.
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("groups=%d", n), func(b *testing.B) {
			l := getmessage.NewLanes(getmessage.LaneOptions{Lanes: 1})
			var left atomic.Int64
			left.Store(int64(b.N))
			var group sync.WaitGroup
			for i := range n {
				name := fmt.Sprint(i)
				group.Go(func() {
					for left.Add(-1) >= 0 {
						_ = l.Do(ctx, name, 32<<10, prefetch, func() error { runtime.Gosched(); return nil })
					}
				})
			}
			group.Wait()
		})
	}
	// As many as wait at all times: every read is handed its lane by another.
	b.Run("handed", func(b *testing.B) {
		l := getmessage.NewLanes(getmessage.LaneOptions{Lanes: 1})
		b.ReportAllocs()
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_ = l.Do(ctx, "group", 32<<10, prefetch, func() error { runtime.Gosched(); return nil })
			}
		})
	})
}
