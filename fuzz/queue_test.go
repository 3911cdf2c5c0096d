package fuzz_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/message"
)

// FuzzQueueEntry compares the reading of an entry with the description of the format.
func FuzzQueueEntry(f *testing.F) {
	for _, b := range seedFiles(f, 400, "store/consumequeue/*/*/*", "slave/consumequeue/*/*/*") {
		f.Add(b[:20])
	}
	f.Add(consumequeue.Filler.AppendTo(nil))
	f.Add(consumequeue.Entry{Offset: math.MaxInt64, Size: 1, TagCode: math.MinInt64}.AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 20 {
			return
		}
		e := consumequeue.Decode(b)
		r := &reader{b: b}
		if offset, size, code := r.i64(), r.i32(), r.i64(); e != (consumequeue.Entry{Offset: offset, Size: size, TagCode: code}) {
			t.Fatalf("%+v, want %d, %d, %d", e, offset, size, code)
		}
		if got := e.AppendTo([]byte("x")); !bytes.Equal(got[1:], b[:20]) || got[0] != 'x' {
			t.Fatalf("%x became %x", b[:20], got)
		}
		// A filler is {0, 0x7FFFFFFF, 0}; one that was never written is all zero.
		if e.Real() != real(e) || e.Real() && e.End() <= e.Offset {
			t.Fatalf("%+v: Real %v, End %d", e, e.Real(), e.End())
		}
	})
}

// queueStore is a store on disk of which one queue's files are written again and again.
type queueStore struct {
	dir   string
	log   *madeLog
	files fileSet
	right map[string][]byte // of the other queues, by path
}

var fuzzed = queueName{"T", 0}

const (
	entriesPerFile = 4
	queueFileSize  = entriesPerFile * consumequeue.EntrySize
)

func newQueueStores(f *testing.F) []*queueStore {
	var all []*queueStore
	for _, l := range []*madeLog{smallLog(0, 0), smallLog(2048, 6), smallLog(0, 3)} {
		s := &queueStore{f.TempDir(), l, fileSet{}, map[string][]byte{}}
		l.write(f, s.files, s.dir)
		for name := range l.queues {
			for file, b := range l.queueFiles(name, entriesPerFile) {
				if name != fuzzed {
					s.right[filepath.Join(queueDir(s.dir, name), file)] = b
				}
			}
		}
		all = append(all, s)
	}
	return all
}

// The shape of an input of FuzzQueueFiles: bits.
const (
	shapeStore   = 0x3   // which store
	shapeFiles   = 2     // by this many bits to the left: 2 bits for each of 3 files
	shapeFirst   = 8     // likewise: 2 bits, number of the first file
	shapeAlone   = 0x400 // the other queues have no files
	shapeAbort   = 0x800
	shapePart    = 0x1000 // only the last segment is read when the store is opened
	shapeStrict  = 0x2000
	shapePlan    = 0x4000 // the bytes are a plan: see plannedEntries
	shapeGrow    = 0x8000 // a record is added to the log while it is open
	fileAsPlaned = 0      // of the right size, cut or filled up with zeros
	fileRaw      = 1      // as it is
	fileMissing  = 2
)

// FuzzQueueFiles gives any bytes as the files of one queue. When the log was read from its
// beginning, they can neither hide a message nor invent one.
func FuzzQueueFiles(f *testing.F) {
	stores := newQueueStores(f)
	for i, s := range stores {
		files := s.log.queueFiles(fuzzed, entriesPerFile)
		var b [3][]byte
		first := s.log.queues[fuzzed][0].off / entriesPerFile
		for n := range b {
			b[n] = files[fmt.Sprintf("%020d", (first+int64(n))*queueFileSize)]
		}
		shape := uint16(i) | uint16(first)<<shapeFirst
		f.Add(b[0], b[1], b[2], shape)
		f.Add(b[0], b[1], b[2], shape|shapeAbort|shapeAlone)
		f.Add(b[0], b[1], b[2], shape|shapePart|shapeGrow)
		f.Add(b[0], b[1], b[2], shape|fileMissing<<(shapeFiles+2))
		f.Add(b[0], b[1][:40], b[2], shape|fileRaw<<(shapeFiles+2)|shapeStrict)
		f.Add([]byte("\x00\x01\x02\x03"), []byte("\x13\x24\x35\x46"), []byte("\x07\x07\x50\x61"), shape|shapePlan|shapeGrow)
		f.Add([]byte("\x22\x31\x40\x12"), []byte("\x11\x02\x07\x03"), []byte("\x00\x00\x00\x05"), shape|shapePlan|shapePart)
	}
	for i, b := range seedFiles(f, 400, "store/consumequeue/*/*/*", "slave/consumequeue/*/*/*") {
		f.Add(b[:80], b[80:160], b[160:240], uint16(i%len(stores)))
		if i == 40 {
			break
		}
	}
	f.Fuzz(func(t *testing.T, a, b, c []byte, shape uint16) {
		defer watch(hangs)()
		s := stores[int(shape&shapeStore)%len(stores)]
		s.prepare(t, [3][]byte{a, b, c}, shape)
		s.check(t, shape)
	})
}

// prepare writes the files.
func (s *queueStore) prepare(t *testing.T, content [3][]byte, shape uint16) {
	t.Helper()
	for path, b := range s.right {
		if shape&shapeAlone == 0 {
			s.files.write(t, path, b)
		} else {
			s.files.remove(t, path)
		}
	}
	if abort := filepath.Join(s.dir, "abort"); shape&shapeAbort != 0 {
		s.files.write(t, abort, nil)
	} else {
		s.files.remove(t, abort)
	}
	first := int64(shape>>shapeFirst) & 3
	written := map[string]bool{}
	for i, b := range content {
		mode := shape >> (shapeFiles + 2*i) & 3
		if shape&shapePlan != 0 {
			b = s.plannedEntries(b, (first+int64(i))*entriesPerFile)
		}
		switch {
		case mode == fileMissing:
			continue
		case mode != fileRaw && len(b) > queueFileSize:
			b = b[:queueFileSize]
		case mode != fileRaw:
			b = append(bytes.Clone(b), make([]byte, queueFileSize-len(b))...)
		}
		path := filepath.Join(queueDir(s.dir, fuzzed), fmt.Sprintf("%020d", (first+int64(i))*queueFileSize))
		s.files.write(t, path, b)
		written[path] = true
	}
	s.files.removeBut(t, queueDir(s.dir, fuzzed), written)
}

// plannedEntries makes entries of a plan, one of each byte: what kind of entry, and a number.
func (s *queueStore) plannedEntries(plan []byte, off int64) (b []byte) {
	messages := s.log.queues[fuzzed]
	own := func(off int64) consumequeue.Entry {
		n := off - messages[0].off
		if n < 0 || n >= int64(len(messages)) {
			return consumequeue.Entry{Offset: s.log.end + (n-int64(len(messages)))*123, Size: 123}
		}
		return messages[n].entry()
	}
	for _, c := range plan[:min(len(plan), entriesPerFile)] {
		e, n := own(off), int64(c>>4)
		switch c & 0xF {
		case 0, 8, 9:
		case 1:
			e = consumequeue.Entry{}
		case 2:
			e = consumequeue.Filler
		case 3:
			e = s.log.records[n%int64(len(s.log.records))].entry()
		case 4:
			e.Size += int32(n) - 8
		case 5:
			e.Offset += n - 8
		case 6:
			e = own(off + n - 8)
		case 7:
			e.Offset = math.MaxInt64 - n
		case 10:
			e.TagCode = math.MinInt64 + n
		case 11:
			e = consumequeue.Entry{Offset: s.log.base - 1 - n, Size: 100}
		case 12:
			e = consumequeue.Entry{Offset: s.log.end + n, Size: 100}
		case 13:
			e.Offset = -1 - n
		case 14:
			e = consumequeue.Entry{Offset: s.log.base + 1024*(n%3), Size: math.MaxInt32 - int32(n)}
		case 15:
			e = consumequeue.Entry{Offset: s.log.records[len(s.log.records)-1].pos + n, Size: 1}
		}
		b = e.AppendTo(b)
		off++
	}
	return b
}

// check opens the store and compares it with the log.
func (s *queueStore) check(t *testing.T, shape uint16) {
	t.Helper()
	o := warmlog.Options{CheckBytes: -1, Strict: shape&shapeStrict != 0}
	whole := shape&shapePart == 0
	if !whole {
		o.CheckBytes = 1
	}
	store, err := openStore(s.dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if whole {
		checkWhole(t, store, s.log)
		checkTimes(t, store, s.log)
	} else {
		checkSound(t, store, s.log)
	}
	if shape&shapeStrict != 0 { // not always: they take as long as all the rest
		if _, err := store.Inspect(context.Background()); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Verify(context.Background(), func(*message.DamageError) {}); err != nil {
			t.Fatal(err)
		}
	}
	// Where the queues claim that the log was longer, its end is damaged: a broker would cut
	// it before it goes on.
	if _, end := store.Bounds(); whole && shape&shapeGrow != 0 && end == s.log.end {
		s.grow(t, store)
	}
}

// grow adds a record to the log, as a broker that runs does, and takes it away again.
func (s *queueStore) grow(t *testing.T, store *warmlog.Store) {
	t.Helper()
	l := s.log
	messages := l.queues[fuzzed]
	off := messages[len(messages)-1].off + 1
	raw := message.AppendRecord(nil, &message.Message{Topic: fuzzed.topic, QueueID: fuzzed.id}, seedHost, false)
	message.Stamp(raw, off, l.end, l.records[len(l.records)-1].store, false)
	last := int64(len(l.segments) - 1)
	path := filepath.Join(s.dir, "commitlog", fmt.Sprintf("%020d", l.base+last*l.segment))
	at := l.end - l.base - last*l.segment
	if at+int64(len(raw))+8 > l.segment {
		t.Fatal("the made log has no room left")
	}
	writeAt(t, path, raw, at)
	defer writeAt(t, path, make([]byte, len(raw)), at)
	var b getmessage.Batch
	defer b.Release()
	for range 2 {
		if err := store.Get(context.Background(), &getmessage.Request{Topic: fuzzed.topic, QueueID: fuzzed.id, Offset: off}, &b); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.Records()) != 1 || !bytes.Equal(b.Records()[0].Raw(), raw) {
		t.Fatalf("a message that was added while the store was open is not seen: %v, next %d", b.Status, b.NextOffset)
	}
}

func writeAt(t *testing.T, path string, b []byte, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(b, at)
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// checkWhole compares every answer with the log: nothing more, nothing less.
func checkWhole(t *testing.T, store *warmlog.Store, l *madeLog) {
	t.Helper()
	ctx := context.Background()
	if min, max := store.Bounds(); min != l.base || max < l.end {
		t.Fatalf("the log goes from %d to %d, want %d to %d", min, max, l.base, l.end)
	}
	for _, name := range l.names() {
		messages := l.queues[name]
		first, end := messages[0].off, messages[len(messages)-1].off+1
		min, max, err := store.QueueBounds(ctx, name.topic, name.id)
		if err != nil || min != first || max != end {
			t.Fatalf("%v: bounds %d to %d, %v; want %d to %d", name, min, max, err, first, end)
		}
		next := 0
		for v, err := range store.Messages(ctx, name.topic, name.id, 0) {
			if err != nil {
				t.Fatalf("%v: message %d: %v", name, first+int64(next), err)
			}
			if next == len(messages) || !bytes.Equal(v.Raw(), messages[next].raw) {
				t.Fatalf("%v: message %d is not the one of that offset", name, first+int64(next))
			}
			next++
		}
		if next != len(messages) {
			t.Fatalf("%v: %d messages of %d", name, next, len(messages))
		}
		var b getmessage.Batch
		for off := first - 2; off <= end+2; off++ {
			req := getmessage.Request{Topic: name.topic, QueueID: name.id, Offset: off, MaxMessages: 1 + int(off&1)*31}
			if err := store.Get(ctx, &req, &b); err != nil {
				t.Fatalf("%v at %d: %v", name, off, err)
			}
			status, next := getmessage.Found, off+int64(len(b.Records()))
			switch {
			case off < first:
				status, next = getmessage.OffsetTooSmall, first
			case off == end:
				status, next = getmessage.OffsetOverflowOne, end
			case off > end:
				status, next = getmessage.OffsetOverflowBadly, end
			}
			if b.Status != status || b.NextOffset != next || b.MinOffset != first || b.MaxOffset != end || (len(b.Records()) > 0) != (status == getmessage.Found) {
				t.Fatalf("%v at %d: %v, next %d, from %d to %d, %d records", name, off, b.Status, b.NextOffset, b.MinOffset, b.MaxOffset, len(b.Records()))
			}
			for i := range b.Records() {
				if !bytes.Equal(b.Records()[i].Raw(), messages[off-first+int64(i)].raw) {
					t.Fatalf("%v at %d: record %d is another one", name, off, i)
				}
			}
			if len(b.Damaged) > 0 {
				t.Fatalf("%v at %d: %v", name, off, b.Damaged[0])
			}
		}
		b.Release()
	}
}

// checkTimes compares the search by time in each queue with a linear scan.
func checkTimes(t *testing.T, store *warmlog.Store, l *madeLog) {
	t.Helper()
	for _, name := range l.names() {
		checkTimesOf(t, store, name, l.queues[name])
	}
}

func checkTimesOf(t *testing.T, store *warmlog.Store, name queueName, messages []*made) {
	t.Helper()
	times := []int64{math.MinInt64, math.MaxInt64, messages[len(messages)/2].store, messages[len(messages)-1].store + 1}
	for _, at := range times {
		lower, upper := messages[len(messages)-1].off+1, messages[0].off
		for _, m := range messages {
			if m.store >= at {
				lower = min(lower, m.off)
			}
			if m.store <= at {
				upper = m.off
			}
		}
		for bound, want := range map[consumequeue.Bound]int64{consumequeue.Lower: lower, consumequeue.Upper: upper} {
			if got, err := store.OffsetByTime(context.Background(), name.topic, name.id, at, bound); err != nil || got != want {
				var stored []int64
				for _, m := range messages {
					stored = append(stored, m.store)
				}
				t.Fatalf("%v at %d ms, bound %d: %d, %v; want %d of %d", name, at, bound, got, err, want, stored)
			}
		}
	}
}

// checkSound checks that what comes out is what was asked for, where messages may be missing.
func checkSound(t *testing.T, store *warmlog.Store, l *madeLog) {
	t.Helper()
	ctx := context.Background()
	for _, name := range l.names() {
		messages := l.queues[name]
		is := func(v *message.View, off int64) {
			if n := off - messages[0].off; n < 0 || n >= int64(len(messages)) || !bytes.Equal(v.Raw(), messages[n].raw) {
				t.Fatalf("%v at %d: another record", name, off)
			}
		}
		low, high, err := store.QueueBounds(ctx, name.topic, name.id)
		if err != nil || low < 0 || high < low {
			t.Fatalf("%v: %d to %d, %v", name, low, high, err)
		}
		last := int64(-1)
		for v, err := range store.Messages(ctx, name.topic, name.id, 0) {
			if err != nil {
				if !isDamage(err) {
					t.Fatalf("%v: %v", name, err)
				}
				continue
			}
			if v.QueueOffset() <= last || v.QueueOffset() < low || v.QueueOffset() >= high {
				t.Fatalf("%v: %d after %d, within %d and %d", name, v.QueueOffset(), last, low, high)
			}
			last = v.QueueOffset()
			is(v, last)
		}
		var b getmessage.Batch
		for off := low; off < min(high, low+40); off++ {
			err := store.Get(ctx, &getmessage.Request{Topic: name.topic, QueueID: name.id, Offset: off, MaxMessages: 2}, &b)
			if err != nil {
				if !isDamage(err) {
					t.Fatalf("%v at %d: %v", name, off, err)
				}
				continue
			}
			if b.NextOffset <= off || b.NextOffset > high || (b.Status == getmessage.Found) != (len(b.Records()) > 0) {
				t.Fatalf("%v at %d: %v, next %d, %d records", name, off, b.Status, b.NextOffset, len(b.Records()))
			}
			for i := range b.Records() {
				v := &b.Records()[i]
				if v.QueueOffset() < off || v.QueueOffset() >= b.NextOffset {
					t.Fatalf("%v at %d: message %d, next %d", name, off, v.QueueOffset(), b.NextOffset)
				}
				is(v, v.QueueOffset())
			}
		}
		b.Release()
	}
}
