package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/keyindex"
)

// create opens a store for writing, in small files unless the options say otherwise.
func create(t testing.TB, dir string, o warmlog.Options) *warmlog.Store {
	t.Helper()
	if o.SegmentSize == 0 {
		o.SegmentSize = 1 << 16
	}
	if o.QueueFileSize == 0 {
		o.QueueFileSize = 20 * 100
	}
	if o.Index == (keyindex.Layout{}) {
		o.Index = keyindex.Layout{Slots: 50, Entries: 200}
	}
	s, err := warmlog.Open(dir, o)
	must(t, err)
	return s
}

// Many producers append to many queues; every message is there at once, after a restart, and
// to who opens the store for reading.
func TestAppend(t *testing.T) {
	for _, d := range []warmlog.Durability{warmlog.Written, warmlog.Flushed} {
		for _, crc := range []bool{false, true} {
			t.Run(fmt.Sprintf("durability %d crc %v", d, crc), func(t *testing.T) {
				dir := t.TempDir()
				const producers, queues = 4, 3
				var total [queues]int64
				for round := range 3 {
					s := create(t, dir, warmlog.Options{Durability: d, RecordCRC: crc})
					var mu sync.Mutex
					var group sync.WaitGroup
					for range producers {
						group.Go(func() {
							for n := range 150 {
								id := int32(n % queues)
								mu.Lock() // the body names the offset
								m := storetest.Message("orders", id, total[id], 50+n*7%900)
								r, err := s.Append(context.Background(), m)
								if err != nil || r.QueueOffset != total[id] {
									t.Errorf("append: %+v, %v, want offset %d", r, err, total[id])
								}
								total[id]++
								mu.Unlock()
							}
						})
					}
					group.Wait()
					for id := range int32(queues) {
						wholeQueue(t, s, "orders", id, total[id])
					}
					must(t, s.Close())
					if _, err := os.Stat(filepath.Join(dir, "abort")); !os.IsNotExist(err) {
						t.Errorf("the marker of a running store is left: %v", err)
					}
					reader := open(t, dir, warmlog.Options{})
					for id := range int32(queues) {
						wholeQueue(t, reader, "orders", id, total[id])
					}
					_, damage := verify(t, dir)
					for _, d := range damage {
						t.Errorf("round %d: %v", round, d)
					}
					if t.Failed() {
						return
					}
				}
			})
		}
	}
}

// wholeQueue waits until a queue has n messages, and reads all of them.
func wholeQueue(t testing.TB, s *warmlog.Store, topic string, id int32, n int64) {
	t.Helper()
	if err := s.Dispatched(context.Background()); !errors.Is(err, warmlog.ErrReadOnly) {
		must(t, err)
	}
	got := drain(t, s, topic, id, 0)
	if int64(len(got.offsets)) != n || len(got.damaged) > 0 {
		t.Errorf("%s/%d: %d messages, want %d; damaged %v", topic, id, len(got.offsets), n, got.damaged)
	}
}

func TestAppendAsync(t *testing.T) {
	for _, d := range []warmlog.Durability{warmlog.Written, warmlog.Flushed} {
		s := create(t, t.TempDir(), warmlog.Options{Durability: d})
		const n = 2000
		var done sync.WaitGroup
		last := int64(-1)
		for i := range int64(n) {
			done.Add(1)
			s.AppendAsync(storetest.Message("orders", 0, i, 100), warmlog.StoreDefault, func(r warmlog.Appended, err error) {
				if err != nil || r.QueueOffset != last+1 {
					t.Errorf("%+v after %d: %v", r, last, err)
				}
				last = r.QueueOffset
				done.Done()
			})
		}
		done.Wait()
		wholeQueue(t, s, "orders", 0, n)
		must(t, s.Close())
	}
}

// A store is continued that is a copy of one which runs: as after a kill.
func TestAppendAfterAKill(t *testing.T) {
	dir := t.TempDir()
	var total int64
	for round := range 6 {
		s := create(t, dir, warmlog.Options{})
		for range 300 {
			m := storetest.Message("orders", 0, total, 200)
			_, err := s.Append(context.Background(), m)
			must(t, err)
			total++
		}
		if round%2 == 0 {
			must(t, s.Dispatched(context.Background()))
		}
		copied := t.TempDir()
		must(t, os.CopyFS(copied, os.DirFS(dir)))
		must(t, s.Close())
		dir = copied
	}
	s := create(t, dir, warmlog.Options{})
	wholeQueue(t, s, "orders", 0, total)
	must(t, s.Close())
	if _, damage := verify(t, dir); len(damage) > 0 {
		t.Error(damage)
	}
}

// RocketMQ's checkpoint says what is on disk, also after a run that appended nothing.
func TestCheckpointOfAnIdleRun(t *testing.T) {
	dir := t.TempDir()
	read := func() layout.Checkpoint {
		c, err := layout.ReadCheckpoint(filepath.Join(dir, "checkpoint"))
		must(t, err)
		return c
	}
	s := create(t, dir, warmlog.Options{})
	putMessages(t, s, "orders", 0, 0, 50)
	must(t, s.Close())
	first := read()
	if first.LogicsTime == 0 || first.LogicsOffset == 0 || first.PhysicTime != first.LogicsTime {
		t.Errorf("%+v", first)
	}
	for range 2 {
		must(t, create(t, dir, warmlog.Options{}).Close())
		if got := read(); got != first {
			t.Errorf("an idle run: %+v, was %+v", got, first)
		}
	}
	s = create(t, dir, warmlog.Options{})
	putMessages(t, s, "orders", 0, 50, 1)
	must(t, s.Close())
	if got := read(); got.LogicsOffset <= first.LogicsOffset || got.LogicsTime < first.LogicsTime {
		t.Errorf("one more message: %+v, was %+v", got, first)
	}
}
