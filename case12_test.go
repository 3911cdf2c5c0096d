package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/message"
)

// A middle segment was deleted by hand.
func TestCase12AHoleInTheLog(t *testing.T) {
	const size, segments = 8 << 10, 12
	holes := map[string]struct {
		deleted []int64 // segments
		begin   int64   // the segment with which the log begins now
		end     int64   // behind the last one that has records
	}{
		"one":                            {[]int64{5}, 6, segments},
		"two in a row":                   {[]int64{5, 6}, 7, segments},
		"two apart":                      {[]int64{3, 8}, 9, segments},
		"the second":                     {[]int64{1}, 2, segments},
		"the second-last with records":   {[]int64{segments - 2}, segments - 1, segments},
		"the last with records":          {[]int64{segments - 1}, 0, segments - 1},
		"the last and one before":        {[]int64{4, segments - 1}, 5, segments - 1},
		"the two last with records":      {[]int64{segments - 2, segments - 1}, 0, segments - 2},
		"the head and one in the middle": {[]int64{0, 1, 6}, 7, segments},
	}
	each(t, modes, func(t *testing.T, leave func(*built)) {
		for name, hole := range holes {
			t.Run(name, func(t *testing.T) {
				s := build(t, storetest.Options{SegmentSize: size, QueueFileSize: 400, Premake: true}) // the one behind the last is made in advance
				s.fill("early", 1, 2*size)
				s.fill("orders", 3, segments*size-100)
				leave(s)
				named := "" // the first file of the hole that is highest
				for i, seg := range hole.deleted {
					path, _ := s.Segment(seg * size)
					must(t, os.Remove(path))
					if i == 0 || seg != hole.deleted[i-1]+1 {
						named = path
					}
				}
				checkHole(t, s, hole.begin*size, hole.end*size, named)
			})
		}
	})
}

func checkHole(t *testing.T, s *built, begin, end int64, missing string) {
	var left []storetest.Record
	for _, r := range s.all {
		if r.Offset >= begin && r.Offset < end {
			left = append(left, r)
		}
	}
	if _, err := warmlog.Open(s.Dir(), warmlog.Options{ReadOnly: true, RefuseHoles: true}); !errors.Is(err, layout.ErrHole) || !names(err, missing, 0) {
		t.Errorf("RefuseHoles: %v, want %s named", err, missing)
	}
	store := open(t, s.Dir(), warmlog.Options{})
	if !noted(store.Notes(), missing) {
		t.Errorf("%s is named nowhere in %q", missing, store.Notes())
	}
	if low, high := store.Bounds(); low != begin || high < left[len(left)-1].End() || high > end {
		t.Errorf("log from %d to %d, want %d to %d at most", low, high, begin, end)
	}
	for _, info := range store.Segments() {
		if info.From < begin || info.From >= end+8<<10 {
			t.Errorf("segment %+v is outside of [%d, %d)", info, begin, end)
		}
	}
	v, err := store.Verify(context.Background(), func(*message.DamageError) {})
	must(t, err)
	if !noted(v.Told, missing) {
		t.Errorf("verify does not tell of %s: %q", missing, v.Told)
	}
	n := 0
	for v, err := range store.Records(context.Background(), 0) {
		must(t, err)
		if n >= len(left) || v.PhysicalOffset() != left[n].Offset {
			t.Fatalf("record %d of %d at %d", n, len(left), v.PhysicalOffset())
		}
		n++
	}
	if n != len(left) {
		t.Errorf("%d records, want %d", n, len(left))
	}
	var b getmessage.Batch
	defer b.Release()
	ctx := context.Background()
	for _, q := range []queueID{{"orders", 0}, {"orders", 1}, {"orders", 2}, {"early", 0}} {
		all := s.of(q.topic, q.id)
		var want []int64
		low := int64(len(all)) // where numbering goes on, in a queue of which nothing is left
		for _, r := range all {
			if r.Offset >= begin && r.Offset < end {
				low = min(low, r.QueueOffset)
				want = append(want, r.QueueOffset)
			}
		}
		// From everywhere below, one correction leads to the upper edge.
		for _, from := range []int64{0, low / 2, low - 1} {
			if from < 0 || from >= low {
				continue
			}
			must(t, store.Get(ctx, &getmessage.Request{Topic: q.topic, QueueID: q.id, Offset: from}, &b))
			if b.Status != getmessage.OffsetTooSmall || b.NextOffset != low || b.MinOffset != low {
				t.Errorf("%s/%d at %d: %v, next %d, min %d; want %d", q.topic, q.id, from, b.Status, b.NextOffset, b.MinOffset, low)
			}
		}
		if got := drain(t, store, q.topic, q.id, low); fmt.Sprint(got.offsets) != fmt.Sprint(want) || len(got.damaged) > 0 {
			t.Errorf("%s/%d: %v, want %v; damaged %v", q.topic, q.id, short(got.offsets), short(want), got.damaged)
		}
	}
}

// Segments go from the front, one per millisecond, and new ones come, while 16 goroutines
// read at random and the store follows. Each read gives the record of that very offset, or
// says that it is gone.
func TestCase12RetentionUnderReaders(t *testing.T) {
	const size, segments, queues = 4 << 10, 120, 4
	s := build(t, storetest.Options{SegmentSize: size, QueueFileSize: 400, Premake: true})
	s.fill("orders", queues, segments*size)
	s.Flush()
	store := open(t, s.Dir(), warmlog.Options{})
	_, max0 := store.Bounds()
	if max0 != s.Pos() {
		t.Fatalf("the log ends at %d, want %d", max0, s.Pos())
	}
	var (
		stop  = make(chan struct{})
		group sync.WaitGroup
		reads atomic.Int64
		gone  atomic.Int64
		fails atomic.Int64
		next  [queues]atomic.Int64 // offsets that were put
	)
	for id := range next {
		next[id].Store(s.Next("orders", int32(id)))
	}
	fail := func(format string, args ...any) {
		if fails.Add(1) <= 5 {
			t.Errorf(format, args...)
		}
	}
	ctx := context.Background()
	for n := range 16 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), 12))
			var b getmessage.Batch
			defer b.Release()
			for ; ; runtime.Gosched() { // the one who deletes wants to run too
				select {
				case <-stop:
					return
				default:
				}
				id := rng.Int32N(queues)
				off := rng.Int64N(next[id].Load())
				low, _, err := store.QueueBounds(ctx, "orders", id)
				if err != nil {
					fail("bounds: %v", err)
					return
				}
				if n%4 == 3 { // the other ways to read
					if err := readOnce(store, rng, id, low); err != nil {
						fail("%v", err)
					}
					continue
				}
				found, err := pullOnce(store, &b, id, off, low)
				if err != nil {
					fail("%v", err)
					continue
				}
				if reads.Add(1); !found {
					gone.Add(1)
				}
			}
		})
	}
	for seg := int64(0); seg < segments-20; seg++ {
		path, _ := s.Segment(seg * size)
		must(t, os.Remove(path))
		for range 3 {
			id := int32(seg) % queues
			s.Add("orders", id, 300)
			s.Flush()
			next[id].Store(s.Next("orders", id))
		}
		for range 2 { // a consumer at the tail makes the store follow
			var b getmessage.Batch
			must(t, store.Get(ctx, &getmessage.Request{Topic: "orders", Offset: s.Next("orders", 0)}, &b))
		}
		time.Sleep(time.Millisecond)
	}
	// What is gone is known a second later: the directory is listed again.
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var b getmessage.Batch
		must(t, store.Get(ctx, &getmessage.Request{Topic: "orders", Offset: s.Next("orders", 0)}, &b))
		if low, _ := store.Bounds(); low == (segments-20)*size {
			break
		} else if time.Now().After(deadline) {
			t.Errorf("the log begins at %d, want %d", low, (segments-20)*size)
			break
		}
	}
	close(stop)
	group.Wait()
	t.Logf("%d pulls, %d of what is gone, %d wrong", reads.Load(), gone.Load(), fails.Load())
	if gone.Load() == 0 || reads.Load() < 300 {
		t.Error("the readers met nothing that was deleted")
	}
	for id := range int32(queues) { // what is left is whole
		low, high, err := store.QueueBounds(ctx, "orders", id)
		must(t, err)
		if got := drain(t, store, "orders", id, 0); int64(len(got.offsets)) != high-low || high != next[id].Load() {
			t.Errorf("orders/%d: %d messages in [%d, %d), %d were put", id, len(got.offsets), low, high, next[id].Load())
		}
	}
}

// pullOnce pulls at an offset that has a message, of a queue whose minimum was low before, and
// reports whether it is there: the answer is that message, or says that it is gone.
func pullOnce(store *warmlog.Store, b *getmessage.Batch, id int32, off, low int64) (found bool, err error) {
	ctx := context.Background()
	if err := store.Get(ctx, &getmessage.Request{Topic: "orders", QueueID: id, Offset: off, MaxMessages: 4}, b); err != nil {
		return false, fmt.Errorf("get orders/%d at %d: %w", id, off, err)
	}
	wrong := func(format string, args ...any) (bool, error) {
		return false, fmt.Errorf("get orders/%d at %d: %v, next %d, min %d, which was %d before: "+format,
			append([]any{id, off, b.Status, b.NextOffset, b.MinOffset, low}, args...)...)
	}
	switch b.Status {
	case getmessage.Found:
		for i := range b.Records() {
			v := &b.Records()[i]
			if err := errors.Join(storetest.Check(v, "orders", id, v.QueueOffset()), v.Check()); err != nil {
				return wrong("%w", err)
			}
		}
		if first := b.Records()[0].QueueOffset(); first != off {
			if now, _, _ := store.QueueBounds(ctx, "orders", id); first < off || now <= off {
				return wrong("the first message is %d, and the queue's minimum %d", first, now)
			}
		}
		return true, nil
	case getmessage.OffsetTooSmall:
		if b.NextOffset != b.MinOffset || b.MinOffset <= off || b.MinOffset < low {
			return wrong("too small")
		}
		return false, nil
	case getmessage.MessageWasRemoving:
		if b.NextOffset <= off || len(b.Damaged) > 0 {
			return wrong("damaged %v", b.Damaged)
		}
		return false, nil
	}
	if b.NextOffset > off { // else the writer has put it, and the store not yet seen
		return wrong("it is not there")
	}
	return true, nil
}

// readOnce reads by the other ways than Get while segments go.
func readOnce(store *warmlog.Store, rng *rand.Rand, id int32, low int64) error {
	ctx := context.Background()
	switch rng.IntN(3) {
	case 0:
		last, n := int64(-1), 0
		for v, err := range store.Messages(ctx, "orders", id, low) {
			if err != nil {
				return fmt.Errorf("messages of orders/%d from %d: %w", id, low, err)
			}
			if err := storetest.Check(v, "orders", id, v.QueueOffset()); err != nil || v.QueueOffset() <= last {
				return fmt.Errorf("messages of orders/%d, %d after %d: %w", id, v.QueueOffset(), last, err)
			}
			if last = v.QueueOffset(); n > 50 {
				break
			}
			n++
		}
	case 1:
		n := 0
		for v, err := range store.Records(ctx, 0) {
			if err != nil {
				return fmt.Errorf("records: %w", err)
			}
			if err := storetest.Check(v, "orders", v.QueueID(), v.QueueOffset()); err != nil {
				return fmt.Errorf("records: %w", err)
			}
			if n++; n > 50 {
				break
			}
		}
	case 2:
		off, err := store.OffsetByTime(ctx, "orders", id, 1700000000000+rng.Int64N(3000), consumequeue.Lower)
		if err != nil || off < low {
			return fmt.Errorf("search by time in orders/%d: %d, minimum %d: %w", id, off, low, err)
		}
	}
	return nil
}

// A segment that was deleted a moment ago is gone, not an error: retention of a running
// broker does that all the time.
func TestCase12AReadRightAfterADeletion(t *testing.T) {
	s := build(t, storetest.Options{SegmentSize: 4 << 10})
	s.fill("orders", 1, 10*4<<10)
	s.Close()
	for name, read := range map[string]func(t *testing.T, store *warmlog.Store){
		"Get": func(t *testing.T, store *warmlog.Store) {
			var b getmessage.Batch
			defer b.Release()
			err := store.Get(context.Background(), &getmessage.Request{Topic: "orders"}, &b)
			if err != nil || b.Status == getmessage.Found && b.Records()[0].PhysicalOffset() < 3*4<<10 {
				t.Errorf("%v, next %d: %v", b.Status, b.NextOffset, err)
			}
			if got := drain(t, store, "orders", 0, 0); len(got.damaged) > 0 {
				t.Errorf("damaged: %v", got.damaged)
			}
		},
		"Messages": func(t *testing.T, store *warmlog.Store) {
			if _, errs := messages(t, store, "orders", 0); len(errs) > 0 {
				t.Error(errs)
			}
		},
		"Records": func(t *testing.T, store *warmlog.Store) {
			for _, err := range store.Records(context.Background(), 0) {
				must(t, err)
			}
		},
		"OffsetByTime": func(t *testing.T, store *warmlog.Store) {
			off, err := store.OffsetByTime(context.Background(), "orders", 0, 1, consumequeue.Lower)
			if err != nil || off > s.all[len(s.all)-1].QueueOffset {
				t.Errorf("%d, %v", off, err)
			}
		},
		"FindByKey": func(t *testing.T, store *warmlog.Store) {
			_, err := store.FindByKey(context.Background(), warmlog.KeyQuery{Topic: "orders", Key: "none"})
			must(t, err)
		},
		"Inspect": func(t *testing.T, store *warmlog.Store) {
			_, err := store.Inspect(context.Background())
			must(t, err)
		},
		"Verify": func(t *testing.T, store *warmlog.Store) {
			_, err := store.Verify(context.Background(), func(d *message.DamageError) { t.Errorf("called damage: %v", d) })
			must(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.CopyFS(dir, os.DirFS(s.Dir())))
			// Opened, but not read whole: nothing of the head is mapped.
			store := open(t, dir, warmlog.Options{CheckBytes: 1})
			for seg := range int64(3) {
				path, _ := s.Segment(seg * 4 << 10)
				must(t, os.Remove(filepath.Join(dir, "commitlog", base(path))))
			}
			read(t, store)
		})
	}
}

// A store can be opened while a running broker deletes its oldest segments.
func TestCase12OpenWhileSegmentsGo(t *testing.T) {
	const size, segments = 4 << 10, 300
	s := build(t, storetest.Options{SegmentSize: size})
	s.fill("orders", 2, segments*size)
	s.Kill()
	var group sync.WaitGroup
	done := make(chan struct{})
	group.Go(func() {
		defer close(done)
		for seg := range int64(segments - 10) {
			path, _ := s.Segment(seg * size)
			if err := os.Remove(path); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(500 * time.Microsecond)
		}
	})
	defer group.Wait()
	opened, failed := 0, 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		store, err := warmlog.Open(s.Dir(), warmlog.Options{ReadOnly: true})
		if opened++; err != nil {
			if failed++; failed < 4 {
				t.Errorf("open: %v", err)
			}
			continue
		}
		if d := store.Damaged(); len(d) > 0 {
			t.Errorf("what was deleted is called damage: %v", d)
		}
		if _, max := store.Bounds(); max != s.Pos() {
			t.Errorf("the log ends at %d, want %d", max, s.Pos())
		}
		store.Close()
	}
	t.Logf("opened %d times, %d failed", opened, failed)
}
