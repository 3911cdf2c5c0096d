package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/message"
)

// bit is a bit of a record.
type bit struct {
	at  int64 // byte
	bit int
}

// bits returns the bits of a record with a body of n bytes in which a flip must be noticed:
// all of its head that the format lets one check, and some of its body, topic and lengths.
func bits(n int64) map[string][]bit {
	all := func(from, to int64) (b []bit) {
		for at := from; at < to; at++ {
			for i := range 8 {
				b = append(b, bit{at, i})
			}
		}
		return b
	}
	return map[string][]bit{
		"length":             all(0, 4),
		"magic":              all(4, 8),
		"body's checksum":    {{8, 0}, {9, 3}, {11, 7}},
		"queue offset":       {{20, 7}, {24, 1}, {27, 0}, {27, 2}},
		"physical offset":    {{28, 6}, {31, 0}, {35, 0}, {35, 7}},
		"body's length":      {{84, 7}, {85, 0}, {87, 0}, {87, 5}},
		"body":               {{88, 0}, {88 + n/2, 4}, {88 + n - 1, 7}},
		"topic's length":     {{88 + n, 0}, {88 + n, 7}},
		"properties' length": {{88 + n + 1 + 6, 7}, {88 + n + 1 + 7, 0}},
	}
}

// damagedStore is a store of five segments in which one record of the third one is damaged.
func damagedStore(t *testing.T) (s *built, victim storetest.Record) {
	s = build(t, storetest.Options{SegmentSize: 8 << 10, QueueFileSize: 400})
	s.fill("orders", 2, 5*8<<10-1000)
	for i, r := range s.all {
		if r.Offset/(8<<10) == 2 && r.Offset%(8<<10) > 3000 && s.all[i+3].Offset/(8<<10) == 2 {
			return s, r
		}
	}
	t.Fatal("no victim")
	return nil, victim
}

// One flipped bit in an old record costs that record, is named, and costs nothing else:
// after an orderly stop, and after a kill.
func TestCase13AFlippedBitInAnOldRecord(t *testing.T) {
	each(t, modes, func(t *testing.T, leave func(*built)) {
		s, victim := damagedStore(t)
		leave(s)
		body := int64(len(s.Message("orders", victim.QueueID, 0).Body))
		for _, r := range s.all {
			if r == victim {
				v, err := message.Decode(bytesOf(t, segmentOf(s, r), r.Offset%(8<<10), int(r.Size)))
				must(t, err)
				body = int64(len(v.Body()))
			}
		}
		path, at := s.Segment(victim.Offset)
		for what, all := range bits(body) {
			t.Run(what, func(t *testing.T) {
				for _, b := range all {
					flip(t, path, at+b.at, b.bit)
					checkDamaged(t, s, victim, path, at, what, b)
					flip(t, path, at+b.at, b.bit)
					if t.Failed() {
						return
					}
				}
			})
		}
	})
}

func segmentOf(s *built, r storetest.Record) string {
	path, _ := s.Segment(r.Offset)
	return path
}

func checkDamaged(t *testing.T, s *built, victim storetest.Record, path string, at int64, what string, b bit) {
	t.Helper()
	fault := func(format string, args ...any) {
		t.Helper()
		t.Errorf("bit %d of byte %d: %s", b.bit, b.at, fmt.Sprintf(format, args...))
	}
	// The checksum of the body is not compared by Get: see its documentation.
	unseenByGet := what == "body" || what == "body's checksum"
	ctx := context.Background()
	for _, o := range []warmlog.Options{{}, {Strict: true}, {CheckBytes: 1}} {
		store := open(t, s.Dir(), o)
		if _, max := store.Bounds(); max != s.Pos() {
			fault("the log ends at %d, want %d: records were cut", max, s.Pos())
		}
		// Open names what it has read. A wrong queue offset is no damage of the log's: it is
		// the queue that tells.
		if d := store.Damaged(); o.CheckBytes == 0 && what != "queue offset" && (len(d) != 1 || !names(d[0], path, at)) {
			fault("Damaged: %v", d)
		}
		for id := range int32(2) {
			for _, r := range s.of("orders", id) {
				var batch getmessage.Batch
				err := store.Get(ctx, &getmessage.Request{Topic: "orders", QueueID: id, Offset: r.QueueOffset, MaxMessages: 1}, &batch)
				switch {
				case r != victim:
					if err != nil || batch.Status != getmessage.Found || len(batch.Damaged) > 0 || len(batch.Records()) != 1 {
						fault("Get of orders/%d at %d: %v, damaged %v: %v", id, r.QueueOffset, batch.Status, batch.Damaged, err)
						break
					}
					if err := storetest.Check(&batch.Records()[0], "orders", id, r.QueueOffset); err != nil {
						fault("Get: %v", err)
					}
				case unseenByGet:
					if err != nil || len(batch.Records()) != 1 || !errors.Is(batch.Records()[0].Check(), message.ErrBodyCRC) {
						fault("Get of the damaged body: %v: %v", batch.Status, err)
					}
				case o.Strict:
					if !names(err, path, at) {
						fault("Get, strict: %v", err)
					}
				default:
					if err != nil || len(batch.Damaged) != 1 || !names(batch.Damaged[0], path, at) || batch.NextOffset <= r.QueueOffset {
						fault("Get of the damaged record: %v, next %d, damaged %v: %v", batch.Status, batch.NextOffset, batch.Damaged, err)
					}
					for _, v := range batch.Records() { // the next one instead
						if err := storetest.Check(&v, "orders", id, r.QueueOffset+1); err != nil {
							fault("Get: %v", err)
						}
					}
				}
				batch.Release()
			}
		}
		if !o.Strict && !unseenByGet {
			// A consumer passes over the spot once, and gets all the rest.
			all := s.of("orders", victim.QueueID)
			if got := drain(t, store, "orders", victim.QueueID, 0); len(got.offsets) != len(all)-1 || len(got.damaged) != 1 {
				fault("a consumer got %d of %d, and %d damaged", len(got.offsets), len(all), len(got.damaged))
			}
		}
		store.Close()
		store = open(t, s.Dir(), o)
		got, errs := messages(t, store, "orders", victim.QueueID)
		if len(got) != len(s.of("orders", victim.QueueID))-1 || len(errs) != 1 || !names(errs[0], path, at) {
			fault("Messages: %d, %v", len(got), errs)
		}
		store.Close()
	}
	v, damage := verify(t, s.Dir())
	if v.Damage == 0 || !names(damage[0], path, at) {
		fault("verify: %v", damage)
	}
	for _, d := range damage {
		if !names(d, path, at) {
			fault("verify names something else: %v", d)
		}
	}
}

// Whoever asks, and however often, is told the same place.
func TestCase13TheSameDamageIsNamedTheSameEachTime(t *testing.T) {
	s, victim := damagedStore(t)
	s.Close()
	path, at := s.Segment(victim.Offset)
	flip(t, path, at+5, 3)
	store := open(t, s.Dir(), warmlog.Options{})
	strict := open(t, s.Dir(), warmlog.Options{Strict: true})
	for n := range 3 {
		var b getmessage.Batch
		req := &getmessage.Request{Topic: "orders", QueueID: victim.QueueID, Offset: victim.QueueOffset}
		if err := store.Get(context.Background(), req, &b); err != nil || len(b.Damaged) != 1 || !names(b.Damaged[0], path, at) {
			t.Errorf("pull %d: %v, %v", n, b.Damaged, err)
		}
		b.Release()
		if err := strict.Get(context.Background(), req, &b); !names(err, path, at) {
			t.Errorf("strict pull %d: %v", n, err)
		}
		if _, errs := messages(t, store, "orders", victim.QueueID); len(errs) != 1 || !names(errs[0], path, at) {
			t.Errorf("Messages %d: %v", n, errs)
		}
	}
}

// The last message of a queue that is damaged is damaged, and not one that is still to come:
// the queue's end stays where it is, or a consumer behind it would be sent back.
func TestCase13TheLastMessageOfAQueue(t *testing.T) {
	each(t, modes, func(t *testing.T, leave func(*built)) {
		s := build(t, storetest.Options{SegmentSize: 8 << 10})
		s.fill("orders", 2, 2*8<<10+2000)
		for range 3 {
			s.add("rare", 0, 100)
		}
		last := s.all[len(s.all)-1]
		s.fill("orders", 2, 5*8<<10-1000)
		leave(s)
		path, at := s.Segment(last.Offset)
		flip(t, path, at+100, 3)
		store := open(t, s.Dir(), warmlog.Options{})
		if low, high, err := store.QueueBounds(context.Background(), "rare", 0); low != 0 || high != 3 || err != nil {
			t.Errorf("rare/0 is [%d, %d), want [0, 3): %v", low, high, err)
		}
		if got, errs := messages(t, store, "rare", 0); len(got) != 2 || len(errs) != 1 || !names(errs[0], path, at) {
			t.Errorf("rare/0: %v, %v", got, errs)
		}
		var b getmessage.Batch
		if err := store.Get(context.Background(), &getmessage.Request{Topic: "rare", Offset: 3}, &b); err != nil || b.Status != getmessage.OffsetOverflowOne || b.NextOffset != 3 {
			t.Errorf("a consumer at the end: %v, next %d: %v", b.Status, b.NextOffset, err)
		}
	})
}

// Damage in the last segment of a store that was stopped in order: what queues name behind
// it proves that the log did not end there.
func TestCase13DamageInTheLastSegment(t *testing.T) {
	s := build(t, storetest.Options{SegmentSize: 16 << 10})
	s.fill("orders", 2, 16<<10+9000)
	s.Close()
	var lasts []storetest.Record
	for _, r := range s.all {
		if r.Offset >= 16<<10 {
			lasts = append(lasts, r)
		}
	}
	for _, victim := range []storetest.Record{lasts[0], lasts[1], lasts[len(lasts)/2], lasts[len(lasts)-2], lasts[len(lasts)-1]} {
		path, at := s.Segment(victim.Offset)
		for what, b := range map[string]bit{"length": {2, 1}, "magic": {5, 0}, "body": {100, 3}} {
			flip(t, path, at+b.at, b.bit)
			store := open(t, s.Dir(), warmlog.Options{})
			if _, max := store.Bounds(); max != s.Pos() {
				t.Errorf("%s of the record at %d: the log ends at %d, want %d", what, victim.Offset, max, s.Pos())
			}
			if d := store.Damaged(); len(d) != 1 || !names(d[0], path, at) {
				t.Errorf("%s of the record at %d: damage %v", what, victim.Offset, d)
			}
			for id := range int32(2) {
				all := s.of("orders", id)
				want := len(all)
				if id == victim.QueueID {
					want--
				}
				// The very last record of the log is named by Damaged; whether its queue still counts it
				// is as it may be: RocketMQ would cut it.
				got, errs := messages(t, store, "orders", id)
				if last := victim == lasts[len(lasts)-1]; len(got) != want || len(errs) != len(all)-want && !(last && len(errs) == 0) {
					t.Errorf("%s of the record at %d: orders/%d has %d of %d messages: %v", what, victim.Offset, id, len(got), len(all), errs)
				}
			}
			store.Close()
			flip(t, path, at+b.at, b.bit)
		}
	}
}

// Without queues to say what is there the log says it: behind a damaged record the search
// for the next sound one goes on in the same segment.
func TestCase13DamageAndNoQueues(t *testing.T) {
	each(t, modes, func(t *testing.T, leave func(*built)) {
		for what, b := range map[string]bit{"length": {1, 1}, "magic": {5, 0}, "body": {100, 3}} {
			s := build(t, storetest.Options{SegmentSize: 8 << 10})
			s.fill("orders", 2, 2*8<<10+3000)
			victim := s.add("orders", 0, 100)
			s.add("rare", 0, 100) // all of its messages lie right behind
			s.add("rare", 0, 100)
			s.fill("orders", 2, 5*8<<10-1000)
			leave(s)
			path, at := s.Segment(victim.Offset)
			flip(t, path, at+b.at, b.bit)
			must(t, os.RemoveAll(s.Paths.ConsumeQueue()))
			store := open(t, s.Dir(), warmlog.Options{})
			for _, q := range []queueID{{"orders", 0}, {"orders", 1}, {"rare", 0}} {
				var want []int64
				for _, r := range s.of(q.topic, q.id) {
					if r != victim {
						want = append(want, r.QueueOffset)
					}
				}
				if got := drain(t, store, q.topic, q.id, 0); fmt.Sprint(got.offsets) != fmt.Sprint(want) {
					t.Errorf("%s: %s/%d: %v, want %v", what, q.topic, q.id, short(got.offsets), short(want))
				}
			}
			n := 0
			for _, err := range store.Records(context.Background(), 0) {
				if n++; err != nil && !names(err, path, at) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if n != len(s.all) {
				t.Errorf("%s: %d records and damages, want %d", what, n, len(s.all))
			}
			store.Close()
		}
	})
}

// Many damaged records, next to each other and apart, up to a whole block of noise: all the
// others are there.
func TestCase13ManyDamagedRecords(t *testing.T) {
	each(t, modes, func(t *testing.T, leave func(*built)) {
		s := build(t, storetest.Options{SegmentSize: 16 << 10, QueueFileSize: 400})
		s.fill("orders", 3, 6*16<<10-1000)
		leave(s)
		// 4 KiB of noise in the second segment, a page of zeros across records of the third, the
		// whole fourth segment.
		noise := storetest.Body("noise", 0, 0, 16<<10)
		spoilt := map[int64]bool{}
		spoil := func(from, n int64, b []byte) {
			path, at := s.Segment(from)
			put(t, path, at, b[:n])
			for i, r := range s.all {
				if r.Offset < from+n && r.End() > from {
					spoilt[int64(i)] = true
				}
			}
		}
		spoil(1<<14+5000, 4096, noise)
		spoil(2<<14+4096, 4096, make([]byte, 4096))
		spoil(3<<14, 1<<14, noise)
		store := open(t, s.Dir(), warmlog.Options{})
		want := map[int32][]int64{}
		for i, r := range s.all {
			if !spoilt[int64(i)] {
				want[r.QueueID] = append(want[r.QueueID], r.QueueOffset)
			}
		}
		damaged := 0
		for id := range int32(3) {
			got := drain(t, store, "orders", id, 0)
			if fmt.Sprint(got.offsets) != fmt.Sprint(want[id]) {
				t.Errorf("orders/%d: %v, want %v", id, short(got.offsets), short(want[id]))
			}
			damaged += len(got.damaged)
			if read, errs := messages(t, store, "orders", id); fmt.Sprint(read) != fmt.Sprint(want[id]) || len(errs) != len(got.damaged) {
				t.Errorf("orders/%d by Messages: %v, want %v; %d errors", id, short(read), short(want[id]), len(errs))
			}
		}
		if damaged != len(spoilt) {
			t.Errorf("%d messages are called damaged, %d are", damaged, len(spoilt))
		}
	})
}
