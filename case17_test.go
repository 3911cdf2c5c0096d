package warmlog_test

import (
	"context"
	"log/slog"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/storetest"
)

// answer is what a pull without messages says.
type answer struct {
	status getmessage.Status
	next   int64
	hint   getmessage.Hint
}

// The answers to pulls beside the messages of a queue, on a master and on a slave. A slave
// corrects nobody: it may be behind, or begin later, or not know the queue yet.
func TestCase17OffsetsBesideTheQueue(t *testing.T) {
	const min64 = math.MinInt64
	offsets := []int64{min64, -2, -1, 0, 49, 50, 51, 99, 100, 101, 1e6, math.MaxInt32, math.MaxInt32 + 1, math.MaxInt64 - 1, math.MaxInt64}
	stores := map[string]struct {
		make     func(t *testing.T) *built
		topic    string
		low, end int64
		never    bool // a queue that has never had a message
	}{
		"messages 0 to 99": {hundred, "orders", 0, 100, false},
		"a slave that holds 0 to 49": {func(t *testing.T) *built {
			s := build(t, storetest.Options{})
			for range 50 {
				s.add("orders", 0, 100)
			}
			s.Close()
			return s
		}, "orders", 0, 50, false},
		"min 50 in the first file": {func(t *testing.T) *built { return beheaded(t, 20*400) }, "orders", 50, 100, false},
		"min 50 between two files": {func(t *testing.T) *built { return beheaded(t, 20*50) }, "orders", 50, 100, false},
		"min 50 in a later file":   {func(t *testing.T) *built { return beheaded(t, 20*7) }, "orders", 50, 100, false},
		"numbering begins at 50": {func(t *testing.T) *built {
			s := build(t, storetest.Options{Begin: 64 << 10})
			s.StartQueue("orders", 0, 50)
			for range 50 {
				s.add("orders", 0, 100)
			}
			s.Close()
			return s
		}, "orders", 50, 100, false},
		"all of its messages are gone": {func(t *testing.T) *built {
			s := build(t, storetest.Options{SegmentSize: 1 << 14})
			for range 100 {
				s.add("orders", 0, 100)
			}
			s.Blank()
			end := s.Pos()
			s.fill("other", 1, s.Pos()+2<<14)
			s.Close()
			dropHead(t, s, end)
			return s
		}, "orders", 100, 100, false},
		"an unknown queue":         {hundred, "unknown", 0, 0, true},
		"an unknown id of a topic": {func(t *testing.T) *built { return hundred(t) }, "orders/7", 0, 0, true},
		"a directory without files": {func(t *testing.T) *built {
			s := hundred(t)
			must(t, os.MkdirAll(s.Dir()+"/consumequeue/empty/0", 0o755))
			return s
		}, "empty", 0, 0, true},
		"a file that was never written": {func(t *testing.T) *built {
			s := hundred(t)
			must(t, os.MkdirAll(s.Dir()+"/consumequeue/empty/0", 0o755))
			must(t, os.WriteFile(s.Dir()+"/consumequeue/empty/0/00000000000000000000", make([]byte, 6000000), 0o644))
			return s
		}, "empty", 0, 0, true},
		"an empty store": {func(t *testing.T) *built { s := build(t, storetest.Options{}); s.Close(); return s }, "orders", 0, 0, true},
	}
	for name, row := range stores {
		t.Run(name, func(t *testing.T) {
			s := row.make(t)
			var lines strings.Builder
			topic, id := row.topic, int32(0)
			if strings.HasSuffix(topic, "/7") {
				topic, id = "orders", 7
			}
			for _, role := range []getmessage.Role{getmessage.Master, getmessage.Slave} {
				store := open(t, s.Dir(), warmlog.Options{Role: role, Logger: slog.New(slog.NewTextHandler(&lines, nil))})
				lines.Reset()
				var b getmessage.Batch
				for _, off := range append(offsets, row.low-1, row.low, row.end-1, row.end, row.end+1) {
					for range 3 { // and it stays so
						must(t, store.Get(context.Background(), &getmessage.Request{Topic: topic, QueueID: id, Offset: off}, &b))
						if off >= row.low && off < row.end {
							if b.Status != getmessage.Found || len(b.Records()) == 0 {
								t.Fatalf("%v at %d: %v", role, off, b.Status)
							}
							if err := storetest.Check(&b.Records()[0], topic, id, off); err != nil {
								t.Fatalf("%v at %d: %v", role, off, err)
							}
							if b.NextOffset != off+int64(len(b.Records())) {
								t.Errorf("%v at %d: next %d behind %d", role, off, b.NextOffset, len(b.Records()))
							}
							b.Release()
							continue
						}
						want := expected(role, off, row.low, row.end, row.never)
						if got := (answer{b.Status, b.NextOffset, b.Hint}); got != want || b.MinOffset != row.low || b.MaxOffset != row.end || b.Decision.SuggestSlave || len(b.Records()) > 0 {
							t.Errorf("role %v at %d: %v, next %d, hint %q, min %d, max %d, suggests the slave %v; want %v, %d, %q, %d, %d, false", role, off,
								got.status, got.next, got.hint, b.MinOffset, b.MaxOffset, b.Decision.SuggestSlave, want.status, want.next, want.hint, row.low, row.end)
						}
					}
				}
				if lines.Len() > 0 {
					t.Errorf("illegal pulls fill the log: %s", lines.String())
				}
			}
		})
	}
}

// expected is the state table, written down once more.
func expected(role getmessage.Role, off, low, end int64, never bool) answer {
	slave := role == getmessage.Slave
	pick := func(master answer, hint getmessage.Hint) answer {
		if slave {
			master.next, master.hint = off, hint
		}
		return master
	}
	switch {
	case never:
		return pick(answer{getmessage.NoMessageInQueue, 0, 0}, getmessage.AskMaster)
	case off < low:
		return pick(answer{getmessage.OffsetTooSmall, low, 0}, getmessage.AskMaster)
	case off == end:
		return pick(answer{getmessage.OffsetOverflowOne, off, 0}, getmessage.NotYet)
	default:
		return pick(answer{getmessage.OffsetOverflowBadly, end, 0}, getmessage.NotYet)
	}
}

// hundred is a store with messages 0 to 99 in one queue.
func hundred(t *testing.T) *built {
	s := build(t, storetest.Options{})
	for range 100 {
		s.add("orders", 0, 100)
	}
	s.Close()
	return s
}

// beheaded is a store of which messages 0 to 49 of one queue are gone with their segment.
func beheaded(t *testing.T, queueFile int64) *built {
	s := build(t, storetest.Options{SegmentSize: 1 << 14, QueueFileSize: queueFile})
	for range 50 {
		s.add("orders", 0, 100)
	}
	s.Blank()
	for range 50 {
		s.add("orders", 0, 100)
	}
	s.Close()
	dropHead(t, s, 1<<14)
	return s
}

// dropHead deletes the segments that end at or below a physical offset.
func dropHead(t testing.TB, s *built, below int64) {
	t.Helper()
	first := s.all[0].Offset
	for off := first; ; {
		path, at := s.Segment(off)
		st, err := os.Stat(path)
		must(t, err)
		if off-at+st.Size() > below {
			return
		}
		must(t, os.Remove(path))
		off += st.Size() - at
	}
}

// A pull that cannot be meant never panics, is never corrected to 0, and gives no message.
func TestCase17NamesOfNoQueue(t *testing.T) {
	store := open(t, hundred(t).Dir(), warmlog.Options{})
	for _, req := range []getmessage.Request{
		{Topic: "", Offset: 5}, {Topic: "orders", QueueID: -1, Offset: 5}, {Topic: "orders", QueueID: math.MinInt32, Offset: 5},
		{Topic: strings.Repeat("x", 1<<16), Offset: 5}, {Topic: "../orders", Offset: 5}, {Topic: "orders\x00", Offset: 5},
		{Topic: "ORDERS", Offset: 5}, {Topic: "orders", QueueID: math.MaxInt32, Offset: 5},
	} {
		var b getmessage.Batch
		if err := store.Get(context.Background(), &req, &b); err != nil || len(b.Records()) > 0 {
			t.Errorf("%q/%d: %v, %v", req.Topic, req.QueueID, b.Status, err)
		}
		if impossible := req.Topic == "" || req.QueueID < 0; impossible != (b.Status == getmessage.NoMatchedLogicQueue) {
			t.Errorf("%q/%d: %v", req.Topic, req.QueueID, b.Status)
		}
	}
}

// Counts and sizes at their edges give a message at the least and never the wrong ones.
func TestCase17CountsAndSizes(t *testing.T) {
	store := open(t, hundred(t).Dir(), warmlog.Options{})
	for _, count := range []int{math.MinInt, -1, 0, 1, 2, 32, 33, 1000, math.MaxInt32, math.MaxInt} {
		for _, bytes := range []int64{math.MinInt64, -1, 0, 1, 99, 100, 1000, 1 << 20, math.MaxInt64} {
			for _, off := range []int64{0, 42, 98, 99} {
				var b getmessage.Batch
				must(t, store.Get(context.Background(), &getmessage.Request{Topic: "orders", Offset: off, MaxMessages: count, MaxBytes: bytes}, &b))
				if b.Status != getmessage.Found || len(b.Records()) == 0 || len(b.Records()) > 32 || b.NextOffset != off+int64(len(b.Records())) {
					t.Fatalf("%d messages of %d bytes at %d: %v, %d, next %d", count, bytes, off, b.Status, len(b.Records()), b.NextOffset)
				}
				for i := range b.Records() {
					if err := storetest.Check(&b.Records()[i], "orders", 0, off+int64(i)); err != nil {
						t.Fatal(err)
					}
				}
				if want := max(count, 1); count != 0 && len(b.Records()) > want {
					t.Errorf("%d messages wanted, %d given", count, len(b.Records()))
				}
				b.Release()
			}
		}
	}
}
