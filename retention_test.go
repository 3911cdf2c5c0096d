package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/storetest"
)

// put appends messages to a queue, from its offset next on, and returns the next one.
func putMessages(t testing.TB, s *warmlog.Store, topic string, id int32, next int64, n int) int64 {
	t.Helper()
	for range n {
		_, err := s.Append(context.Background(), storetest.Message(topic, id, next, 200))
		must(t, err)
		next++
	}
	must(t, s.Dispatched(context.Background()))
	return next
}

// stuckAt returns the readers of one queue: groups that stay where they are.
func stuckAt(topic string, id int32, groups map[string]int64) func(string, int32) iter.Seq2[string, int64] {
	return func(t string, i int32) iter.Seq2[string, int64] {
		if t != topic || i != id {
			return nil
		}
		return maps.All(groups)
	}
}

// Each limit takes whole segments, from the front; consumers are told what they lost; what a
// reader holds stays what it is.
func TestRetention(t *testing.T) {
	const size = 1 << 14
	now := atomic.Int64{}
	now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	clock := func() time.Time { return time.UnixMilli(now.Load()) }
	limits := map[string]warmlog.Retention{
		"age":    {MaxAge: time.Hour},
		"size":   {MaxBytes: 3 * size},
		"unread": {MaxBytes: 3 * size, KeepUnread: true},
	}
	for name, limit := range limits {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			read := int64(40) // a group has read so many
			if limit.KeepUnread {
				read = 130
			}
			limit.Readers = stuckAt("orders", 0, map[string]int64{"g": read})
			limit.Interval = time.Hour // only when the test asks
			var mu sync.Mutex
			var told []warmlog.Expired
			o := warmlog.Options{SegmentSize: size, Clock: clock, Retention: limit, Expired: func(e warmlog.Expired) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, e)
			}}
			s := create(t, dir, o)
			defer func() { must(t, s.Close()) }()
			next := putMessages(t, s, "orders", 0, 0, 300)
			var held getmessage.Batch
			defer held.Release()
			must(t, s.Get(context.Background(), &getmessage.Request{Topic: "orders", MaxMessages: 8}, &held))
			var kept [][]byte
			for _, v := range held.Records() {
				kept = append(kept, slices.Clone(v.Raw()))
			}
			now.Add(2 * time.Hour.Milliseconds())
			next = putMessages(t, s, "orders", 0, next, 100)
			must(t, s.Checkpoint(context.Background()))
			_, end := s.Bounds()
			gone, err := s.Retain(context.Background())
			must(t, err)
			mu.Lock()
			if early := len(told) - len(gone); early < 0 || fmt.Sprint(gone) != fmt.Sprint(told[early:]) || len(told) == 0 {
				t.Fatalf("deleted %v, told %v", gone, told)
			}
			gone = told // also what was deleted in the background when the store was opened
			mu.Unlock()
			begin, _ := s.Bounds()
			low, high, err := s.QueueBounds(context.Background(), "orders", 0)
			must(t, err)
			switch name {
			case "age": // all but those with a record of the last hour
				if low > 300 || low < 240 {
					t.Errorf("%d messages are gone, the first 300 are old", low)
				}
			case "size":
				if end-begin > 4*size || end-begin < 2*size {
					t.Errorf("%d bytes are left, the limit is %d", end-begin, limit.MaxBytes)
				}
			case "unread":
				if low > read {
					t.Errorf("message %d is gone, and %d was not read", low-1, read)
				}
			}
			lost := int64(0)
			for i, e := range gone {
				if e.From != int64(i)*size || e.Bytes != size || filepath.Base(e.File) == "" {
					t.Errorf("%+v", e)
				}
				for _, u := range e.Unread {
					if u.Group != "g" || u.Topic != "orders" || u.QueueID != 0 {
						t.Errorf("%+v", u)
					}
					lost += u.Messages
				}
			}
			if want := max(0, low-read); lost != want {
				t.Errorf("told of %d messages that were not read, %d were", lost, want)
			}
			var b getmessage.Batch
			must(t, s.Get(context.Background(), &getmessage.Request{Topic: "orders", Offset: 3}, &b))
			if b.Status != getmessage.OffsetTooSmall || b.NextOffset != low || b.Lost != low-3 {
				t.Errorf("a consumer at 3: %v, next %d, %d lost; the queue begins with %d", b.Status, b.NextOffset, b.Lost, low)
			}
			if got := drain(t, s, "orders", 0, low); int64(len(got.offsets)) != high-low || high != next || len(got.damaged) > 0 {
				t.Errorf("%d messages of [%d, %d), damaged %v", len(got.offsets), low, high, got.damaged)
			}
			for i, v := range held.Records() {
				if string(v.Raw()) != string(kept[i]) {
					t.Errorf("message %d that is held has changed", i)
				}
			}
			if again, err := s.Retain(context.Background()); err != nil || len(again) != 0 {
				t.Errorf("asked again: %v, %v", again, err)
			}
			next = putMessages(t, s, "orders", 0, next, 10)
			reader := open(t, dir, warmlog.Options{})
			if got := drain(t, reader, "orders", 0, 0); int64(len(got.offsets)) != next-low {
				t.Errorf("opened: %d messages, want %d", len(got.offsets), next-low)
			}
		})
	}
}

// What was deleted stays deleted, whatever is lost or cut short; what was appended since is
// there, and numbered from 0.
func TestDeleteTopic(t *testing.T) {
	for _, d := range []warmlog.Durability{warmlog.Written, warmlog.Flushed} {
		dir := t.TempDir()
		o := warmlog.Options{SegmentSize: 1 << 14, Durability: d}
		s := create(t, dir, o)
		ctx := context.Background()
		for id := range int32(3) {
			putMessages(t, s, "orders", id, 0, 150)
			putMessages(t, s, "kept", id, 0, 50)
		}
		var held getmessage.Batch
		must(t, s.Get(ctx, &getmessage.Request{Topic: "orders", QueueID: 1}, &held))
		must(t, s.DeleteTopic(ctx, "orders"))
		must(t, s.DeleteQueue(ctx, "kept", 2))
		if err := s.DeleteTopic(ctx, "none"); !errors.Is(err, warmlog.ErrUnknownQueue) {
			t.Error(err)
		}
		for _, v := range held.Records() {
			must(t, v.Check())
		}
		held.Release()
		putMessages(t, s, "orders", 1, 0, 20)
		check := func(s *warmlog.Store, when string) {
			t.Helper()
			want := map[queueID]int{{"orders", 1}: 20, {"kept", 0}: 50, {"kept", 1}: 50}
			for _, q := range []queueID{{"orders", 0}, {"orders", 1}, {"orders", 2}, {"kept", 0}, {"kept", 1}, {"kept", 2}} {
				if got := drain(t, s, q.topic, q.id, 0); len(got.offsets) != want[q] || len(got.damaged) > 0 {
					t.Errorf("%s: %v has %d messages, want %d; damaged %v", when, q, len(got.offsets), want[q], got.damaged)
				}
			}
		}
		check(s, "deleted")
		must(t, s.Close())
		check(open(t, dir, warmlog.Options{}), "read")
		for _, lose := range []string{"consumequeue", "checkpoint", "warmlog/state"} {
			removeAll(t, filepath.Join(dir, lose))
			check(open(t, dir, warmlog.Options{CheckBytes: -1}), "read without "+lose)
			s = create(t, dir, o)
			check(s, "opened without "+lose)
			must(t, s.Close())
		}
		if _, damage := verify(t, dir); len(damage) > 0 {
			t.Error(damage)
		}
	}
}

func removeAll(t testing.TB, path string) {
	t.Helper()
	must(t, os.RemoveAll(path))
}
