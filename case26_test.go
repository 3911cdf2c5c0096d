package warmlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/storetest"
)

// stuck26 is a small disk with a store on it whose messages are consumed by nobody.
type stuck26 struct {
	t    *testing.T
	s    *warmlog.Store
	next [2]int64 // of orders/0, which has groups, and orders/1, which has none
}

func newStuck26(t *testing.T, r warmlog.Retention, o warmlog.Options) *stuck26 {
	d := newDisk(t, 64)
	r.Interval = 10 * time.Millisecond
	o.Retention, o.SegmentSize = r, 1<<20
	s := create(t, filepath.Join(d.dir, "store"), o)
	t.Cleanup(func() { must(t, s.Close()) })
	return &stuck26{t: t, s: s}
}

// write appends messages to both queues, up to n or a refusal.
func (k *stuck26) write(n int) error {
	for i := range n {
		id := i % 2
		_, err := k.s.Append(context.Background(), storetest.Message("orders", int32(id), k.next[id], 16<<10))
		if err != nil {
			return err
		}
		k.next[id]++
	}
	return nil
}

// conditionOf returns a condition of a store, nil if it is not set.
func conditionOf(s *warmlog.Store, name, path string) *warmlog.Condition {
	for _, c := range s.Stats().Conditions {
		if c.Name == name && c.Path == path {
			return &c
		}
	}
	return nil
}

// A disk runs full with messages that a group has not read, and they are deleted: the groups
// that lose some, and how many, are told before a file goes, and each of them by its next pull.
func TestCase26DeletedAndTold(t *testing.T) {
	var mu sync.Mutex
	var before, after []warmlog.Expired
	var logged bytes.Buffer // written by the one who deletes
	groups := map[string]int64{"stuck": 0, "late": 500, "ahead": 1 << 40}
	logger := slog.New(slog.NewTextHandler(lines(func(s string) {
		mu.Lock()
		defer mu.Unlock()
		logged.WriteString(s)
	}), nil))
	k := newStuck26(t, warmlog.Retention{DeleteAbove: 60, RefuseAbove: 90, Readers: stuckAt("orders", 0, groups)}, warmlog.Options{
		Logger: logger,
		Expiring: func(e warmlog.Expired) {
			if _, err := os.Stat(e.File); err != nil {
				t.Errorf("told of when it was gone: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			before = append(before, e)
		},
		Expired: func(e warmlog.Expired) {
			if _, err := os.Stat(e.File); !os.IsNotExist(err) {
				t.Errorf("said to be deleted: %s, %v", e.File, err)
			}
			mu.Lock()
			defer mu.Unlock()
			after = append(after, e)
		},
	})
	ctx := context.Background()
	for written := 0; written < 6000; written += 100 { // twice what the disk holds
		for err := k.write(100); err != nil; err = k.write(100) {
			if !errors.Is(err, warmlog.ErrNoSpace) {
				t.Fatal(err)
			}
			_, err := k.s.Retain(ctx)
			must(t, err)
		}
	}
	must(t, k.s.Dispatched(ctx))
	_, err := k.s.Retain(ctx)
	must(t, err)
	low, high, err := k.s.QueueBounds(ctx, "orders", 0)
	must(t, err)
	mu.Lock()
	defer mu.Unlock()
	if len(after) == 0 || fmt.Sprint(before) != fmt.Sprint(after) {
		t.Fatalf("announced %v, deleted %v", before, after)
	}
	told := map[string]int64{}
	for _, e := range before {
		for _, u := range e.Unread {
			if u.Topic != "orders" || u.QueueID != 0 {
				t.Errorf("%+v", u)
			}
			told[u.Group] += u.Messages
		}
	}
	if want := map[string]int64{"stuck": low, "late": low - 500}; !maps.Equal(told, want) || low <= 500 || high != k.next[0] {
		t.Errorf("told that %v messages are lost; the queue is [%d, %d)", told, low, high)
	}
	if n := strings.Count(logged.String(), "group=stuck topic=orders queue=0"); n != len(after) {
		t.Errorf("logged %d times, %d segments were deleted", n, len(after))
	}
	for group, at := range map[string]int64{"stuck": 0, "late": 500} {
		var b getmessage.Batch
		must(t, k.s.Get(ctx, &getmessage.Request{Group: group, Topic: "orders", Offset: at}, &b))
		if b.Status != getmessage.OffsetTooSmall || b.NextOffset != low || b.Lost != low-at {
			t.Errorf("%s at %d: %v, next %d, %d lost; the queue begins with %d", group, at, b.Status, b.NextOffset, b.Lost, low)
		}
	}
	if got := drain(t, k.s, "orders", 0, low); int64(len(got.offsets)) != high-low {
		t.Errorf("%d messages of [%d, %d)", len(got.offsets), low, high)
	}
}

// The other choice: what was not read stays, appends are refused instead, and why is told by
// name. When the group has read on, appends go on.
func TestCase26KeptAndRefused(t *testing.T) {
	var at atomic.Int64
	readers := func(topic string, id int32) iter.Seq2[string, int64] {
		if topic != "orders" || id != 0 {
			return nil
		}
		return func(yield func(string, int64) bool) { _ = yield("ahead", 1<<40) && yield("stuck", at.Load()) }
	}
	k := newStuck26(t, warmlog.Retention{DeleteAbove: 60, RefuseAbove: 80, KeepUnread: true, Readers: readers}, warmlog.Options{})
	ctx := context.Background()
	var err error
	for range 100 {
		if err = k.write(100); err != nil {
			break
		}
		_, retained := k.s.Retain(ctx)
		must(t, retained)
	}
	log := filepath.Dir(k.s.Segments()[0].File)
	if !errors.Is(err, warmlog.ErrNoSpace) || !strings.Contains(err.Error(), log) || !strings.Contains(err.Error(), "the limit is 80 %") {
		t.Fatalf("refused by %v", err)
	}
	must(t, k.s.Dispatched(ctx))
	if low, high, err := k.s.QueueBounds(ctx, "orders", 0); err != nil || low != 0 || high != k.next[0] {
		t.Errorf("the queue is [%d, %d): %v", low, high, err)
	}
	kept := conditionOf(k.s, warmlog.KeptUnread, log)
	if kept == nil || kept.Refuses || !strings.Contains(kept.Err.Error(), "Group:stuck") || strings.Contains(kept.Err.Error(), "ahead") {
		t.Errorf("%+v", k.s.Stats().Conditions)
	}
	if h := k.s.Health(); !errors.Is(h, warmlog.ErrNoSpace) || !strings.Contains(h.Error(), "Group:stuck") {
		t.Errorf("health: %v", h)
	}
	at.Store(k.next[0])
	gone, err := k.s.Retain(ctx)
	must(t, err)
	for _, e := range gone {
		if len(e.Unread) > 0 {
			t.Errorf("%+v", e)
		}
	}
	if kept := conditionOf(k.s, warmlog.KeptUnread, log); kept != nil || k.s.Health() != nil {
		t.Errorf("%+v", k.s.Stats().Conditions)
	}
	must(t, k.write(10))
}
