package warmlog_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/message"
)

// raced is how much a race test appends.
const raced = 128 << 20

// Everything below the visible end is whole: a reader checks the newest record as soon as it
// may be read, while producers append as fast as they can, small records and large ones (which
// take long to store). At the end all is read: nothing that runs in the background has changed
// what was there.
func TestCrashReaderOfTheEnd(t *testing.T) {
	for _, d := range []warmlog.Durability{warmlog.Written, warmlog.Flushed} {
		t.Run(fmt.Sprintf("durability %d", d), func(t *testing.T) {
			s := create(t, t.TempDir(), warmlog.Options{SegmentSize: 16 << 20, QueueFileSize: 20 * 10000, Durability: d})
			defer s.Close()
			var stop atomic.Bool
			defer time.AfterFunc(2*time.Second, func() { stop.Store(true) }).Stop()
			var group, reader sync.WaitGroup
			for id, size := range []int{1000, 200_000} {
				group.Go(func() {
					for off := int64(0); !stop.Load(); off++ {
						if _, max := s.Bounds(); max > raced {
							return
						}
						m := storetest.Message(crashTopic, int32(id), off, size)
						if _, err := s.Append(context.Background(), m); err != nil {
							t.Errorf("append: %v", err)
							return
						}
					}
				})
			}
			group.Go(func() { // batches that are written, beside records that are stored
				for off := int64(0); !stop.Load(); off += 40 {
					if _, max := s.Bounds(); max > raced {
						return
					}
					var batch []*message.Message
					for i := range int64(40) {
						batch = append(batch, storetest.Message(crashTopic, 2, off+i, 500))
					}
					if _, err := s.AppendAll(context.Background(), batch, warmlog.StoreDefault); err != nil {
						t.Errorf("append: %v", err)
						return
					}
				}
			})
			reader.Go(func() {
				for _, pos := s.Bounds(); !stop.Load() && !t.Failed(); {
					if _, max := s.Bounds(); max > pos {
						wholeFrom(t, s, pos, 1)
						_, pos = s.Bounds() // a record will begin here
					}
				}
			})
			group.Wait()
			stop.Store(true)
			reader.Wait()
			must(t, s.Dispatched(context.Background()))
			_, end := s.Bounds()
			if to := wholeFrom(t, s, 0, math.MaxInt); to != end && !t.Failed() {
				t.Errorf("read up to %d of %d", to, end)
			}
			t.Logf("%d bytes", end)
		})
	}
}

// wholeFrom checks n visible records from a physical offset on, if there are so many, and
// returns the end.
func wholeFrom(t *testing.T, s *warmlog.Store, pos int64, n int) int64 {
	for v, err := range s.Records(context.Background(), pos) {
		if err != nil {
			t.Errorf("a visible record at or above %d: %v", pos, err)
			return pos
		}
		if err := storetest.Check(v, crashTopic, v.QueueID(), v.QueueOffset()); err != nil {
			t.Errorf("a visible record at %d: %v", v.PhysicalOffset(), err)
			return pos
		}
		pos = v.PhysicalOffset() + int64(v.Size())
		if n--; n == 0 {
			break
		}
	}
	return pos
}
