package warmlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/message"
)

// tailing is a consumer at the end of a queue.
type tailing struct {
	store *warmlog.Store
	topic string
	id    int32
	next  int64
	batch getmessage.Batch
}

// poll takes what is new: all of it must be sound, and in order.
func (c *tailing) poll() error {
	err := c.store.Get(context.Background(), &getmessage.Request{Topic: c.topic, QueueID: c.id, Offset: c.next}, &c.batch)
	if err != nil {
		return err
	}
	for i := range c.batch.Records() {
		v := &c.batch.Records()[i]
		if err := storetest.Check(v, c.topic, c.id, c.next); err != nil {
			return err
		}
		if err := v.Check(); err != nil {
			return fmt.Errorf("%s/%d at %d: %w", c.topic, c.id, c.next, err)
		}
		c.next++
	}
	switch {
	case len(c.batch.Damaged) > 0:
		return fmt.Errorf("%s/%d at %d: damaged %v", c.topic, c.id, c.next, c.batch.Damaged)
	case c.batch.NextOffset != c.next && c.batch.Status != getmessage.NoMessageInQueue:
		return fmt.Errorf("%s/%d at %d: %v, next %d", c.topic, c.id, c.next, c.batch.Status, c.batch.NextOffset)
	}
	return nil
}

// A writer appends, record by record in small pieces, blanks and new segments and new queue
// files included; consumers of stores that were opened before, meanwhile and late get every
// message, in order, whole.
func TestFollowAWriter(t *testing.T) {
	for _, o := range []storetest.Options{{}, {Premake: true}, {WithCRC: true}} {
		t.Run(fmt.Sprintf("premade %v with crc %v", o.Premake, o.WithCRC), func(t *testing.T) {
			o.SegmentSize, o.QueueFileSize, o.Pieces = 1<<14, 20*50, 61
			const messages, queues = 2000, 3
			s := build(t, o)
			s.add("orders", 0, 50)
			s.Flush()
			must(t, os.WriteFile(s.Paths.Abort(), nil, 0o644)) // as long as it is written
			var group sync.WaitGroup
			var put [queues]atomic.Int64
			var finished atomic.Bool
			put[0].Store(1)
			group.Go(func() {
				defer finished.Store(true)
				rng := rand.New(rand.NewPCG(1, 1))
				for n := range messages {
					id := rng.Int32N(queues)
					s.Add("orders", id, rng.IntN(400))
					if n%7 != 0 { // now and then several at once
						s.Flush()
						for id := range put {
							put[id].Store(s.Next("orders", int32(id)))
						}
					}
				}
				s.Flush()
				for id := range put {
					put[id].Store(s.Next("orders", int32(id)))
				}
			})
			for late := range 3 {
				store := open(t, s.Dir(), warmlog.Options{})
				for id := range int32(queues) {
					group.Go(func() {
						c := tailing{store: store, topic: "orders", id: id}
						defer c.batch.Release()
						for end := (time.Time{}); end.IsZero() || time.Now().Before(end); {
							if err := c.poll(); err != nil {
								t.Errorf("store %d: %v", late, err)
								return
							}
							if finished.Load() && c.next == put[id].Load() {
								return
							}
							if finished.Load() && end.IsZero() {
								end = time.Now().Add(10 * time.Second)
							}
						}
						t.Errorf("store %d: orders/%d: %d messages, %d were put", late, id, c.next, put[id].Load())
					})
				}
				time.Sleep(20 * time.Millisecond) // the next one opens meanwhile
			}
			group.Wait()
			s.Close()
			holdsQueues(t, s, queues)
		})
	}
}

func holdsQueues(t *testing.T, s *built, queues int32) {
	t.Helper()
	store := open(t, s.Dir(), warmlog.Options{})
	for id := range queues {
		if got := drain(t, store, "orders", id, 0); int64(len(got.offsets)) != s.Next("orders", id) {
			t.Errorf("opened again: orders/%d has %d messages, want %d", id, len(got.offsets), s.Next("orders", id))
		}
	}
}

// A record at the tail is not there before its last byte is, wherever its writer stands.
func TestFollowAHalfWrittenRecord(t *testing.T) {
	// How the bytes of a record come in: up to byte k.
	orders := map[string]func(rec []byte, k int) []byte{
		"from its beginning": func(rec []byte, k int) []byte { return append(slices.Clone(rec[:k]), make([]byte, len(rec)-k)...) },
		"its body's middle last": func(rec []byte, k int) []byte { // all but eight bytes of its body
			if k < 88 || k+8 > 88+20 {
				return nil
			}
			half := slices.Clone(rec)
			clear(half[k : k+8])
			return half
		},
		"its last bytes first": func(rec []byte, k int) []byte {
			half := append(slices.Clone(rec[:k]), make([]byte, len(rec)-k)...)
			last := min(16, len(rec)-k-1)
			copy(half[len(half)-last:], rec[len(rec)-last:])
			return half
		},
	}
	for name, arrive := range orders {
		for _, crc := range []bool{false, true} {
			for _, opened := range []bool{false, true} { // by a store that follows, or one that opens now
				t.Run(fmt.Sprintf("%s with crc %v opened now %v", name, crc, opened), func(t *testing.T) {
					s := build(t, storetest.Options{SegmentSize: 1 << 20, WithCRC: crc})
					s.add("orders", 0, 10)
					s.Flush()
					must(t, os.WriteFile(s.Paths.Abort(), nil, 0o644))
					lockedByAnother(t, s.Paths.Lock()) // a broker runs
					store := open(t, s.Dir(), warmlog.Options{})
					c := tailing{store: store, topic: "orders", next: 1}
					defer func() { c.batch.Release() }()
					size := len(s.Encode(s.Message("orders", 0, 20), 0, 0, 0))
					for k := 1; k < size; k++ {
						at, off := s.Pos(), s.Next("orders", 0)
						rec := s.Encode(s.Message("orders", 0, 20), off, at, s.Time)
						if k >= len(rec) {
							break
						}
						half := arrive(rec, k)
						if half == nil {
							continue
						}
						path, in := s.Segment(at)
						put(t, path, in, half)
						if opened {
							store = open(t, s.Dir(), warmlog.Options{})
							c.store = store
						}
						seen := c.next
						if err := c.poll(); err != nil || c.next != seen {
							t.Errorf("%d of %d bytes are there, and %d messages more: %v", k, len(rec), c.next-seen, err)
							if c.next == seen {
								return
							}
						}
						s.add("orders", 0, 20)
						s.Flush()
						c.next = off
						if err := c.poll(); err != nil || c.next != off+1 {
							t.Fatalf("all bytes are there, and %d messages more: %v", c.next-off, err)
						}
						if opened {
							store.Close()
						}
						if t.Failed() {
							return
						}
					}
				})
			}
		}
	}
}

// A record that is never finished, because its writer died, is written over by its
// successor's: followers see that one and nothing else.
func TestFollowARecordThatIsWrittenOver(t *testing.T) {
	s := build(t, storetest.Options{SegmentSize: 1 << 16})
	s.add("orders", 0, 10)
	s.Flush()
	store := open(t, s.Dir(), warmlog.Options{})
	c := tailing{store: store, topic: "orders", next: 1}
	defer c.batch.Release()
	for n := range 50 {
		path, at := s.Segment(s.Pos())
		lost := s.Encode(storetest.Message("lost", 7, 99, 200+n), 99, s.Pos(), s.Time)
		put(t, path, at, lost[:len(lost)/2+n])
		must(t, c.poll())
		s.add("orders", 0, 100) // shorter: the rest of the other lies behind it
		s.Flush()
		must(t, c.poll())
		if c.next != int64(n)+2 {
			t.Fatalf("%d messages, %d were put", c.next, n+2)
		}
	}
	if got := store.Queues(); len(got) != 1 {
		t.Errorf("queues: %v", got)
	}
}

// The end of a segment and the beginning of the next come in pieces too: half a blank, a
// blank without a next segment, a segment without its length, without a record.
func TestFollowARoll(t *testing.T) {
	for _, left := range []int64{8, 9, 100} {
		t.Run(fmt.Sprint(left), func(t *testing.T) {
			t.Parallel()
			s := build(t, storetest.Options{SegmentSize: 1 << 14})
			s.add("orders", 0, 10)
			s.Flush()
			store := open(t, s.Dir(), warmlog.Options{})
			c := tailing{store: store, topic: "orders"}
			poll := func(when string, want int64) {
				t.Helper()
				// The store may know a segment as shorter than it is now: it lists them once a second.
				for deadline := time.Now().Add(3 * time.Second); c.next < want && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
					must(t, c.poll())
				}
				for range 3 {
					must(t, c.poll())
				}
				if c.next != want {
					t.Fatalf("%d left, %s: %d messages, want %d", left, when, c.next, want)
				}
			}
			for range 3 {
				s.Leave("orders", 0, left)
				s.Flush()
				poll("full", s.Next("orders", 0))
				path, at := s.Segment(s.Pos())
				blank := make([]byte, message.BlankSize)
				message.PutBlank(blank, int32(left))
				for k := range blank {
					put(t, path, at, blank[:k])
					poll("half a blank", s.Next("orders", 0))
				}
				s.Blank()
				s.FlushLog()
				poll("a blank", s.Next("orders", 0))
				next, _ := s.Segment(s.Pos())
				must(t, os.WriteFile(next, nil, 0o644))
				poll("a segment of no byte", s.Next("orders", 0))
				must(t, os.Truncate(next, 4096))
				poll("a short segment", s.Next("orders", 0))
				must(t, os.Truncate(next, 1<<14))
				poll("an empty segment", s.Next("orders", 0))
				s.add("orders", 0, 30)
				s.Flush()
				poll("a record", s.Next("orders", 0))
			}
			c.batch.Release()
		})
	}
}

// Dispatch of the writer is behind, or stops: what the log has is there nevertheless, and
// stays the same when the entries come.
func TestFollowAWriterWhoseQueuesAreBehind(t *testing.T) {
	s := build(t, storetest.Options{SegmentSize: 1 << 14, QueueFileSize: 20 * 30})
	s.add("orders", 0, 10)
	s.Flush()
	store := open(t, s.Dir(), warmlog.Options{})
	c := tailing{store: store, topic: "orders"}
	defer c.batch.Release()
	for n := range 200 {
		s.add("orders", 0, 100)
		if n%2 == 0 {
			s.add("new topic", int32(n), 10)
		}
		s.FlushLog()
		for polls := 0; c.next < s.Next("orders", 0); polls++ {
			if must(t, c.poll()); polls > 3 { // the end of a segment takes one more
				t.Fatalf("message %d is in the log and not seen", c.next)
			}
		}
		if n%20 == 19 {
			s.Flush()
		}
	}
	s.Flush()
	holds(t, store, s.all)
}

// Segments go while the store follows, also those that it has not read yet: it goes on with
// what is left, one message after the other.
func TestFollowBehindRetention(t *testing.T) {
	for _, burst := range []int{1, 10, 3000} { // how many messages come between two polls
		t.Run(fmt.Sprint(burst), func(t *testing.T) {
			t.Parallel()
			s := build(t, storetest.Options{SegmentSize: 1 << 14, QueueFileSize: 20 * 100})
			s.add("orders", 0, 10)
			s.Flush()
			store := open(t, s.Dir(), warmlog.Options{})
			c := tailing{store: store, topic: "orders"}
			defer c.batch.Release()
			must(t, c.poll())
			// All that was there goes, unread.
			for range burst {
				s.add("orders", 0, 100)
			}
			for n := s.Pos() / (1 << 14); s.Pos()/(1<<14) == n; {
				s.add("orders", 0, 100)
			}
			s.Flush()
			begin := s.Pos() - s.Pos()%(1<<14)
			dropHead(t, s, begin)
			time.Sleep(1100 * time.Millisecond) // the directory is listed once a second
			low := s.Next("orders", 0) - 1      // its record is the first of the last segment
			for n := range int64(20) {
				want := s.Next("orders", 0)
				var b getmessage.Batch
				for at, pulls := c.next, 0; ; pulls++ {
					must(t, store.Get(context.Background(), &getmessage.Request{Topic: "orders", Offset: at}, &b))
					if len(b.Records()) > 0 {
						for i := range b.Records() {
							must(t, storetest.Check(&b.Records()[i], "orders", 0, b.Records()[0].QueueOffset()+int64(i)))
						}
						if first := b.Records()[0].QueueOffset(); first != at || first < low {
							t.Fatalf("asked for %d, got %d; the first that is left is %d", at, first, low)
						}
					}
					if b.NextOffset == want {
						c.next = want
						break
					}
					if b.NextOffset == at || pulls > 10 {
						t.Fatalf("message %d behind the hole is not seen: %v, next %d, queue [%d, %d)", n, b.Status, b.NextOffset, b.MinOffset, b.MaxOffset)
					}
					at = b.NextOffset
				}
				b.Release()
				s.add("orders", 0, 100)
				s.FlushLog() // its queue entry comes later, as a broker's does
			}
		})
	}
}

const writerVariable = "WARMLOG_TEST_WRITER"

// TestFollowChild is no test: it is the process that writes a store, as a broker does, until
// it is killed.
func TestFollowChild(t *testing.T) {
	dir := os.Getenv(writerVariable)
	if dir == "" {
		t.Skip("for TestFollowAnotherProcess")
	}
	s := storetest.New(t, dir, storetest.Options{SegmentSize: 1 << 16, QueueFileSize: 20 * 200, Premake: true, Pieces: 97})
	must(t, os.WriteFile(s.Paths.Abort(), []byte(fmt.Sprint(os.Getpid())), 0o644))
	takeLock(t, s.Paths.Lock())
	for n := 0; ; n++ {
		s.Add("orders", int32(n%4), n*37%500)
		s.Flush()
	}
}

// Another process writes, and is killed at a moment of nobody's choice: what followers had
// seen is what who opens the store then finds.
func TestFollowAnotherProcess(t *testing.T) {
	for round := range 3 {
		dir := t.TempDir()
		child := exec.Command(os.Args[0], "-test.run", "^TestFollowChild$")
		child.Env = append(os.Environ(), writerVariable+"="+dir)
		must(t, child.Start())
		var store *warmlog.Store
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			if files, _ := os.ReadDir(dir + "/commitlog"); len(files) > 0 {
				store = open(t, dir, warmlog.Options{})
				break
			}
			if time.Now().After(deadline) {
				_ = child.Process.Kill()
				t.Fatal("the writer does not write")
			}
		}
		consumers := make([]tailing, 4)
		kill := time.Now().Add(time.Duration(200+100*round) * time.Millisecond)
		for killed := false; ; {
			moved := false
			for id := range consumers {
				c := &consumers[id]
				c.store, c.topic, c.id = store, "orders", int32(id)
				before := c.next
				if err := c.poll(); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
				moved = moved || c.next > before
			}
			if !killed && (time.Now().After(kill) || t.Failed()) {
				must(t, child.Process.Signal(syscall.SIGKILL))
				_ = child.Wait()
				killed = true
			} else if killed && !moved || t.Failed() && killed {
				break
			}
		}
		after := open(t, dir, warmlog.Options{})
		for id := range consumers {
			c := &consumers[id]
			c.batch.Release()
			got := drain(t, after, "orders", int32(id), 0)
			if int64(len(got.offsets)) != c.next || len(got.damaged) > 0 {
				t.Errorf("round %d: orders/%d: the follower saw %d messages, the store opened now has %d; damaged %v", round, id, c.next, len(got.offsets), got.damaged)
			}
			if c.next < 10 {
				t.Errorf("round %d: orders/%d: only %d messages", round, id, c.next)
			}
		}
		_, damage := verify(t, dir)
		for _, d := range damage {
			t.Errorf("round %d: verify: %v", round, d)
		}
	}
}

// Bodies that were compressed are decoded, through a store that follows too.
func TestFollowAndDecode(t *testing.T) {
	s := build(t, storetest.Options{})
	s.add("orders", 0, 10)
	s.Flush()
	store := open(t, s.Dir(), warmlog.Options{})
	text := []byte("the quick brown fox jumps over the lazy dog, and does it again and again and again")
	bodies := compressed(t, text)
	for _, c := range bodies {
		s.Put(&message.Message{Topic: "packed", SysFlag: c.flag, Body: c.body})
	}
	s.Flush()
	var b getmessage.Batch
	must(t, store.Get(context.Background(), &getmessage.Request{Topic: "packed"}, &b))
	if len(b.Records()) != len(bodies) {
		t.Fatalf("%d messages, want %d", len(b.Records()), len(bodies))
	}
	for i := range b.Records() {
		got, err := b.Records()[i].DecodedBody(nil, 1<<20)
		if err != nil || string(got) != string(text) {
			t.Errorf("%s: %q: %v", bodies[i].name, got, err)
		}
	}
	b.Release()
}
