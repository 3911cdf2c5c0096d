package warmlog_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
	"pgregory.net/rapid"
)

// modelMessage is a message as the model remembers it.
type modelMessage struct {
	pos   int64
	off   int64
	n     int // bytes of the body
	key   string
	store int64
}

// storeModel is a store and a plain model of it: what is done to one is done to the other.
type storeModel struct {
	dir    string
	o      warmlog.Options
	store  *warmlog.Store
	time   int64
	queues map[queueID][]modelMessage
	next   map[queueID]int64
}

var modelTopics = []string{"orders", "payments", "a b", "Größe"}

func (m *storeModel) open(t *rapid.T) {
	var err error
	if m.store, err = warmlog.Open(m.dir, m.o); err != nil {
		t.Fatal(err)
	}
}

func (m *storeModel) queue(t *rapid.T) queueID {
	return queueID{rapid.SampledFrom(modelTopics).Draw(t, "topic"), rapid.Int32Range(0, 2).Draw(t, "queue")}
}

func (m *storeModel) message(t *rapid.T, q queueID, ahead int64) (*message.Message, modelMessage) {
	off := m.next[q] + ahead
	mm := modelMessage{off: off, n: rapid.IntRange(0, 1200).Draw(t, "body"), key: fmt.Sprint("k", rapid.IntRange(0, 9).Draw(t, "key"))}
	msg := storetest.Message(q.topic, q.id, off, mm.n)
	msg.Keys = mm.key
	return msg, mm
}

// took notes what the store answered.
func (m *storeModel) took(t *rapid.T, q queueID, mm modelMessage, r warmlog.Appended, err error) {
	if err != nil || r.QueueOffset != mm.off {
		t.Fatalf("append to %v: %+v, %v; want offset %d", q, r, err, mm.off)
	}
	mm.pos, mm.store = r.PhysicalOffset, r.StoreTimestamp
	m.queues[q] = append(m.queues[q], mm)
	m.next[q] = mm.off + 1
}

// expire forgets what the store's log no longer has.
func (m *storeModel) expire() {
	low, _ := m.store.Bounds()
	for q, all := range m.queues {
		i := sort.Search(len(all), func(i int) bool { return all[i].pos >= low })
		m.queues[q] = all[i:]
	}
}

// min returns the offset of the first message that is left, the next one's where none is.
func (m *storeModel) min(q queueID) int64 {
	if all := m.queues[q]; len(all) > 0 {
		return all[0].off
	}
	return m.next[q]
}

// The store and a plain model of it are driven through the same life, and must agree all
// the time.
func TestModel(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		must(t, f.Value.Set("30")) // each syncs a lot; -rapid.checks=400 for a long run
	}
	ctx := context.Background()
	base := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		m := &storeModel{dir: filepath.Join(base, fmt.Sprint(runs)), time: 1700000000000, queues: map[queueID][]modelMessage{}, next: map[queueID]int64{}}
		m.o = warmlog.Options{SegmentSize: 1 << 13, QueueFileSize: 20 * 16, MaxBody: 4000, Index: keyindex.Layout{Slots: 7, Entries: 30},
			Durability: rapid.SampledFrom([]warmlog.Durability{warmlog.Written, warmlog.Flushed}).Draw(t, "durability"),
			RecordCRC:  rapid.Bool().Draw(t, "crc")}
		m.o.Clock = func() time.Time { return time.UnixMilli(m.time) }
		m.o.Retention = warmlog.Retention{MaxBytes: 5 << 13, Interval: 1 << 40}
		m.open(t)
		defer func() { m.store.Close(); os.RemoveAll(m.dir) }()
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				q := m.queue(t)
				msg, mm := m.message(t, q, 0)
				r, err := m.store.Append(ctx, msg)
				m.took(t, q, mm, r, err)
			},
			"append many": func(t *rapid.T) {
				q := m.queue(t)
				var msgs []*message.Message
				var mms []modelMessage
				for i := range rapid.Int64Range(1, 6).Draw(t, "n") {
					msg, mm := m.message(t, q, i)
					if mm.n > 900 {
						continue // a batch fits into a segment
					}
					mm.off = m.next[q] + int64(len(mms))
					msg.Body = storetest.Body(q.topic, q.id, mm.off, mm.n)
					msg.Properties[0].Value = fmt.Sprintf("%d/%d-end", q.id, mm.off)
					msgs, mms = append(msgs, msg), append(mms, mm)
				}
				rs, err := m.store.AppendAll(ctx, msgs, warmlog.StoreDefault)
				if err != nil || len(rs) != len(msgs) {
					t.Fatal(rs, err)
				}
				for i := range mms {
					m.took(t, q, mms[i], rs[i], nil)
				}
			},
			"refused": func(t *rapid.T) {
				msg, _ := m.message(t, m.queue(t), 0)
				msg.Body = make([]byte, 4001)
				if _, err := m.store.Append(ctx, msg); err == nil {
					t.Fatal("a body over the limit was taken")
				}
			},
			"time": func(t *rapid.T) { m.time += rapid.Int64Range(-500, 5000).Draw(t, "ms") },
			"get":  func(t *rapid.T) { m.get(t, m.queue(t)) },
			"find": func(t *rapid.T) { m.find(t) },
			"search by time": func(t *rapid.T) {
				q := m.queue(t)
				if m.next[q] == 0 {
					return
				}
				must(t, m.store.Dispatched(ctx))
				at := m.time - rapid.Int64Range(0, 10000).Draw(t, "ago")
				want := m.next[q]
				for _, mm := range slices.Backward(m.queues[q]) {
					if mm.store >= at {
						want = mm.off
					}
				}
				if got, err := m.store.OffsetByTime(ctx, q.topic, q.id, at, consumequeue.Lower); err != nil || got != want {
					t.Fatalf("%v at %d: %d, %v, want %d", q, at, got, err, want)
				}
			},
			"retain": func(t *rapid.T) {
				must(t, m.store.Checkpoint(ctx))
				_, err := m.store.Retain(ctx)
				must(t, err)
				m.expire()
			},
			"delete topic": func(t *rapid.T) {
				topic := m.queue(t).topic
				known := slices.ContainsFunc(m.store.Queues(), func(n consumequeue.Named) bool { return n.Topic == topic })
				if err := m.store.DeleteTopic(ctx, topic); known != (err == nil) {
					t.Fatal(topic, known, err)
				}
				for id := range int32(3) {
					delete(m.queues, queueID{topic, id})
					delete(m.next, queueID{topic, id})
				}
			},
			"truncate": func(t *rapid.T) { m.truncate(t) },
			"reopen": func(t *rapid.T) {
				must(t, m.store.Close())
				switch rapid.SampledFrom([]string{"", "", "consumequeue", "index", "checkpoint", "warmlog/state", "abort"}).Draw(t, "lost") {
				case "consumequeue":
					m.renumber()
					must(t, os.RemoveAll(filepath.Join(m.dir, "consumequeue")))
				case "index":
					must(t, os.RemoveAll(filepath.Join(m.dir, "index")))
				case "checkpoint":
					must(t, os.RemoveAll(filepath.Join(m.dir, "checkpoint")))
				case "warmlog/state":
					must(t, os.RemoveAll(filepath.Join(m.dir, "warmlog/state")))
				case "abort":
					must(t, os.WriteFile(filepath.Join(m.dir, "abort"), nil, 0o644))
				}
				m.open(t)
			},
			"": func(t *rapid.T) {},
		})
		for q := range m.next {
			m.get(t, q)
		}
		must(t, m.store.Close())
		reader, err := warmlog.Open(m.dir, warmlog.Options{ReadOnly: true})
		must(t, err)
		v, err := reader.Verify(ctx, func(d *message.DamageError) { t.Errorf("verify: %v", d) })
		must(t, errors.Join(err, reader.Close()))
		if v.Damage > 0 {
			t.Fatal(v)
		}
		m.open(t)
	})
}

// truncate ends the log where some message begins, as a slave does.
func (m *storeModel) truncate(t *rapid.T) {
	ctx := context.Background()
	var begins []int64
	for _, all := range m.queues {
		for _, mm := range all {
			begins = append(begins, mm.pos)
		}
	}
	if len(begins) == 0 {
		return
	}
	slices.Sort(begins)
	// Near the end more often than not: a log that loses all of it again and again is short.
	at := begins[len(begins)-1-min(len(begins)-1, rapid.IntRange(0, 1<<rapid.IntRange(0, 7).Draw(t, "far")).Draw(t, "back"))]
	must(t, m.store.SetRole(ctx, getmessage.Slave))
	must(t, m.store.Truncate(ctx, at))
	must(t, m.store.SetRole(ctx, getmessage.Master))
	for q, all := range m.queues {
		i := sort.Search(len(all), func(i int) bool { return all[i].pos >= at })
		if i < len(all) {
			m.next[q] = all[i].off
		}
		m.queues[q] = all[:i]
	}
}

// renumber forgets the numbering of queues that only their files know: those of which the
// log has no message.
func (m *storeModel) renumber() {
	for q := range m.next {
		if len(m.queues[q]) == 0 {
			delete(m.next, q)
		}
	}
}

// get compares a queue from some offset on.
func (m *storeModel) get(t *rapid.T, q queueID) {
	ctx := context.Background()
	must(t, m.store.Dispatched(ctx))
	low, next := m.min(q), m.next[q]
	from := rapid.Int64Range(-1, next+1).Draw(t, "offset")
	var b getmessage.Batch
	defer b.Release()
	must(t, m.store.Get(ctx, &getmessage.Request{Topic: q.topic, QueueID: q.id, Offset: from}, &b))
	var want getmessage.Status
	switch {
	case next == 0:
		want = getmessage.NoMessageInQueue
	case from < low:
		want = getmessage.OffsetTooSmall
	case from == next:
		want = getmessage.OffsetOverflowOne
	case from > next:
		want = getmessage.OffsetOverflowBadly
	}
	if b.Status != want || next > 0 && (b.MinOffset != low || b.MaxOffset != next) {
		t.Fatalf("%v at %d: %v in [%d, %d), want %v in [%d, %d)", q, from, b.Status, b.MinOffset, b.MaxOffset, want, low, next)
	}
	all := m.queues[q]
	for i := range b.Records() {
		v, mm := &b.Records()[i], all[from-low+int64(i)]
		if err := storetest.Check(v, q.topic, q.id, from+int64(i)); err != nil || v.PhysicalOffset() != mm.pos || len(v.Body()) != mm.n || v.StoreTimestamp() != mm.store {
			t.Fatalf("%v at %d: %v; at %d, want %+v", q, from+int64(i), err, v.PhysicalOffset(), mm)
		}
	}
	if want == getmessage.Found && len(b.Records()) == 0 {
		t.Fatalf("%v at %d: nothing found", q, from)
	}
}

// find compares a search by key.
func (m *storeModel) find(t *rapid.T) {
	ctx := context.Background()
	must(t, m.store.Dispatched(ctx))
	topic, key := m.queue(t).topic, fmt.Sprint("k", rapid.IntRange(0, 9).Draw(t, "key"))
	var want []int64
	for q, all := range m.queues {
		for _, mm := range all {
			if q.topic == topic && mm.key == key {
				want = append(want, mm.pos)
			}
		}
	}
	slices.Sort(want)
	got, err := m.store.FindByKey(ctx, warmlog.KeyQuery{Topic: topic, Key: key, Max: 1000})
	if err != nil || !slices.Equal(got.Offsets, want) {
		t.Fatalf("%s in %s: %v, %v; want %v", key, topic, got, err, want)
	}
}
