package warmlog_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/storetest"
)

// The head of the log goes such that the entries of a queue point below it: none, some, all
// but the last one, all.
func TestCase53TheMinimumFollowsTheLog(t *testing.T) {
	const size, each = 8 << 10, 60
	for _, perFile := range []int64{7, 20, 60, 1000} {
		for _, role := range []getmessage.Role{getmessage.Master, getmessage.Slave} {
			for _, live := range []bool{false, true} {
				t.Run(fmt.Sprintf("files of %d role %d live %v", perFile, role, live), func(t *testing.T) {
					steps := []int64{0, 1, 4, 10, 19, 21, 30, 39}
					if live { // each takes a second, so that each of these stores makes one step
						t.Parallel()
						steps = map[int64][]int64{7: {10}, 20: {19}, 60: {21}, 1000: {39}}[perFile]
					}
					s := build(t, storetest.Options{SegmentSize: size, QueueFileSize: perFile * 20})
					// Queues that end in different places: "whole" goes through all of the log, "half"
					// ends in the middle, "lone" has one last message behind a long pause, "short" is of
					// the first segments, "late" begins in the last ones.
					for s.Pos() < 40*size {
						s.add("whole", 0, 300)
						if s.Pos() < 20*size {
							s.add("half", 0, 200)
							s.add("lone", 0, 100)
						}
						if s.Pos() < 5*size {
							s.add("short", 0, 100)
						}
						if s.Pos() > 36*size {
							s.add("late", 0, 100)
						}
					}
					s.add("lone", 0, 100)
					s.Close()
					store := open(t, s.Dir(), warmlog.Options{Role: role})
					queues := []string{"whole", "half", "lone", "short", "late"}
					for _, q := range queues { // bounds are known before
						drain(t, store, q, 0, 0)
					}
					for _, gone := range steps {
						dropHead(t, s, gone*size)
						for len(s.all) > 0 && s.all[0].Offset < gone*size {
							s.all = s.all[1:]
						}
						if live {
							// The store sees it at the latest a second after it was asked for the tail.
							deadline := time.Now().Add(5 * time.Second)
							for {
								var b getmessage.Batch
								must(t, store.Get(context.Background(), &getmessage.Request{Topic: "whole", Offset: s.Next("whole", 0)}, &b))
								if low, _ := store.Bounds(); low == gone*size {
									break
								}
								if time.Now().After(deadline) {
									t.Fatalf("%d segments are gone, and the store does not see it", gone)
								}
								time.Sleep(20 * time.Millisecond)
							}
						} else {
							store.Close()
							store = open(t, s.Dir(), warmlog.Options{Role: role})
						}
						for _, q := range queues {
							checkMinimum(t, s, store, role, q, gone)
						}
					}
				})
			}
		}
	}
}

func checkMinimum(t *testing.T, s *built, store *warmlog.Store, role getmessage.Role, topic string, gone int64) {
	t.Helper()
	ctx := context.Background()
	end := s.Next(topic, 0)
	low := end
	if left := s.of(topic, 0); len(left) > 0 {
		low = left[0].QueueOffset
	}
	min, max, err := store.QueueBounds(ctx, topic, 0)
	if err != nil || min != low || max != end {
		t.Errorf("%d segments are gone: %s is [%d, %d), want [%d, %d): %v", gone, topic, min, max, low, end, err)
	}
	if role == getmessage.Slave {
		return // it corrects nobody
	}
	var b getmessage.Batch
	defer b.Release()
	for _, from := range []int64{-1, 0, low / 2, low - 1, low, (low + end) / 2, end - 1, end, end + 1, 1 << 40} {
		at := from
		for pull := 1; ; pull++ {
			must(t, store.Get(ctx, &getmessage.Request{Topic: topic, Offset: at}, &b))
			if b.Status == getmessage.Found {
				if err := storetest.Check(&b.Records()[0], topic, 0, at); err != nil || at < from && from < end {
					t.Errorf("%d segments are gone: %s from %d: %v", gone, topic, from, err)
				}
				break
			}
			if b.Status == getmessage.OffsetOverflowOne {
				break
			}
			if pull == 2 {
				t.Errorf("%d segments are gone: %s from %d: still %v at the second pull, at %d", gone, topic, from, b.Status, at)
				break
			}
			at = b.NextOffset
		}
	}
}

// Pulls that are corrected again and again, by a client that does not listen, read nothing.
func TestCase53RepeatedIllegalPullsAreFree(t *testing.T) {
	s := beheaded(t, 400)
	for _, role := range []getmessage.Role{getmessage.Master, getmessage.Slave} {
		store := open(t, s.Dir(), warmlog.Options{Role: role})
		var b getmessage.Batch
		pull := func(n int, off int64) {
			for range n {
				must(t, store.Get(context.Background(), &getmessage.Request{Topic: "orders", Offset: off}, &b))
			}
		}
		pull(1, 0)
		pull(1, 60) // the first that reads finds out how to ask the kernel
		// The runtime reads a few bytes of its own now and then.
		if c := cost(t, func() { pull(1000, 0) }); c.calls > 20 || c.bytes > 1000 {
			t.Errorf("role %d: 1000 pulls below the minimum read %d bytes in %d calls", role, c.bytes, c.calls)
		}
		if c := cost(t, func() { pull(1000, 60) }); c.calls > 20 || c.bytes > 1000 {
			t.Errorf("role %d: 1000 pulls of what is there read %d bytes in %d calls", role, c.bytes, c.calls)
		}
		store.Close()
	}
}

// A pull at the end, or above, looks for new messages: one look at the tail, and a small
// one, however large the segment is that follows.
func TestCase53PullsAtTheEndAreCheap(t *testing.T) {
	for _, size := range []int64{1 << 16, 1 << 26} {
		for _, running := range []bool{false, true} {
			s := build(t, storetest.Options{SegmentSize: size})
			for range 100 {
				s.add("orders", 0, 100)
			}
			if running {
				s.Kill()
			} else {
				s.Close()
			}
			store := open(t, s.Dir(), warmlog.Options{})
			var b getmessage.Batch
			for _, off := range []int64{100, 101, 1 << 40} {
				pull := func() {
					must(t, store.Get(context.Background(), &getmessage.Request{Topic: "orders", Offset: off}, &b))
				}
				pull()
				const n = 300
				c := cost(t, func() {
					for range n {
						pull()
					}
				})
				if c.calls > n+n/10 || c.bytes > n*8<<10 {
					t.Errorf("segments of %d: %d pulls at %d read %d bytes in %d calls: %d each", size, n, off, c.bytes, c.calls, c.bytes/n)
				}
			}
			store.Close()
		}
	}
}
