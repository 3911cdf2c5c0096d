package warmlog_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/message"
)

// lifeMessage is a message that tells its offset, and in which life of the log it was appended.
func lifeMessage(life string, off int64) *message.Message {
	return &message.Message{Topic: crashTopic, Body: fmt.Appendf(nil, "%s life, message %d", life, off), Keys: fmt.Sprint("key", off)}
}

// alwaysFlushed are the messages that the child flushes, whatever the durability of its store.
const alwaysFlushed = 2

// consumeJob is what the child of TestCase04 does: it appends, and reads by offset, by key and
// in physical order what can be seen meanwhile. It tells
//
//	N seen way offset physical body   a message was seen
//	N round offset                    all ways were tried since its append began
func consumeJob(t *testing.T, p *plan, s *warmlog.Store, tell func(string, ...any)) {
	ctx := context.Background()
	var begun atomic.Int64
	begun.Store(-1)
	var group sync.WaitGroup
	group.Go(func() {
		for off := int64(0); ; off++ {
			d := warmlog.StoreDefault
			if off < alwaysFlushed {
				d = warmlog.Flushed
			}
			begun.Store(off)
			r, err := s.AppendWith(ctx, lifeMessage("first", off), d)
			if err != nil {
				tell("E append %d: %v", off, err)
				return
			}
			tell("A 0 %d %d 1", r.QueueOffset, r.PhysicalOffset)
			time.Sleep(time.Duration(p.Pause) * time.Microsecond)
		}
	})
	seen := map[string]bool{}
	told := int64(-1)
	see := func(way string, v *message.View) {
		line := fmt.Sprintf("N seen %s %d %d %s", way, v.QueueOffset(), v.PhysicalOffset(), v.Body())
		if !seen[line] {
			seen[line] = true
			tell("%s", line)
		}
	}
	var b getmessage.Batch
	defer b.Release()
	next, from := int64(0), int64(0)
	for { // until it is killed
		last := begun.Load()
		if err := s.Get(ctx, &getmessage.Request{Topic: crashTopic, Offset: next}, &b); err != nil {
			t.Error(err)
		}
		for _, v := range b.Records() {
			see("offset", &v)
			next = v.QueueOffset() + 1
		}
		if last >= 0 {
			found, err := s.FindByKey(ctx, warmlog.KeyQuery{Topic: crashTopic, Key: fmt.Sprint("key", last)})
			if err != nil {
				t.Error(err)
				return
			}
			for _, pos := range found.Offsets {
				for v, err := range s.Records(ctx, pos) {
					if err != nil {
						t.Error(err)
						return
					}
					see("key", v)
					break
				}
			}
		}
		for v, err := range s.Records(ctx, from) {
			if err != nil {
				t.Error(err)
				return
			}
			see("log", v)
			from = v.PhysicalOffset()
		}
		if last > told {
			told = last
			tell("N round %d", last)
		}
	}
}

// sightings are what readers saw of queue 0: message by offset.
type sightings map[int64]string

// see notes a sighting; a queue offset that is seen with two different messages is an error.
func (s sightings) see(t *testing.T, off int64, body string) {
	t.Helper()
	if before, ok := s[off]; ok && before != body {
		t.Errorf("offset %d was %q and is %q", off, before, body)
	}
	s[off] = body
}

// progress is what a consumer has stored who saw all that.
func (s sightings) progress() (next int64) {
	for off := range s {
		next = max(next, off+1)
	}
	return next
}

// cutWhileFlushing starts a child whose flushes are slow and cuts the power inside one: an
// append has begun, and all readers have looked since. It returns what they saw before, and
// the store as it was on the disk.
func cutWhileFlushing(t *testing.T, flushed bool) (sightings, plan) {
	path := strace(t)
	d := newDisk(t, 64)
	p := plan{Dir: filepath.Join(d.dir, "store"), Flushed: flushed, Job: "consume", Pause: 2000}
	var j journal
	// -D: what is started, and killed, is the child itself.
	c := j.start(t, p, path, "-D", "-f", "--seccomp-bpf", "-o", os.DevNull, "-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_enter=500000")
	defer j.kill(c)
	for {
		select {
		case <-j.ended:
			t.Fatal("the child has ended", j.errors)
		case <-time.After(time.Millisecond):
		}
		seen, round, acked := j.consumed()
		if round < alwaysFlushed || flushed && acked >= round {
			continue // not inside a flush, or one of the first
		}
		p.Dir = filepath.Join(mounted(t, d.cut(t)), "store")
		return seen, p
	}
}

// consumed returns what the child has told: what it saw, of which append all readers have
// looked since it began, and the last that was acknowledged.
func (j *journal) consumed() (seen sightings, round, acked int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	seen, round, acked = sightings{}, -1, -1
	for _, note := range j.notes {
		if rest, ok := strings.CutPrefix(note, "seen "); ok {
			var way string
			var off, pos int64
			if n, _ := fmt.Sscanf(rest, "%s %d %d", &way, &off, &pos); n == 3 {
				seen[off] = strings.SplitN(rest, " ", 4)[3]
			}
		} else {
			_, _ = fmt.Sscanf(note, "round %d", &round)
		}
	}
	for _, a := range j.acks {
		acked = max(acked, a.off)
	}
	return seen, round, acked
}

// lives opens a store after a cut, checks it with the end of queue 0, and appends others.
func lives(t *testing.T, p plan, check func(s *warmlog.Store, end int64)) {
	ctx := context.Background()
	s, err := warmlog.Open(p.Dir, p.options())
	must(t, err)
	defer func() { must(t, s.Close()) }()
	_, end, err := s.QueueBounds(ctx, crashTopic, 0)
	must(t, err)
	t.Logf("on the disk up to %d", end)
	check(s, end)
	for off := end; off < end+5; off++ {
		if r, err := s.Append(ctx, lifeMessage("second", off)); err != nil || r.QueueOffset != off {
			t.Errorf("appended at %d, want %d: %v", r.QueueOffset, off, err)
		}
	}
	must(t, s.Dispatched(ctx))
}

// The flush takes long, and the power is cut in the middle: nobody has seen what was not yet
// on the disk, by no way to read, so that no offset is seen with two messages, and a consumer
// who goes on where he was misses none.
func TestCase04NothingAboveTheDurablePosition(t *testing.T) {
	seen, p := cutWhileFlushing(t, true)
	if len(seen) < alwaysFlushed {
		t.Errorf("the readers saw %d messages", len(seen))
	}
	progress := seen.progress()
	lives(t, p, func(_ *warmlog.Store, end int64) {
		if progress > end {
			t.Errorf("seen up to %d, and %d are on the disk", progress, end)
		}
	})
	s := open(t, p.Dir, warmlog.Options{})
	last := int64(-1)
	for v, err := range s.Messages(context.Background(), crashTopic, 0, 0) {
		must(t, err)
		seen.see(t, v.QueueOffset(), string(v.Body()))
		last = v.QueueOffset()
	}
	if last < progress+4 {
		t.Errorf("messages up to %d, the consumer was at %d and 5 others came", last, progress)
	}
	second := 0
	for off, body := range seen {
		if strings.HasPrefix(body, "second") {
			if second++; off < progress {
				t.Errorf("offset %d, which was consumed, is %q", off, body)
			}
		}
	}
	if second != 5 {
		t.Errorf("%d messages of the second life, want 5", second)
	}
}

// In a Written store consumers can have seen what a power cut takes back. Who then asks from
// where he was is told so, and not given nothing, or another message, without a word.
func TestCase04ProgressAboveTheEnd(t *testing.T) {
	seen, p := cutWhileFlushing(t, false)
	progress := seen.progress()
	lives(t, p, func(s *warmlog.Store, end int64) {
		if end >= progress {
			t.Skip("all was written back before the cut")
		}
		if end < alwaysFlushed {
			t.Errorf("%d messages, %d were acknowledged as flushed", end, alwaysFlushed)
		}
		var b getmessage.Batch
		for _, at := range []int64{end + 1, progress, progress + 1000} {
			must(t, s.Get(context.Background(), &getmessage.Request{Topic: crashTopic, Offset: at}, &b))
			if at > end && (b.Status != getmessage.OffsetOverflowBadly || b.NextOffset != end || b.MaxOffset != end || len(b.Records()) > 0) {
				t.Errorf("a pull at %d: %v, next %d, max %d; the queue ends at %d", at, b.Status, b.NextOffset, b.MaxOffset, end)
			}
		}
		for off := range end { // what is left is what was seen
			must(t, s.Get(context.Background(), &getmessage.Request{Topic: crashTopic, Offset: off}, &b))
			for _, v := range b.Records() {
				seen.see(t, v.QueueOffset(), string(v.Body()))
			}
		}
		b.Release()
	})
}
