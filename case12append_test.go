package warmlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/storetest"
)

// rolled are messages that producers append, by queue and offset, with their places.
type rolled struct {
	mu  sync.Mutex
	pos [4][]int64
}

func (r *rolled) add(id int32, pos int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pos[id] = append(r.pos[id], pos)
}

// any returns one of the messages of a queue.
func (r *rolled) any(rng *rand.Rand, id int32) (off, pos int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.pos[id]
	if len(all) == 0 {
		return 0, 0, false
	}
	// Half of them about where segments go.
	off = rng.Int64N(int64(len(all)))
	if rng.IntN(2) == 0 {
		off = max(0, int64(len(all))-100+rng.Int64N(100))
	}
	return off, all[off], true
}

// Retention deletes segments as fast as it can while producers append and segments roll, and
// 16 readers ask for messages at random, by queue offset and by place in the log. Each answer is
// the message of that very offset, or says that it is gone. The segments have no hole at any
// moment. The store rolls through 120 segments; WARMLOG_CRASH_ROUNDS multiplies.
func TestCase12RetentionUnderAppends(t *testing.T) {
	const size = 4 << 10
	ctx := context.Background()
	each(t, durabilities, func(t *testing.T, d warmlog.Durability) {
		dir := t.TempDir()
		var s *warmlog.Store
		var all rolled
		var producers, others sync.WaitGroup
		var stop atomic.Bool
		var gone, reads, fails, deleted atomic.Int64
		fail := func(err error) {
			if err != nil && fails.Add(1) <= 5 {
				t.Error(err)
			}
		}
		expired := func(e warmlog.Expired) { // one at a time: nobody else deletes
			if _, err := os.Stat(e.File); !os.IsNotExist(err) || e.From != deleted.Load()*size {
				fail(fmt.Errorf("deleted %+v after %d others: %w", e, deleted.Load(), err))
			}
			deleted.Add(1)
			for _, seg := range s.Segments() {
				if _, err := os.Stat(seg.File); err != nil {
					fail(err)
				}
			}
		}
		s = create(t, dir, warmlog.Options{SegmentSize: size, QueueFileSize: 400, Durability: d, Expired: expired,
			Retention: warmlog.Retention{MaxBytes: 10 * size, Interval: time.Hour}})
		defer s.Close()
		until := int64(rounds(120)) * size
		for id := range all.pos {
			producers.Go(func() {
				for off := int64(0); s.Stats().Written < until && fails.Load() == 0; off++ {
					r, err := s.Append(ctx, storetest.Message("orders", int32(id), off, 40+int(off*37%400)))
					if err != nil || r.QueueOffset != off {
						fail(fmt.Errorf("append to %d: %+v, want offset %d: %w", id, r, off, err))
						return
					}
					all.add(int32(id), r.PhysicalOffset)
				}
			})
		}
		for n := range 16 {
			others.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(n), 12))
				var b getmessage.Batch
				defer b.Release()
				for ; !stop.Load(); runtime.Gosched() {
					id := rng.Int32N(int32(len(all.pos)))
					off, pos, ok := all.any(rng, id)
					low, _, err := s.QueueBounds(ctx, "orders", id)
					if !ok || err != nil {
						continue // not yet known
					}
					found := true
					switch n % 4 {
					case 3:
						err = readOnce(s, rng, id, low)
					case 2:
						found, err = recordOnce(s, id, off, pos)
					default:
						found, err = pullOnce(s, &b, id, off, low)
					}
					fail(err)
					if reads.Add(1); !found {
						gone.Add(1)
					}
				}
			})
		}
		others.Go(func() { // no hole at any moment
			for ; !stop.Load(); runtime.Gosched() {
				fail(contiguous(s.Segments()))
			}
		})
		others.Go(func() {
			for !stop.Load() {
				fail(s.Checkpoint(ctx))
				_, err := s.Retain(ctx)
				fail(err)
			}
		})
		producers.Wait()
		behind := func() bool { low, _ := s.Bounds(); return low < until-15*size || gone.Load() < 100 }
		for behind() && fails.Load() == 0 {
			runtime.Gosched()
		}
		stop.Store(true)
		others.Wait()
		t.Logf("%d reads, %d of what is gone, %d segments deleted", reads.Load(), gone.Load(), deleted.Load())
		if deleted.Load() < until/size/2 {
			t.Errorf("%d segments were deleted of %d", deleted.Load(), until/size)
		}
		must(t, s.Dispatched(ctx))
		for id, pos := range all.pos {
			low, high, err := s.QueueBounds(ctx, "orders", int32(id))
			must(t, err)
			if got := drain(t, s, "orders", int32(id), low); int64(len(got.offsets)) != high-low || high != int64(len(pos)) || len(got.damaged) > 0 {
				t.Errorf("orders/%d: %d messages in [%d, %d), %d were appended; damaged %v", id, len(got.offsets), low, high, len(pos), got.damaged)
			}
		}
		must(t, s.Close())
		if _, damage := verify(t, dir); len(damage) > 0 {
			t.Error(damage)
		}
	})
}

// contiguous reports a hole between segments.
func contiguous(segments []warmlog.SegmentInfo) error {
	for i := 1; i < len(segments); i++ {
		if segments[i].From != segments[i-1].To {
			return fmt.Errorf("a hole between segments: %+v, %+v", segments[i-1], segments[i])
		}
	}
	return nil
}

// recordOnce reads the log from a message's place on.
func recordOnce(s *warmlog.Store, id int32, off, pos int64) (found bool, err error) {
	for v, err := range s.Records(context.Background(), pos) {
		if err != nil {
			return false, fmt.Errorf("record at %d: %w", pos, err)
		}
		if v.PhysicalOffset() == pos {
			return true, storetest.Check(v, "orders", id, off)
		}
		if low, _ := s.Bounds(); v.PhysicalOffset() < pos || low <= pos {
			return false, fmt.Errorf("record at %d instead of %d; the log begins at %d", v.PhysicalOffset(), pos, low)
		}
		return false, nil
	}
	return true, nil // not yet visible
}
