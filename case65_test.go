package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/message"
)

// timed is a store of one queue whose messages have given store times.
func timed(t testing.TB, o storetest.Options, times []int64) *built {
	s := build(t, o)
	for _, at := range times {
		s.Time = at
		s.add("orders", 0, 10)
	}
	s.Close()
	return s
}

// scanned is the answer of a linear scan: the first message stored at t or later (lower) or
// the last one stored at t or earlier (upper) of those from low on.
func scanned(times []int64, low int64, t int64) (lower, upper int64) {
	lower, upper = int64(len(times)), low
	for i := int64(len(times)) - 1; i >= low; i-- {
		if times[i] >= t {
			lower = i
		}
	}
	for i := low; i < int64(len(times)); i++ {
		if times[i] <= t {
			upper = i
		}
	}
	return lower, upper
}

func compareWithScan(t *testing.T, store *warmlog.Store, times []int64, low int64, ask []int64) {
	t.Helper()
	failed := 0
	for _, at := range ask {
		lower, upper := scanned(times, low, at)
		for bound, want := range map[consumequeue.Bound]int64{consumequeue.Lower: lower, consumequeue.Upper: upper} {
			got, err := store.OffsetByTime(context.Background(), "orders", 0, at, bound)
			if err != nil || got != want {
				if failed++; failed <= 5 {
					t.Errorf("time %d, bound %d: %d, a scan says %d: %v", at, bound, got, want, err)
				}
			}
		}
	}
}

// around returns every time and those beside it, and the ends.
func around(times []int64) []int64 {
	ask := []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64}
	for _, at := range times {
		ask = append(ask, at-1, at, at+1)
	}
	slices.Sort(ask)
	return slices.Compact(ask)
}

// Times 10, 20, 20, 20, 30 over two files and more.
func TestCase65EqualTimes(t *testing.T) {
	times := []int64{10, 20, 20, 20, 30}
	for _, perFile := range []int64{1, 2, 3, 4, 5, 100} {
		s := timed(t, storetest.Options{QueueFileSize: 20 * perFile}, times)
		compareWithScan(t, open(t, s.Dir(), warmlog.Options{}), times, 0, around([]int64{5, 10, 15, 20, 25, 30, 31}))
	}
}

// The minimum lies at the beginning, in the middle and at the end of a file: what is below
// is not there.
func TestCase65AMinimumWithinAFile(t *testing.T) {
	var times []int64
	for i := range int64(40) {
		times = append(times, 1000+i/3*10)
	}
	for _, perFile := range []int64{7, 13, 40} {
		for _, low := range []int64{1, 6, 7, 8, 13, 20, 26, 38, 39} {
			s := build(t, storetest.Options{SegmentSize: 1 << 14, QueueFileSize: 20 * perFile})
			for i, at := range times {
				if int64(i) == low {
					s.Blank()
				}
				s.Time = at
				s.add("orders", 0, 10)
			}
			s.Close()
			dropHead(t, s, 1<<14)
			store := open(t, s.Dir(), warmlog.Options{})
			if min, _, err := store.QueueBounds(context.Background(), "orders", 0); min != low || err != nil {
				t.Fatalf("minimum %d, want %d: %v", min, low, err)
			}
			compareWithScan(t, store, times, low, around(times))
			store.Close()
		}
	}
}

// A time in the blank end of a segment, in a gap of the store's time, in a queue that other
// queues' messages lie between.
func TestCase65GapsAndOtherQueues(t *testing.T) {
	s := build(t, storetest.Options{SegmentSize: 1 << 13, QueueFileSize: 200})
	var times []int64
	rng := rand.New(rand.NewPCG(65, 1))
	for len(times) < 200 {
		s.Time += rng.Int64N(5) * rng.Int64N(1000)
		if rng.IntN(3) == 0 {
			times = append(times, s.add("orders", 0, 50).Time)
		} else {
			s.add("others", rng.Int32N(3), rng.IntN(900))
		}
	}
	s.Close()
	compareWithScan(t, open(t, s.Dir(), warmlog.Options{}), times, 0, around(times))
}

// clocks are the ways in which the times of messages follow each other.
var clocks = map[string]func(rng *rand.Rand, i int, last int64) int64{
	"monotone":        func(rng *rand.Rand, i int, last int64) int64 { return last + rng.Int64N(4) },
	"stands still":    func(rng *rand.Rand, i int, last int64) int64 { return last },
	"repeats":         func(rng *rand.Rand, i int, last int64) int64 { return last + int64(i%50/49)*1000 },
	"jumps back once": func(rng *rand.Rand, i int, last int64) int64 { return last + 10 - b2i(i == 150)*3000 },
	"jumps back often": func(rng *rand.Rand, i int, last int64) int64 {
		return last + 10 - b2i(i%40 == 39)*(200+rng.Int64N(2000))
	},
	"jitters":        func(rng *rand.Rand, i int, last int64) int64 { return 1700000000000 + int64(i)*10 + rng.Int64N(60) },
	"random":         func(rng *rand.Rand, i int, last int64) int64 { return 1700000000000 + rng.Int64N(5000) },
	"runs backwards": func(rng *rand.Rand, i int, last int64) int64 { return last - 10 },
	"jumps ahead": func(rng *rand.Rand, i int, last int64) int64 {
		return last + 1 + b2i(i == 100)*86400000 - b2i(i == 110)*86400000
	},
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Whatever the clock did, the answer is that of a linear scan, where Open has seen the log.
// In what it has not seen, CheckBytes says how much that is, a search takes times for
// rising: then the answer is one of the queue's offsets, and exact for a clock that rose.
func TestCase65AClockInDisorder(t *testing.T) {
	for name, clock := range clocks {
		for _, checked := range []int64{0, 1} {
			t.Run(fmt.Sprintf("%s with %d checked", name, checked), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(65, 2))
				var times []int64
				last := int64(1700000000000)
				for i := range 300 {
					last = clock(rng, i, last)
					times = append(times, last)
				}
				s := timed(t, storetest.Options{SegmentSize: 1 << 13, QueueFileSize: 20 * 37}, times)
				store := open(t, s.Dir(), warmlog.Options{CheckBytes: checked})
				if checked == 0 || slices.IsSorted(times) {
					compareWithScan(t, store, times, 0, around(times))
					return
				}
				for _, at := range around(times) {
					for _, bound := range []consumequeue.Bound{consumequeue.Lower, consumequeue.Upper} {
						if off, err := store.OffsetByTime(context.Background(), "orders", 0, at, bound); err != nil || off < 0 || off > 300 {
							t.Fatalf("time %d, bound %d: %d: %v", at, bound, off, err)
						}
					}
				}
			})
		}
	}
}

// Damaged records are passed over, unknown queues and those without messages say so.
func TestCase65WhatIsNotThere(t *testing.T) {
	var times []int64
	for i := range int64(50) {
		times = append(times, 1000+i*10)
	}
	s := timed(t, storetest.Options{SegmentSize: 1 << 13}, times)
	path, at := s.Segment(s.all[20].Offset)
	flip(t, path, at+5, 1)
	store := open(t, s.Dir(), warmlog.Options{})
	for _, row := range []struct {
		time  int64
		bound consumequeue.Bound
		want  int64
	}{{1200, consumequeue.Lower, 21}, {1195, consumequeue.Lower, 21}, {1205, consumequeue.Upper, 19}, {1200, consumequeue.Upper, 19}, {1210, consumequeue.Upper, 21}} {
		if got, err := store.OffsetByTime(context.Background(), "orders", 0, row.time, row.bound); err != nil || got != row.want {
			t.Errorf("time %d, bound %d, message 20 damaged: %d, want %d: %v", row.time, row.bound, got, row.want, err)
		}
	}
	if _, err := store.OffsetByTime(context.Background(), "unknown", 0, 5, consumequeue.Lower); !errors.Is(err, warmlog.ErrUnknownQueue) {
		t.Errorf("an unknown queue: %v", err)
	}
	s = beheaded(t, 400)
	store = open(t, s.Dir(), warmlog.Options{})
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := store.OffsetByTime(cancelled, "orders", 0, 5, consumequeue.Lower); err == nil {
		t.Error("a context that ended is not seen")
	}
}

// A search in a queue of 100,000 messages takes a handful of probes.
func TestCase65ProbesOfALargeQueue(t *testing.T) {
	const messages = 100000
	s := build(t, storetest.Options{SegmentSize: 1 << 22, QueueFileSize: 20 * 30000})
	m := &message.Message{Topic: "orders", Body: []byte("x")}
	for range messages {
		s.Time += 9
		s.Put(m)
	}
	s.Close()
	store := open(t, s.Dir(), warmlog.Options{})
	_, _, err := store.QueueBounds(context.Background(), "orders", 0)
	must(t, err)
	first := int64(1700000000000 + 9)
	rng := rand.New(rand.NewPCG(65, 3))
	for range 200 {
		i := rng.Int64N(messages)
		for bound, want := range map[consumequeue.Bound]int64{consumequeue.Lower: i, consumequeue.Upper: i} {
			c := cost(t, func() {
				got, err := store.OffsetByTime(context.Background(), "orders", 0, first+10*i, bound)
				if err != nil || got != want {
					t.Fatalf("message %d, bound %d: %d: %v", i, bound, got, err)
				}
			})
			// A bisection of 100,000 has 17 steps: an entry and a record each.
			if c.calls > 2*(17+2) || c.bytes > 256<<10 {
				t.Fatalf("message %d, bound %d: %d calls, %d bytes", i, bound, c.calls, c.bytes)
			}
		}
	}
}
