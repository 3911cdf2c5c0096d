package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/storetest"
	"golang.org/x/sys/unix"
)

// limitFiles sets how many files this process may have open. What it was before holds again
// when the test ends.
func limitFiles(t *testing.T, n uint64) {
	t.Helper()
	var old unix.Rlimit
	must(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: max(n, hardLimit(t))}, &old))
	t.Cleanup(func() { must(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &old, nil)) })
}

func hardLimit(t *testing.T) uint64 {
	var r unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &r))
	return r.Max
}

// hoard is what somebody else in the process has open.
type hoard []int

// fill takes all descriptors that are left.
func (h *hoard) fill() {
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		*h = append(*h, fd)
	}
}

// give gives some back.
func (h *hoard) give(n int) {
	rest := len(*h) - n
	for _, fd := range (*h)[rest:] {
		_ = unix.Close(fd)
	}
	*h = (*h)[:rest]
}

const queues37 = 120

// append37 appends a message to a queue; where a limit is in the way it is tried again when the
// log was synced, which gives descriptors back.
func append37(t *testing.T, s *warmlog.Store, next map[int32]int64, id int32) {
	t.Helper()
	for range 1000 {
		_, err := s.Append(context.Background(), storetest.Message("orders", id, next[id], 1000))
		if err == nil {
			next[id]++
			return
		}
		if !errors.Is(err, warmlog.ErrLimit) {
			t.Fatal(err)
		}
		if err := s.Checkpoint(context.Background()); err != nil && !errors.Is(err, warmlog.ErrLimit) {
			t.Fatal(err)
		}
	}
	t.Fatalf("orders/%d: no append in 1000 tries", id)
}

// A process with 96 descriptors has many more queues and segments: all is written and read,
// with a part of them open at a time. Then none is left at all: what needs one is refused and
// says why, nothing that is half made stays, what needs none goes on, and all goes on when the
// limit was raised.
func TestCase37Descriptors(t *testing.T) {
	for _, d := range []warmlog.Durability{warmlog.Written, warmlog.Flushed} {
		t.Run(fmt.Sprint("durability ", d), func(t *testing.T) {
			const limit = 96
			limitFiles(t, limit)
			dir, ctx := t.TempDir(), context.Background()
			s := create(t, dir, warmlog.Options{SegmentSize: 16 << 10, Durability: d})
			next := map[int32]int64{}
			for range 5 {
				for id := range int32(queues37) {
					append37(t, s, next, id)
				}
			}
			must(t, s.Dispatched(ctx))
			must(t, s.Checkpoint(ctx))
			for id := range int32(queues37) {
				wholeQueue(t, s, "orders", id, next[id])
			}
			if st := s.Stats(); st.OpenFiles > limit/2 || st.Segments < limit/3 {
				t.Errorf("%d files are open, of %d segments and %d queues", st.OpenFiles, st.Segments, st.Queues)
			}

			var taken hoard
			defer func() { taken.give(len(taken)) }()
			for range 100 { // segments that are full are synced for new ones
				taken.fill()
				_, err := s.Append(ctx, storetest.Message("orders", 0, next[0], 1000))
				if err == nil {
					next[0]++
				} else if !errors.Is(err, warmlog.ErrLimit) {
					t.Fatal(err)
				}
			}
			before := next[0]
			for _, id := range []int32{0, 5} { // what fits goes on
				left := 16<<10 - s.Stats().Written%(16<<10)
				if _, err := s.Append(ctx, storetest.Message("orders", id, next[id], 1)); err == nil {
					next[id]++
				} else if left > 400 || !errors.Is(err, warmlog.ErrLimit) {
					t.Errorf("%d bytes are left in the segment: %v", left, err)
				}
			}
			limited(t, &taken, limit, func(n int) error { // the files of a queue that it does not know
				_, err := s.Append(ctx, storetest.Message(fmt.Sprint("new", n), 0, 0, 1))
				return err
			})
			limited(t, &taken, limit, func(int) error { return s.Checkpoint(ctx) })
			if c := conditionOf(s, warmlog.NoCheckpoint, dir); c == nil {
				t.Errorf("%+v", s.Stats().Conditions)
			}
			for _, c := range s.Stats().Conditions {
				if c.Refuses {
					t.Errorf("%+v", c)
				}
			}
			t.Logf("message %d of orders/0 was the last one; %d descriptors are somebody else's; %+v", before, len(taken), s.Stats().Conditions)

			// Two for a new segment, and none for who reads what was appended: that waits.
			for n := 0; conditionOf(s, warmlog.DispatchWaits, "") == nil; n++ {
				if n == 20_000 {
					t.Fatalf("dispatch does not wait: %+v", s.Stats().Conditions)
				}
				taken.fill()
				_, err := s.Append(ctx, storetest.Message("orders", 0, next[0], 1000))
				switch {
				case err == nil:
					next[0]++
				case !errors.Is(err, warmlog.ErrLimit):
					t.Fatal(err)
				case len(taken) > 2:
					taken.give(2)
				}
			}
			limitFiles(t, 4096) // and what is taken stays so
			wholeFiles(t, dir)
			for id := range int32(queues37) {
				append37(t, s, next, id)
			}
			_, err := s.Append(ctx, storetest.Message("another", 0, 0, 1))
			must(t, err)
			must(t, s.Dispatched(ctx))
			must(t, s.Checkpoint(ctx))
			if h := s.Health(); h != nil {
				t.Error(h)
			}
			for id := range int32(queues37) {
				wholeQueue(t, s, "orders", id, next[id])
			}
			must(t, s.Close())
			if _, damage := verify(t, dir); len(damage) > 0 {
				t.Error(damage)
			}
		})
	}
}

// limited does something until it is refused for want of a descriptor: each time none is left
// when it begins, but for what files have given back that were only read, or were synced.
func limited(t *testing.T, taken *hoard, limit int, do func(n int) error) {
	t.Helper()
	var err error
	for n := 0; n < 1000 && err == nil; n++ {
		taken.fill()
		err = do(n)
	}
	if !errors.Is(err, warmlog.ErrLimit) || !errors.Is(err, unix.EMFILE) || !strings.Contains(err.Error(), fmt.Sprintf("RLIMIT_NOFILE is %d, and ", limit)) {
		t.Errorf("without a descriptor: %v", err)
	}
}

// wholeFiles checks that segments and queue files have their size.
func wholeFiles(t *testing.T, dir string) {
	t.Helper()
	for pattern, size := range map[string]int64{"commitlog/*": 16 << 10, "consumequeue/*/*/*": 2000} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		must(t, err)
		for _, path := range files {
			if st, err := os.Stat(path); err != nil || st.Size() != size {
				t.Errorf("half made: %s: %v, %v", path, st.Size(), err)
			}
		}
	}
}

// What a new segment costs does not rise with the number of segments that there are: bytes
// allocated are counted, not time. WARMLOG_SCALE=1 makes it 20,000 segments instead of 3,000.
func TestCase37ManySegments(t *testing.T) {
	many := 3_000
	if os.Getenv("WARMLOG_SCALE") != "" {
		many = 20_000
	}
	few, lots := rollCost(t, 10), rollCost(t, many)
	t.Logf("a roll allocates %d bytes among 10 segments, %d among %d", few, lots, many)
	if lots > 2*few+4096 {
		t.Errorf("a roll allocates %d bytes among 10 segments, %d among %d", few, lots, many)
	}
}

// rollCost returns how many bytes are allocated by an append that begins a segment.
func rollCost(t *testing.T, segments int) int64 {
	const size = 4096
	dir := layout.Store(t.TempDir())
	must(t, os.MkdirAll(dir.CommitLog(), 0o755))
	b := storetest.New(t, string(dir), storetest.Options{SegmentSize: size})
	for range segments - 1 {
		b.Add("old", 0, 100)
		b.Blank()
	}
	b.Add("old", 0, 100)
	b.Close()
	s := create(t, string(dir), warmlog.Options{SegmentSize: size, QueueFileSize: 6_000_000, CheckBytes: 1})
	defer func() { must(t, s.Close()) }()
	roll := func(n int) {
		for range n {
			_, err := s.Append(context.Background(), storetest.Message("orders", 0, 0, size*2/3))
			must(t, err)
		}
		must(t, s.Dispatched(context.Background()))
		must(t, s.Checkpoint(context.Background()))
	}
	roll(50)
	const n = 200
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	roll(n)
	runtime.ReadMemStats(&after)
	if got := s.Stats().Segments; got < segments+n {
		t.Fatalf("%d segments", got)
	}
	return int64(after.TotalAlloc-before.TotalAlloc) / n
}
