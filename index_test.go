package warmlog_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/message"
)

// The index of a store that is written has every key, also after a kill, after it was lost,
// and beside the files of an earlier run.
func TestIndexOfAWrittenStore(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	var offsets [7][]int64
	n := int64(0)
	add := func(s *warmlog.Store, count int) {
		for range count {
			m := storetest.Message("orders", 0, n, 100)
			m.Keys = fmt.Sprintf("k%d all", n%7)
			r, err := s.Append(ctx, m)
			must(t, err)
			offsets[n%7] = append(offsets[n%7], r.PhysicalOffset)
			n++
		}
	}
	check := func(s *warmlog.Store, when string) {
		t.Helper()
		for k := range offsets {
			got, err := s.FindByKey(ctx, warmlog.KeyQuery{Topic: "orders", Key: fmt.Sprint("k", k), Max: 1 << 20})
			if err != nil || !slices.Equal(got.Offsets, offsets[k]) || len(got.Damaged) > 0 {
				t.Errorf("%s: key %d: %d of %d messages, damaged %v: %v", when, k, len(got.Offsets), len(offsets[k]), got.Damaged, err)
			}
		}
	}
	for round := range 5 {
		s := create(t, dir, warmlog.Options{})
		check(s, "opened")
		add(s, 300)
		must(t, s.Dispatched(ctx))
		check(s, "written")
		if round%2 == 0 { // a copy is what a kill leaves
			copied := t.TempDir()
			must(t, os.CopyFS(copied, os.DirFS(dir)))
			must(t, s.Close())
			dir = copied
			continue
		}
		must(t, s.Close())
		if round == 3 {
			must(t, os.RemoveAll(filepath.Join(dir, "index")))
		}
	}
	s := create(t, dir, warmlog.Options{})
	check(s, "at last")
	must(t, s.Close())
	reader := open(t, dir, warmlog.Options{})
	check(reader, "read")
	v, err := reader.Verify(ctx, func(d *message.DamageError) { t.Error(d) })
	must(t, err)
	if v.Index.Behind > 0 || v.Index.Ahead > 0 {
		t.Errorf("%+v", v.Index)
	}
}

// Queues that were lost or cut, in a store that was stopped in order, are whole before the
// first append: numbering goes on where the log says, and the files are what they were.
func TestCase05QueuesThatWereCut(t *testing.T) {
	ctx := context.Background()
	spoil := map[string]func(t *testing.T, dir string){
		"the last file deleted": func(t *testing.T, dir string) {
			files, _ := filepath.Glob(dir + "/*")
			must(t, os.Remove(files[len(files)-1]))
		},
		"three entries cut": func(t *testing.T, dir string) {
			files, _ := filepath.Glob(dir + "/*")
			b, err := os.ReadFile(files[len(files)-1])
			must(t, err)
			used := len(b)
			for used > 0 && b[used-9] == 0 {
				used -= 20
			}
			clear(b[max(0, used-60):used])
			must(t, os.WriteFile(files[len(files)-1], b, 0o644))
		},
		"all deleted":  func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) },
		"nothing lost": func(t *testing.T, dir string) {},
	}
	for name, spoil := range spoil {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := create(t, dir, warmlog.Options{})
			for id := range int32(20) {
				putMessages(t, s, "orders", id, 0, 130)
			}
			must(t, s.Close())
			victim := filepath.Join(dir, "consumequeue/orders/7")
			want := tree(t, filepath.Join(dir, "consumequeue"))
			spoil(t, victim)
			s = create(t, dir, warmlog.Options{})
			for id := range int32(20) {
				r, err := s.Append(ctx, storetest.Message("orders", id, 130, 50))
				if err != nil || r.QueueOffset != 130 {
					t.Fatalf("orders/%d: %+v, %v", id, r, err)
				}
			}
			for id := range int32(20) {
				wholeQueue(t, s, "orders", id, 131)
			}
			must(t, s.Close())
			got := tree(t, filepath.Join(dir, "consumequeue"))
			if len(got) != len(want) {
				t.Errorf("%d files, there were %d", len(got), len(want))
			}
			if _, damage := verify(t, dir); len(damage) > 0 {
				t.Error(damage)
			}
		})
	}
}

// Who searches or looks while others append disturbs nobody: each message is dispatched once.
func TestFindWhileAppending(t *testing.T) {
	ctx := context.Background()
	s := create(t, t.TempDir(), warmlog.Options{})
	var looking sync.WaitGroup
	stop := make(chan struct{})
	looking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_, err := s.FindByKey(ctx, warmlog.KeyQuery{Topic: "orders", Key: "none"})
			must(t, err)
			_, err = s.Inspect(ctx)
			must(t, err)
			s.Stats()
		}
	})
	var appending sync.WaitGroup
	const producers, each = 4, 500
	for id := range int32(producers) {
		appending.Go(func() {
			for n := range int64(each) {
				_, err := s.Append(ctx, storetest.Message("orders", id, n, 100))
				must(t, err)
			}
		})
	}
	appending.Wait()
	close(stop)
	looking.Wait()
	for id := range int32(producers) {
		wholeQueue(t, s, "orders", id, each)
	}
	must(t, s.Close())
}
