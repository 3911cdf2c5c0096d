package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

// outcome is what became of a pull for one message whose record was then read whole, inside
// Guard.
type outcome struct {
	err     error // of Get or Guard
	torn    error // the record given is not the message
	none    bool  // no message, no error
	damaged []*message.DamageError
}

// pullOne asks for one message and touches every byte of it.
func pullOne(store *warmlog.Store, r storetest.Record, b *getmessage.Batch) (o outcome) {
	o.err = store.Get(context.Background(), &getmessage.Request{Topic: r.Topic, QueueID: r.QueueID, Offset: r.QueueOffset, MaxMessages: 1}, b)
	if o.err != nil {
		return o
	}
	o.damaged = b.Damaged
	if len(b.Records()) == 0 {
		o.none = true
		return o
	}
	o.err = getmessage.Guard(func() {
		v := &b.Records()[0]
		off := r.QueueOffset + int64(len(b.Damaged)) // what was passed over
		if o.torn = storetest.Check(v, r.Topic, r.QueueID, off); o.torn == nil {
			o.torn = v.Check()
		}
	})
	return o
}

const pages = 4 << 10

// shortened builds eight segments of four pages.
func shortened(t *testing.T) *built {
	s := build(t, storetest.Options{SegmentSize: 4 * pages, QueueFileSize: 2 * pages / 20 * 20, Index: keyindex.Layout{Slots: 100, Entries: 2000}})
	for n := 0; s.Pos() < 8*4*pages-1000; n++ {
		m := s.Message("orders", int32(n)%3, 150+n*37%300)
		m.Keys = fmt.Sprintf("k%d", n%10)
		s.all = append(s.all, s.Put(m))
	}
	s.Close()
	return s
}

// within returns a record of a segment that lies in the middle of a page or across pages.
func within(t *testing.T, s *built, segment int64) storetest.Record {
	for _, r := range s.all {
		if r.Offset/(4*pages) == segment && r.Offset%(4*pages) > pages && r.Offset%pages < pages-600 && r.Offset%pages > 100 {
			return r
		}
	}
	t.Fatal("no such record")
	return storetest.Record{}
}

// lengths are those to which the segment of a record is shortened.
func lengths(r storetest.Record) map[string]int64 {
	at := r.Offset % (4 * pages)
	return map[string]int64{
		"nothing": 0, "one page": pages, "two pages": 2 * pages, "a byte": 1, "a byte into a page": pages + 1,
		"between two records":           at,
		"within a record's length":      at + 3,
		"within a record's head":        at + 50,
		"within a record's body":        at + 120,
		"within a record's topic":       at + int64(r.Size) - 30,
		"within a record's properties":  at + int64(r.Size) - 6,
		"a byte before a record's end":  at + int64(r.Size) - 1,
		"right behind a record":         at + int64(r.Size),
		"a byte before the last record": 4*pages - 1,
	}
}

// A segment is shortened while 16 goroutines read. Nobody dies, nobody is given anything but
// messages, the segment is named, and all other segments go on.
func TestCase35AShortenedSegment(t *testing.T) {
	s := shortened(t)
	victim := within(t, s, 3)
	path, _ := s.Segment(victim.Offset)
	whole, err := os.ReadFile(path)
	must(t, err)
	for _, checked := range []int64{0, 1} { // all records were seen whole by Open, or none of them
		for _, mapped := range []bool{true, false} {
			for name, length := range lengths(victim) {
				t.Run(fmt.Sprintf("to %s checked %v mapped %v", name, checked == 0, mapped), func(t *testing.T) {
					defer func() { must(t, os.WriteFile(path, whole, 0o644)) }()
					store := open(t, s.Dir(), warmlog.Options{CheckBytes: checked})
					defer store.Close()
					if mapped {
						var b getmessage.Batch
						for _, r := range s.all {
							if o := pullOne(store, r, &b); o.err != nil || o.torn != nil || o.none {
								t.Fatalf("before: %+v: %+v", r, o)
							}
						}
						b.Release()
					}
					shortenUnderReaders(t, s, store, path, length, mapped)
				})
			}
		}
	}
}

func shortenUnderReaders(t *testing.T, s *built, store *warmlog.Store, path string, length int64, mapped bool) {
	var cut, done atomic.Bool
	var after atomic.Int64 // pulls that began after the cut
	var group sync.WaitGroup
	var failures atomic.Int64
	fail := func(format string, args ...any) {
		if failures.Add(1) <= 3 {
			t.Errorf(format, args...)
		}
	}
	check := func(r storetest.Record, o outcome, began bool) {
		mine, _ := s.Segment(r.Offset)
		end := r.Offset%(4*pages) + int64(r.Size)
		inside := mine == path && end > length
		switch {
		case o.err != nil:
			var d *message.DamageError
			if !errors.As(o.err, &d) || d.File != path || !errors.Is(o.err, warmlog.ErrDamaged) || d.Offset < 0 || d.Offset > 4*pages {
				fail("the message at %d: an error without the place: %v", r.Offset, o.err)
			} else if mine != path {
				fail("the message at %d, in %s: %v", r.Offset, base(mine), o.err)
			}
		case o.torn != nil:
			if began {
				fail("the message at %d, of %d bytes in a segment of %d: %v", r.Offset%(4*pages), r.Size, length, o.torn)
			}
		case len(o.damaged) > 0 && began:
			if o.damaged[0].File != path || !inside {
				fail("the message at %d: damage %v", r.Offset, o.damaged)
			}
		case o.none && began:
			fail("the message at %d is neither there nor damaged", r.Offset)
		case inside && began && len(o.damaged) == 0:
			fail("the message at %d, of %d bytes, in a segment of %d bytes, is there", r.Offset%(4*pages), r.Size, length)
		}
	}
	for n := range 16 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), 35))
			var b getmessage.Batch
			defer b.Release()
			for !done.Load() {
				r := s.all[rng.IntN(len(s.all))]
				if n%2 == 0 || !mapped {
					// Half of them near the cut.
					for i := 0; i < 50 && r.Offset/(4*pages) != 3; i++ {
						r = s.all[rng.IntN(len(s.all))]
					}
				}
				began := cut.Load()
				check(r, pullOne(store, r, &b), began)
				if began {
					after.Add(1)
				}
			}
		})
	}
	must(t, os.Truncate(path, length))
	cut.Store(true)
	for after.Load() < 500 && failures.Load() < 3 {
		_, _ = os.Stat(path) // gives the processor away
	}
	done.Store(true)
	group.Wait()
	var b getmessage.Batch
	defer b.Release()
	for _, r := range s.all { // each of them once more, alone
		check(r, pullOne(store, r, &b), true)
	}
	// The ways to read that use no mapping: what is gone is named, what follows is given.
	seen := map[int64]bool{}
	for id := range int32(3) {
		for v, err := range store.Messages(context.Background(), "orders", id, 0) {
			var d *message.DamageError
			if err != nil {
				if !errors.As(err, &d) || d.File != path {
					fail("Messages: %v", err)
				}
				continue
			}
			if err := storetest.Check(v, "orders", id, v.QueueOffset()); err != nil {
				fail("Messages: %v", err)
			}
			seen[v.PhysicalOffset()] = true
		}
	}
	for _, r := range s.all {
		if mine, _ := s.Segment(r.Offset); mine != path && !seen[r.Offset] {
			fail("Messages does not give the one at %d", r.Offset)
		}
	}
	seen = map[int64]bool{}
	for v, err := range store.Records(context.Background(), 0) {
		if err != nil {
			if !errors.Is(err, warmlog.ErrDamaged) {
				fail("Records: %v", err)
			}
			continue
		}
		seen[v.PhysicalOffset()] = true
	}
	for _, r := range s.all {
		if mine, _ := s.Segment(r.Offset); mine != path && !seen[r.Offset] {
			fail("Records does not give the one at %d", r.Offset)
		}
	}
	found := 0
	if _, err := store.Verify(context.Background(), func(d *message.DamageError) {
		if d.File == path {
			found++
		}
	}); err != nil {
		fail("Verify: %v", err)
	}
	if lost := length < 4*pages-1; lost && found == 0 {
		fail("Verify does not name the segment")
	}
}

// The one record that the end of a shortened segment goes through: its head is still there,
// the rest of it reads as zeros as far as the page goes. Nobody is given it.
func TestCase35ARecordThatIsCutOff(t *testing.T) {
	s := shortened(t)
	victim := within(t, s, 3)
	path, at := s.Segment(victim.Offset)
	whole, err := os.ReadFile(path)
	must(t, err)
	for _, checked := range []int64{0, 1} {
		for length := at + 1; length < at+int64(victim.Size); length += 9 {
			for _, before := range []int64{0, 1, 3} { // asked for alone, and at the end of a batch
				store := open(t, s.Dir(), warmlog.Options{CheckBytes: checked})
				var b getmessage.Batch
				if o := pullOne(store, victim, &b); o.err != nil || o.torn != nil || o.none {
					t.Fatalf("before: %+v", o)
				}
				must(t, os.Truncate(path, length))
				err := store.Get(context.Background(), &getmessage.Request{Topic: "orders", QueueID: victim.QueueID, Offset: victim.QueueOffset - before, MaxMessages: int(before) + 1}, &b)
				var d *message.DamageError
				switch { // with the next one in its place the pull comes upon the part that is gone
				case err != nil && (!errors.As(err, &d) || d.File != path):
					t.Error(err)
				case err == nil && len(b.Damaged) > 0 && b.Damaged[0].File != path:
					t.Errorf("damaged %v", b.Damaged)
				}
				for i := range b.Records() {
					if off := b.Records()[i].QueueOffset(); off == victim.QueueOffset {
						t.Errorf("checked %v: %d of %d bytes are left, and the record is given: %v", checked == 0, length-at, victim.Size,
							storetest.Check(&b.Records()[i], "orders", victim.QueueID, off))
					}
				}
				b.Release()
				store.Close()
				must(t, os.WriteFile(path, whole, 0o644))
				if t.Failed() {
					return
				}
			}
		}
	}
}

// What lies before a segment that is out of service is given, also to a consumer who asks
// for more than that.
func TestCase35MessagesBeforeABadSegment(t *testing.T) {
	s := shortened(t)
	path, _ := s.Segment(3 * 4 * pages)
	store := open(t, s.Dir(), warmlog.Options{})
	for id := range int32(3) {
		drain(t, store, "orders", id, 0)
	}
	must(t, os.Truncate(path, 0))
	var b getmessage.Batch
	defer b.Release()
	for id := range int32(3) {
		next := int64(0)
		for pulls := 0; ; pulls++ {
			err := store.Get(context.Background(), &getmessage.Request{Topic: "orders", QueueID: id, Offset: next}, &b)
			if err != nil {
				var d *message.DamageError
				if !errors.As(err, &d) || d.File != path {
					t.Error(err)
				}
				if pulls++; pulls > 20 {
					break // for good
				}
				continue
			}
			next = b.NextOffset
		}
		for _, r := range s.of("orders", id) {
			if r.Offset >= 3*4*pages {
				if next != r.QueueOffset {
					t.Errorf("orders/%d: a consumer does not get beyond %d, the segment begins with %d", id, next, r.QueueOffset)
				}
				break
			}
		}
	}
}

// A segment is written over, in place, by what is no part of it: a copy that was restored
// to the wrong place.
func TestCase35ASegmentWrittenOver(t *testing.T) {
	s := shortened(t)
	path, _ := s.Segment(3 * 4 * pages)
	whole, err := os.ReadFile(path)
	must(t, err)
	elsewhere, _ := s.Segment(5 * 4 * pages)
	another, err := os.ReadFile(elsewhere)
	must(t, err)
	// Each record says that it is another one of its queue.
	renumbered := append([]byte(nil), whole...)
	for _, r := range s.all {
		if r.Offset/(4*pages) == 3 {
			renumbered[r.Offset%(4*pages)+26]++
		}
	}
	for name, content := range map[string][]byte{
		"zeros": make([]byte, 4*pages), "noise": storetest.Body("noise", 0, 0, 4*pages), "another segment": another, "other offsets": renumbered,
	} {
		for _, checked := range []int64{0, 1} {
			t.Run(fmt.Sprintf("by %s checked %v", name, checked == 0), func(t *testing.T) {
				defer put(t, path, 0, whole)
				store := open(t, s.Dir(), warmlog.Options{CheckBytes: checked})
				defer store.Close()
				put(t, path, 0, content)
				var b getmessage.Batch
				defer b.Release()
				for _, r := range s.all {
					o := pullOne(store, r, &b)
					mine, _ := s.Segment(r.Offset)
					switch {
					case o.torn != nil || o.err != nil:
						t.Fatalf("the message at %d: %+v", r.Offset, o)
					case mine == path && (len(o.damaged) == 0 || o.damaged[0].File != path):
						t.Fatalf("the message at %d: %+v", r.Offset, o)
					case mine != path && (o.none || len(o.damaged) > 0):
						t.Fatalf("the message at %d: %+v", r.Offset, o)
					}
				}
			})
		}
	}
}

// A queue file is shortened while 16 goroutines read: the answers are right, or the file is
// named; other queues go on.
func TestCase35AShortenedQueueFile(t *testing.T) {
	s := shortened(t)
	path, _ := s.QueueFile("orders", 1, 0)
	whole, err := os.ReadFile(path)
	must(t, err)
	for _, mapped := range []bool{true, false} {
		for _, length := range []int64{0, 1, 20, 45, 60, 1000, pages, pages + 10} {
			if length > int64(len(whole)) {
				continue
			}
			t.Run(fmt.Sprintf("to %d mapped %v", length, mapped), func(t *testing.T) {
				defer func() { must(t, os.WriteFile(path, whole, 0o644)) }()
				store := open(t, s.Dir(), warmlog.Options{})
				defer store.Close()
				if mapped {
					drain(t, store, "orders", 1, 0)
				}
				var group sync.WaitGroup
				var failures, wrong atomic.Int64
				var cut, done atomic.Bool
				var after atomic.Int64
				for n := range 16 {
					group.Go(func() {
						rng := rand.New(rand.NewPCG(uint64(n), 36))
						var b getmessage.Batch
						defer b.Release()
						for !done.Load() {
							r := s.all[rng.IntN(len(s.all))]
							began := cut.Load()
							o := pullOne(store, r, &b)
							var d *message.DamageError
							switch {
							case o.err == nil && o.torn == nil && !o.none && len(o.damaged) == 0:
							case r.QueueID == 1 && errors.As(o.err, &d) && d.File == path:
								wrong.Add(1)
							default:
								if failures.Add(1) < 4 {
									t.Errorf("orders/%d at %d: %v; %+v", r.QueueID, r.QueueOffset, o.err, o)
								}
							}
							if began {
								after.Add(1)
							}
						}
					})
				}
				must(t, os.Truncate(path, length))
				cut.Store(true)
				for after.Load() < 500 && failures.Load() < 4 {
					_, _ = os.Stat(path)
				}
				done.Store(true)
				group.Wait()
				// A queue is derived from the log: an error that stays is one too many.
				var b getmessage.Batch
				for _, r := range s.of("orders", 1) {
					if o := pullOne(store, r, &b); o.err != nil || o.torn != nil || o.none {
						t.Errorf("for good: orders/1 at %d: %+v", r.QueueOffset, o)
						break
					}
				}
				b.Release()
				if got, errs := messages(t, store, "orders", 1); len(got) != len(s.of("orders", 1)) {
					t.Errorf("Messages: %d of %d: %v", len(got), len(s.of("orders", 1)), errs)
				}
			})
		}
	}
}

// A queue file goes, or becomes shorter, between the moment when the store has listed it and
// that when it is first read.
func TestCase35AQueueFileThatWentAway(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"deleted":     os.Remove,
		"emptied":     func(path string) error { return os.Truncate(path, 0) },
		"shortened":   func(path string) error { return os.Truncate(path, 45) },
		"a directory": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) },
	} {
		for way, read := range map[string]func(t *testing.T, store *warmlog.Store, want int){
			"Get": func(t *testing.T, store *warmlog.Store, want int) {
				if got := drain(t, store, "orders", 0, 0); len(got.offsets) != want || len(got.damaged) > 0 {
					t.Errorf("%d of %d messages, damaged %v", len(got.offsets), want, got.damaged)
				}
			},
			"Messages": func(t *testing.T, store *warmlog.Store, want int) {
				if got, errs := messages(t, store, "orders", 0); len(got) != want || len(errs) > 0 {
					t.Errorf("%d of %d messages: %v", len(got), want, errs)
				}
			},
		} {
			t.Run(name+" "+way, func(t *testing.T) {
				s := build(t, storetest.Options{SegmentSize: 4 * pages, QueueFileSize: 20 * 5})
				s.fill("orders", 1, 8*4*pages)
				s.Close()
				store := open(t, s.Dir(), warmlog.Options{CheckBytes: 1})
				_, _, err := store.QueueBounds(context.Background(), "orders", 0) // reads the files at the ends and in the middle
				must(t, err)
				for _, n := range []int64{3, 4, 7, 11, 20} {
					path, _ := s.QueueFile("orders", 0, n*5)
					must(t, spoil(path))
				}
				read(t, store, len(s.all))
			})
		}
	}
}

// An index file is shortened while keys are looked up: the log stands in for it.
func TestCase35AShortenedIndexFile(t *testing.T) {
	s := shortened(t)
	path := s.IndexFiles()[0]
	whole, err := os.ReadFile(path)
	must(t, err)
	for _, length := range []int64{0, 1, 40, 100, pages, pages + 10, 10 * pages} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			defer func() { must(t, os.WriteFile(path, whole, 0o644)) }()
			store := open(t, s.Dir(), warmlog.Options{})
			defer store.Close()
			var group sync.WaitGroup
			cut := make(chan struct{})
			for n := range 16 {
				group.Go(func() {
					for try := range 6 {
						if try == 3 {
							<-cut
						}
						key := (n + try) % 10
						var want []int64
						for i := key; i < len(s.all); i += 10 {
							want = append(want, s.all[i].Offset)
						}
						got, err := store.FindByKey(context.Background(), warmlog.KeyQuery{Topic: "orders", Key: fmt.Sprintf("k%d", key), Max: 1000})
						if err != nil || fmt.Sprint(got.Offsets) != fmt.Sprint(want) || got.More {
							t.Errorf("k%d: %v, want %v: %v", key, got, want, err)
						}
					}
				})
			}
			must(t, os.Truncate(path, length))
			close(cut)
			group.Wait()
		})
	}
}

// A segment is replaced by another file of its name. A reader that had it open goes on with
// the old one; who opens it then sees the new one, and takes nothing of it for a message
// that it is not.
func TestCase35AReplacedSegment(t *testing.T) {
	s := shortened(t)
	path, _ := s.Segment(3 * 4 * pages)
	whole, err := os.ReadFile(path)
	must(t, err)
	elsewhere, _ := s.Segment(5 * 4 * pages)
	another, err := os.ReadFile(elsewhere)
	must(t, err)
	life := build(t, storetest.Options{SegmentSize: 4 * pages})
	for range 60 {
		life.add("payments", 0, 100)
	}
	for life.Pos() < 5*4*pages {
		life.add("payments", 2, 250)
	}
	life.Close()
	foreignPath, _ := life.Segment(3 * 4 * pages)
	foreign, err := os.ReadFile(foreignPath)
	must(t, err)
	for name, content := range map[string][]byte{
		"zeros":                make([]byte, 4*pages),
		"noise":                storetest.Body("noise", 0, 0, 4*pages),
		"another segment":      another,
		"another store's":      foreign,
		"half of it":           whole[:2*pages],
		"nothing":              nil,
		"all of it and longer": append(append([]byte(nil), whole...), make([]byte, pages)...),
	} {
		for _, mapped := range []bool{true, false} {
			t.Run(fmt.Sprintf("by %s mapped %v", name, mapped), func(t *testing.T) {
				store := open(t, s.Dir(), warmlog.Options{CheckBytes: 1})
				defer store.Close()
				var b getmessage.Batch
				defer b.Release()
				if mapped {
					for _, r := range s.all {
						pullOne(store, r, &b)
					}
				}
				replacement := filepath.Join(t.TempDir(), "new")
				must(t, os.WriteFile(replacement, content, 0o644))
				must(t, os.Rename(replacement, path))
				defer func() { must(t, os.Remove(path)); must(t, os.WriteFile(path, whole, 0o644)) }()
				for _, r := range s.all {
					o := pullOne(store, r, &b)
					mine, _ := s.Segment(r.Offset)
					var d *message.DamageError
					switch {
					case o.torn != nil:
						t.Fatalf("the message at %d: %v", r.Offset, o.torn)
					case mine != path || mapped:
						if o.err != nil || o.none || len(o.damaged) > 0 {
							t.Fatalf("the message at %d: %+v", r.Offset, o)
						}
					case o.err != nil && (!errors.As(o.err, &d) || d.File != path):
						t.Fatalf("the message at %d: %v", r.Offset, o.err)
					}
				}
			})
		}
	}
}

// The last segment is shortened while the store follows it, and grows again: what is read is
// messages, and the process lives.
func TestCase35AShortenedTail(t *testing.T) {
	for _, length := range []int64{0, 1, pages, pages + 100, 2 * pages} {
		s := build(t, storetest.Options{SegmentSize: 16 * pages})
		s.fill("orders", 2, 2*pages)
		s.Flush()
		path, _ := s.Segment(0)
		store := open(t, s.Dir(), warmlog.Options{})
		var b getmessage.Batch
		must(t, os.Truncate(path, length))
		for n := range 20 {
			if n == 10 {
				must(t, os.Truncate(path, 16*pages))
			}
			for _, r := range s.all {
				if o := pullOne(store, r, &b); o.torn != nil || o.err != nil && !errors.Is(o.err, warmlog.ErrDamaged) {
					t.Fatalf("shortened to %d: the message at %d of %d bytes: %+v", length, r.Offset, r.Size, o)
				}
			}
			for id := range int32(2) { // at the end: this makes the store follow
				err := store.Get(context.Background(), &getmessage.Request{Topic: "orders", QueueID: id, Offset: s.Next("orders", id)}, &b)
				if err != nil && !errors.Is(err, warmlog.ErrDamaged) {
					t.Fatalf("shortened to %d, at the end: %v", length, err)
				}
			}
		}
		b.Release()
		store.Close()
	}
}
