package warmlog_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/message"
)

// Slices that somebody holds keep their bytes through deletion of topics, retention, Close and
// another Open in the same process, which gets addresses that were given back.
func TestCase29HeldSlices(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	const size = 1 << 14
	o := warmlog.Options{SegmentSize: size, Retention: warmlog.Retention{MaxBytes: 2 * size, Interval: 1 << 40}}
	s := create(t, dir, o)
	for _, topic := range []string{"orders", "payments"} {
		putMessages(t, s, topic, 0, 0, 300)
	}
	held := make([]getmessage.Batch, 200)
	var kept [][]byte
	for i := range held {
		topic := []string{"orders", "payments"}[i%2]
		must(t, s.Get(ctx, &getmessage.Request{Topic: topic, Offset: int64(i), MaxMessages: 3}, &held[i]))
		for _, v := range held[i].Records() {
			kept = append(kept, slices.Clone(v.Raw()))
		}
	}
	check := func(when string) {
		t.Helper()
		n := 0
		for i := range held {
			for _, v := range held[i].Records() {
				if !bytes.Equal(v.Raw(), kept[n]) {
					t.Fatalf("%s: a held record has changed", when)
				}
				n++
			}
		}
	}
	must(t, s.DeleteTopic(ctx, "payments"))
	check("a topic deleted")
	must(t, s.Checkpoint(ctx))
	gone, err := s.Retain(ctx)
	must(t, err)
	if len(gone) < 3 {
		t.Fatalf("%d segments expired", len(gone))
	}
	check("segments expired")
	if st := s.Stats(); st.UnlinkedBytes == 0 {
		t.Error("nobody says that deleted segments are still held")
	}
	must(t, s.Close())
	check("closed")
	s = create(t, dir, o)
	putMessages(t, s, "other", 0, 0, 500)
	check("opened again")
	for i := range held {
		held[i].Release()
		held[i].Release() // harmless
	}
	must(t, s.Close())
	if err := s.Close(); !errors.Is(err, warmlog.ErrClosed) {
		t.Error(err)
	}
}

// Each figure is in order, moves with what it counts, and comes back.
func TestStats(t *testing.T) {
	ctx := context.Background()
	for _, d := range []warmlog.Durability{warmlog.Written, warmlog.Flushed} {
		s := create(t, t.TempDir(), warmlog.Options{Durability: d})
		ordered := func() warmlog.Stats {
			t.Helper()
			st := s.Stats()
			if !(0 <= st.Min && st.Min <= st.OnDisk.Checkpointed && st.OnDisk.Checkpointed <= st.Dispatched && st.Dispatched <= st.Visible && st.Visible <= st.Written && st.OnDisk.Durable <= st.Written) {
				t.Errorf("%+v", st)
			}
			return st
		}
		if st := ordered(); st.Written != 0 || st.Queues != 0 || s.Health() != nil {
			t.Errorf("at first: %+v, %v", st, s.Health())
		}
		next := int64(0)
		for range 20 {
			next = putMessages(t, s, "orders", 0, next, 30)
			ordered()
		}
		must(t, s.Checkpoint(ctx))
		st := ordered()
		if st.OnDisk.Checkpointed != st.Written || st.OnDisk.Durable != st.Written || st.Dispatched != st.Visible || st.Visible != st.Written || st.Queues != 1 || st.Segments < 2 {
			t.Errorf("caught up: %+v", st)
		}
		must(t, s.Close())
		if !errors.Is(s.Health(), warmlog.ErrClosed) {
			t.Errorf("closed: %v", s.Health())
		}
	}
}

// An append that fails in the middle leaves nothing behind: the next one works.
func TestCase44AfterAFailedAppend(t *testing.T) {
	ctx := context.Background()
	var fails bool
	o := warmlog.Options{}
	o.Clock = clockThat(&fails)
	s := create(t, t.TempDir(), o)
	next := putMessages(t, s, "orders", 0, 0, 5)
	for range 3 {
		fails = true
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the clock did not panic")
				}
			}()
			_, _ = s.Append(ctx, &message.Message{Topic: "orders", BornTimestamp: 1})
		}()
		fails = false
		next = putMessages(t, s, "orders", 0, next, 5)
	}
	wholeQueue(t, s, "orders", 0, next)
	must(t, s.Close())
}

// clockThat is a clock that panics when it is told to.
func clockThat(fails *bool) func() time.Time {
	return func() time.Time {
		if *fails {
			panic("the clock fails")
		}
		return time.Now()
	}
}
