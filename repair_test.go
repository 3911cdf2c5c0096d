package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

// What is damaged is mended from the log, what cannot be mended is named, and what is removed
// is kept. A dry run says the same and changes nothing.
func TestRepair(t *testing.T) {
	ctx := context.Background()
	spoil := map[string]struct {
		do   func(t *testing.T, s *built)
		lost int // messages
		left int // damage that stays
	}{
		"nothing": {func(*testing.T, *built) {}, 0, 0},
		"a queue of noise": {func(t *testing.T, s *built) {
			path, _ := s.QueueFile("orders", 1, 0)
			put(t, path, 0, storetest.Body("noise", 0, 0, 400))
		}, 0, 0},
		"a queue file gone": {func(t *testing.T, s *built) {
			path, _ := s.QueueFile("orders", 1, 25)
			must(t, os.Remove(path))
		}, 0, 0},
		"all queues gone": {func(t *testing.T, s *built) { must(t, os.RemoveAll(s.Paths.ConsumeQueue())) }, 0, 0},
		"an index of noise": {func(t *testing.T, s *built) {
			put(t, s.IndexFiles()[0], 100, storetest.Body("noise", 0, 0, 400))
		}, 0, 0},
		"a torn tail": {func(t *testing.T, s *built) {
			path, at := s.Segment(s.Pos())
			put(t, path, at, s.Encode(storetest.Message("orders", 1, 99, 200), 99, s.Pos(), s.Time)[:150])
			must(t, os.WriteFile(s.Paths.Abort(), nil, 0o644))
		}, 0, 0},
		"a record in the middle": {func(t *testing.T, s *built) {
			path, at := s.Segment(s.all[20].Offset)
			flip(t, path, at+5, 3)
		}, 1, 1},
	}
	for name, row := range spoil {
		t.Run(name, func(t *testing.T) {
			s := build(t, storetest.Options{SegmentSize: 8 << 10, QueueFileSize: 20 * 20, Index: keyindex.Layout{Slots: 10, Entries: 40}})
			for n := 0; s.Pos() < 4*8<<10-1000; n++ {
				m := s.Message("orders", int32(n)%3, 60+n*37%200)
				m.Keys = fmt.Sprintf("k%d", n%20)
				s.all = append(s.all, s.Put(m))
			}
			s.Close()
			row.do(t, s)
			before := tree(t, s.Dir())
			plan, err := warmlog.Repair(ctx, s.Dir(), warmlog.Options{}, true)
			must(t, err)
			after := tree(t, s.Dir())
			if fmt.Sprint(after) != fmt.Sprint(before) {
				t.Error("a dry run has changed something")
			}
			if (len(plan.Steps) > 0) != (name != "nothing") {
				t.Errorf("the plan: %v", plan.Steps)
			}
			done, err := warmlog.Repair(ctx, s.Dir(), warmlog.Options{}, false)
			must(t, err)
			if fmt.Sprint(done.Steps) != fmt.Sprint(plan.Steps) || len(done.Left) != row.left {
				t.Errorf("done %v, left %v; planned %v", done.Steps, done.Left, plan.Steps)
			}
			store := open(t, s.Dir(), warmlog.Options{})
			got := 0
			for id := range int32(3) {
				got += len(drain(t, store, "orders", id, 0).offsets)
			}
			if got != len(s.all)-row.lost {
				t.Errorf("%d messages, want %d", got, len(s.all)-row.lost)
			}
			v, err := store.Verify(ctx, func(d *message.DamageError) {})
			must(t, err)
			if v.Damage != int64(row.left) || v.Index.Behind > 0 {
				t.Errorf("after the repair: %+v", v)
			}
		})
	}
}

func TestRepairOfAStoreInUse(t *testing.T) {
	s := create(t, t.TempDir(), warmlog.Options{})
	putMessages(t, s, "orders", 0, 0, 10)
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Dir(s.Segments()[0].File)+"/..")))
	lockedByAnother(t, filepath.Join(dir, "lock"))
	if _, err := warmlog.Repair(context.Background(), dir, warmlog.Options{}, false); !errors.Is(err, warmlog.ErrInUse) {
		t.Error(err)
	}
	must(t, s.Close())
}
