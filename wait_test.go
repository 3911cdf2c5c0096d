package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/storetest"
)

// waiting registers waiters of a store and collects what they are told.
type waiting struct {
	t     *testing.T
	store *warmlog.Store
	mu    sync.Mutex
	told  []string
}

func (w *waiting) at(topic string, off int64, filter string) (cancel func() bool) {
	req := getmessage.Request{Topic: topic, Offset: off, Filter: getmessage.NewTagFilter(filter, false)}
	return w.store.Register(&req, time.Time{}, func(got getmessage.Woken) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, fmt.Sprintf("%s at %d: %v %d", topic, off, got.Cause, got.Offset))
	})
}

// want compares with what was told, when nothing moves any more.
func (w *waiting) want(want ...string) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.told)
	if !slices.Equal(w.told, want) {
		w.t.Errorf("told %q, want %q", w.told, want)
	}
	w.told = nil
}

// add appends messages and waits until they are in their queues.
func add(t *testing.T, s *warmlog.Store, topic string, off, n int64) {
	t.Helper()
	for ; n > 0; off, n = off+1, n-1 {
		_, err := s.Append(context.Background(), storetest.Message(topic, 0, off, 100))
		must(t, err)
	}
	must(t, s.Dispatched(context.Background()))
}

// Producers append one message at a time, when every consumer has the one before: it comes
// between a consumer's last pull and its registration, and no other makes up for it. Time moves
// only when all wait for good, so that one who is forgotten comes to its deadline.
func TestWaitMissesNothing(t *testing.T) {
	for _, d := range []warmlog.Durability{warmlog.Written, warmlog.Flushed} {
		t.Run(fmt.Sprintf("durability %d", d), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const messages, consumers = 200, 3
				s := create(t, t.TempDir(), warmlog.Options{Durability: d, SegmentSize: 1 << 20})
				var group sync.WaitGroup
				for id := range int32(2) {
					seen := make(chan bool, consumers)
					group.Go(func() {
						for off := range int64(messages) {
							if _, err := s.Append(context.Background(), storetest.Message("orders", id, off, 100)); err != nil {
								t.Error(err)
							}
							for range consumers {
								if !<-seen {
									return
								}
							}
						}
					})
					for c := range consumers {
						group.Go(func() {
							req := getmessage.Request{Topic: "orders", QueueID: id}
							if c == 0 {
								req.Filter = getmessage.NewTagFilter("tag", false)
							}
							var batch getmessage.Batch
							defer batch.Release()
							for req.Offset < messages {
								if err := s.Get(context.Background(), &req, &batch); err != nil {
									t.Error(err)
								}
								for _, v := range batch.Records() {
									if err := storetest.Check(&v, "orders", id, req.Offset); err != nil {
										t.Error(err)
									}
									req.Offset++
									seen <- true
								}
								if batch.Status == getmessage.Found {
									continue
								}
								if req.Offset%consumers == int64(c) {
									runtime.Gosched()
								}
								told := make(chan getmessage.Woken)
								s.Register(&req, time.Now().Add(time.Hour), func(w getmessage.Woken) { told <- w })
								if w := <-told; w != (getmessage.Woken{Offset: req.Offset}) {
									t.Errorf("queue %d at %d: %+v", id, req.Offset, w)
									seen <- false
									return
								}
							}
						})
					}
				}
				group.Wait()
				must(t, s.Close())
			})
		})
	}
}

// What happens to a store answers its waiters or leaves them waiting, as Register says.
func TestWaitersOfAStore(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name string
		do   func(t *testing.T, s *warmlog.Store, w *waiting)
	}{
		{"append", func(t *testing.T, s *warmlog.Store, w *waiting) {
			w.at("orders", 3, "")
			w.at("orders", 3, "tag")
			w.at("orders", 3, "other")
			w.at("new", 0, "")
			w.at("new", 1, "")
			w.at("orders", 1, "tag")
			w.at("orders", 1, "other")
			w.want("new at 1: changed 1", "orders at 1: arrived 1")
			add(t, s, "orders", 3, 1)
			w.want("orders at 3: arrived 3", "orders at 3: arrived 3")
			add(t, s, "new", 0, 1)
			w.want("new at 0: arrived 0")
		}},
		{"delete topic", func(t *testing.T, s *warmlog.Store, w *waiting) {
			w.at("orders", 3, "")
			w.at("orders", 1, "other")
			w.at("bills", 3, "")
			must(t, s.DeleteTopic(ctx, "orders"))
			w.want("orders at 1: deleted 1", "orders at 3: deleted 3")
			w.at("orders", 3, "")
			w.at("orders", 0, "")
			w.want("orders at 3: changed 3")
			add(t, s, "orders", 0, 1)
			w.want("orders at 0: arrived 0")
		}},
		{"delete queue", func(t *testing.T, s *warmlog.Store, w *waiting) {
			w.at("orders", 3, "")
			w.at("bills", 3, "")
			must(t, s.DeleteQueue(ctx, "bills", 0))
			w.want("bills at 3: deleted 3")
		}},
		{"close", func(t *testing.T, s *warmlog.Store, w *waiting) {
			w.at("orders", 3, "")
			w.at("new", 0, "")
			must(t, s.Close())
			w.want("new at 0: closed 0", "orders at 3: closed 3")
			w.at("orders", 1, "")
			w.want("orders at 1: closed 1")
			if _, err := s.Wait(ctx, &getmessage.Request{Topic: "orders"}); !errors.Is(err, warmlog.ErrClosed) {
				t.Error(err)
			}
		}},
		{"visible limit", func(t *testing.T, s *warmlog.Store, w *waiting) {
			w.at("orders", 3, "")
			_, end := s.Bounds()
			must(t, s.SetVisibleLimit(end))
			_, err := s.Append(ctx, storetest.Message("orders", 0, 3, 100))
			must(t, err)
			w.want()
			must(t, s.SetVisibleLimit(0))
			w.want()
			must(t, s.SetVisibleLimit(math.MaxInt64))
			w.want("orders at 3: arrived 3")
		}},
		{"role", func(t *testing.T, s *warmlog.Store, w *waiting) {
			w.at("orders", 3, "")
			must(t, s.SetRole(ctx, getmessage.Slave))
			w.want("orders at 3: changed 3")
			w.at("orders", 3, "")
			w.at("orders", 9, "")
			w.want()
			must(t, s.SetRole(ctx, getmessage.Master))
			w.want("orders at 3: changed 3", "orders at 9: changed 9")
		}},
		{"truncate", func(t *testing.T, s *warmlog.Store, w *waiting) {
			must(t, s.SetRole(ctx, getmessage.Slave))
			w.at("orders", 1, "other")
			w.at("orders", 3, "")
			w.want()
			must(t, s.Truncate(ctx, 0))
			w.want("orders at 1: changed 1", "orders at 3: changed 3")
			w.at("orders", 3, "")
			w.want()
		}},
		{"wait", func(t *testing.T, s *warmlog.Store, w *waiting) {
			for _, off := range []int64{3, 4, 5} {
				time.AfterFunc(time.Minute, func() { add(t, s, "orders", off, 1) })
				got, err := s.Wait(ctx, &getmessage.Request{Topic: "orders", Offset: off})
				if err != nil || got != (getmessage.Woken{Offset: off}) {
					t.Errorf("%+v, %v", got, err)
				}
			}
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			for range 2 {
				if _, err := s.Wait(short, &getmessage.Request{Topic: "orders", Offset: 6}); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := create(t, t.TempDir(), warmlog.Options{})
				defer s.Close()
				add(t, s, "orders", 0, 3)
				add(t, s, "bills", 0, 3)
				c.do(t, s, &waiting{t: t, store: s})
			})
		})
	}
}

// A store that fails has no news for its waiters, until it is closed.
func TestWaitersOfAFailedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := create(t, dir, warmlog.Options{})
		add(t, s, "orders", 0, 3)
		w := &waiting{t: t, store: s}
		w.at("orders", 3, "")
		must(t, os.Truncate(filepath.Join(layout.Store(dir).CommitLog(), layout.FileName(0)), 0)) // the next store into the mapping faults
		if _, err := s.Append(context.Background(), storetest.Message("orders", 0, 3, 10)); !errors.Is(err, warmlog.ErrFailed) {
			t.Error(err)
		}
		w.want()
		w.at("orders", 2, "")
		w.want("orders at 2: arrived 2")
		_ = s.Close()
		w.want("orders at 3: closed 3")
	})
}

// A slave's waiters may be above its end; they wake when its master's log has come that far.
func TestWaitersOfASlave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		master := create(t, t.TempDir(), replicaOptions(warmlog.Written, getmessage.Master))
		slave := create(t, t.TempDir(), replicaOptions(warmlog.Written, getmessage.Slave))
		w := &waiting{t: t, store: slave}
		for off := range int64(5) {
			w.at("orders", off, "")
		}
		w.want()
		for n := range int64(5) {
			add(t, master, "orders", n, 1)
			_, end := master.Bounds()
			replicate(t, slave, master, end)
			w.want(fmt.Sprintf("orders at %d: arrived %d", n, n))
		}
		w.at("orders", 5, "")
		must(t, master.DeleteTopic(context.Background(), "orders"))
		must(t, slave.ApplyDeletions(master.Deletions()))
		w.want("orders at 5: deleted 5")
		must(t, master.Close())
		must(t, slave.Close())
	})
}

// A store that is open for reading follows another process's while somebody waits, and only then.
func TestWaitersOfAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := create(t, dir, warmlog.Options{})
		add(t, s, "orders", 0, 3)
		r, err := warmlog.Open(dir, warmlog.Options{ReadOnly: true})
		must(t, err)
		w := &waiting{t: t, store: r}
		w.at("orders", 3, "")
		w.at("new", 0, "")
		cancel := w.at("other", 0, "")
		w.want()
		add(t, s, "orders", 3, 1)
		time.Sleep(time.Second)
		w.want("orders at 3: arrived 3")
		add(t, s, "new", 0, 2)
		time.Sleep(time.Second)
		w.want("new at 0: arrived 0")
		if !cancel() {
			t.Error("not cancelled in time")
		}
		time.Sleep(time.Second)
		_, before := r.Bounds()
		add(t, s, "orders", 4, 1)
		time.Sleep(time.Minute)
		if _, end := r.Bounds(); end != before {
			t.Error("it follows though nobody waits")
		}
		time.AfterFunc(time.Minute, func() { add(t, s, "orders", 5, 1) })
		for off := range int64(6) {
			if got, err := r.Wait(context.Background(), &getmessage.Request{Topic: "orders", Offset: off}); err != nil || got != (getmessage.Woken{Offset: off}) {
				t.Errorf("%+v, %v", got, err)
			}
		}
		w.at("orders", 6, "")
		must(t, r.Close())
		w.want("orders at 6: closed 6")
		must(t, s.Close())
	})
}
