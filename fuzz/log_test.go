package fuzz_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/message"
)

// The shape of an input of FuzzLog: bits. The lowest six are two for each of 3 segments.
const (
	logFilled  = 0 // of the segment's size, cut or filled up with zeros
	logRaw     = 1 // as it is
	logMissing = 2
	logEmpty   = 3

	logRepair  = 0x40 // positions and checksums of what looks like a record are made right
	logAbort   = 0x80
	logQueues  = 0x100 // queues have right files
	logHead    = 0x200 // the first segments were deleted
	logSize    = 0x400 // the segment's size is an option
	logRefuse  = 0x800 // holes are refused
	logPart    = 0x1000
	logPlan    = 0x2000 // the first bytes are a plan, the second ones changes to what it makes
	logVerify  = 0x4000 // everything is verified, too
	logStrictX = 0x8000
)

// FuzzLog gives any bytes as the segments of a store. What comes out is whole records that
// lie where they say; of a log without damage, everything comes out.
func FuzzLog(f *testing.F) {
	for i, l := range []*madeLog{smallLog(0, 0), smallLog(2048, 6)} {
		for _, shape := range []uint16{0, logQueues, logAbort | logVerify, logPart | logQueues, logRepair | logRefuse, logSize | logVerify | logQueues} {
			shape |= uint16(i) * logHead
			f.Add(l.segments[0], l.segments[1], l.segments[2], uint8(15), shape)
			f.Add(l.segments[0], l.segments[1], l.segments[2][:300], uint8(15), shape|logRaw<<4)
			f.Add(l.segments[0], l.segments[1], l.segments[2], uint8(15), shape|logMissing<<2)
		}
	}
	for _, plan := range []string{"\x00\x01\x02\x03\x00\x01\x02\x03", "\x10\x10\x10\x10\x18\x10\x10\x14\x10\x10", "\x20\x60\x20\xa0\x20\x20\x2c\x20\x20",
		"\xc0\xc1\x00\x01\x30\x31\x3d\x3d\x3d\x31", "\x04\x14\x24\x34\x44\x54\x64\x74\x84\x94\xa4\xb4\xc4\xd4\xe4\xf4"} {
		for _, shape := range []uint16{logPlan, logPlan | logQueues | logPart, logPlan | logAbort, logPlan | logVerify | logHead} {
			f.Add([]byte(plan), []byte{}, []byte{}, uint8(7), shape)
			f.Add([]byte(plan), []byte{0, 200, 1}, []byte{}, uint8(9), shape)
		}
	}
	for i, rec := range seedRecords(f) {
		if i%9 == 0 {
			f.Add(rec, bytes.Clone(rec), rec, uint8(20), uint16(logRepair|logVerify))
		}
	}
	for _, topic := range []string{"", ".", "..", "a/b", "a\x00b", strings.Repeat("x", 300), "\xff\xfe", "%LMQ%a", "SCHEDULE_TOPIC_XXXX"} {
		m := message.Message{Topic: topic, BornHost: seedHost}
		f.Add(message.AppendRecord(nil, &m, seedHost, false), []byte{}, []byte{}, uint8(15), uint16(logRepair|logVerify|logMissing<<2|logMissing<<4))
		m.Properties = []message.Property{{Name: "INNER_MULTI_DISPATCH", Value: "a/b,T"}, {Name: "INNER_MULTI_QUEUE_OFFSET", Value: "0,9223372036854775807"}}
		f.Add(message.AppendRecord(nil, &m, seedHost, true), []byte{}, []byte{}, uint8(15), uint16(logRepair|logVerify|logQueues))
	}
	s := &segmentStore{dir: f.TempDir(), files: fileSet{}}
	f.Fuzz(func(t *testing.T, a, b, c []byte, size uint8, shape uint16) {
		defer watch(hangs)()
		s.prepare(t, [3][]byte{a, b, c}, size, shape)
		s.check(t, shape)
	})
}

// segmentStore is a store of which the segments are written again and again.
type segmentStore struct {
	dir     string
	files   fileSet
	segment int64
	content map[int64][]byte // of the files, by their first byte's physical offset
	found   int64            // the segment's size as the store finds it
	walk    []*made          // the records up to the first damage
	end     int64            // where the walk ended
	whole   bool             // all files are there, of one size, and nothing follows the walk
}

func (s *segmentStore) prepare(t *testing.T, content [3][]byte, size uint8, shape uint16) {
	t.Helper()
	s.segment = 64 * (1 + int64(size%32))
	base := int64(0)
	if shape&logHead != 0 {
		base = 2 * s.segment
	}
	if shape&logPlan != 0 {
		content = s.planned(base, content[0], content[1])
	}
	s.content, s.found = map[int64][]byte{}, s.segment
	written := map[string]bool{}
	for i, b := range content {
		at := base + int64(i)*s.segment
		switch mode := shape >> (2 * i) & 3; {
		case mode == logMissing:
			continue
		case mode == logEmpty:
			b = nil
		case mode == logRaw:
			b = bytes.Clone(b)
		case int64(len(b)) > s.segment:
			b = bytes.Clone(b[:s.segment])
		default:
			b = append(bytes.Clone(b), make([]byte, s.segment-int64(len(b)))...)
		}
		if shape&logRepair != 0 {
			repair(b, at)
		}
		path := filepath.Join(s.dir, "commitlog", fmt.Sprintf("%020d", at))
		s.files.write(t, path, b)
		written[path] = true
		s.content[at] = b
	}
	s.files.removeBut(t, filepath.Join(s.dir, "commitlog"), written)
	s.walkThrough(base)
	if n := len(s.walk); n > 0 && shape&logAbort != 0 && torn(s.walk[n-1].raw) {
		// It may be one that was being written when the process died. Whether it counts is up
		// to its queue's file, and to what follows.
		s.walk, s.end, s.whole = s.walk[:n-1], s.walk[n-1].pos, false
	}
	clear(written)
	if shape&logQueues != 0 {
		s.writeQueues(t, written)
	}
	s.files.removeBut(t, filepath.Join(s.dir, "consumequeue"), written)
	if abort := filepath.Join(s.dir, "abort"); shape&logAbort != 0 {
		s.files.write(t, abort, nil)
	} else {
		s.files.remove(t, abort)
	}
}

// torn reports whether a record has zeros where no checksum covers them.
func torn(raw []byte) bool {
	rec, ok := twinDecode(raw)
	return ok && (bytes.IndexByte(rec.topic, 0) >= 0 || bytes.IndexByte(rec.props, 0) >= 0)
}

// repair walks over what looks like records and makes their positions and checksums right.
func repair(b []byte, at int64) {
	for n := 0; n+48 < len(b); {
		rec, ok := twinDecode(b[n:])
		if !ok {
			if size := int(int32(binary.BigEndian.Uint32(b[n:]))); size < 91 || size > len(b)-n {
				return
			} else if rec, ok = twinDecode(b[n : n+size]); !ok {
				return
			}
		}
		binary.BigEndian.PutUint64(b[n+28:], uint64(at+int64(n)))
		binary.BigEndian.PutUint32(b[n+8:], crc32.ChecksumIEEE(rec.body)&0x7FFFFFFF)
		n += int(rec.size)
	}
}

// planned makes segments of a plan: of each byte a record.
func (s *segmentStore) planned(base int64, plan, changes []byte) (content [3][]byte) {
	l := newLog(base, s.segment)
	for i, c := range plan[:min(len(plan), 40)] {
		m := message.Message{Topic: "T", QueueID: int32(c & 3), Keys: "k", Body: make([]byte, []int{0, 20, 100, 300}[c>>4&3])}
		name := queueName{m.Topic, m.QueueID}
		switch c >> 2 & 3 {
		case 2: // made again
			l.next[name] = 0
		case 3: // a gap
			l.next[name] += []int64{1, 3, 2000, 1 << 40}[i&3]
		}
		if c>>6 == 3 {
			m.SysFlag = message.SysFlagPrepared
		}
		if size := int64(92 + 7 + len(m.Body) + 8); size > s.segment || len(l.segments) == 3 && l.end+size > base+3*s.segment {
			continue
		}
		l.add(m, 1700000000000+int64(i))
		if rec := &l.records[len(l.records)-1]; c>>6 == 2 {
			l.at(rec.pos, 8)[7]++
		}
	}
	for ; len(changes) >= 3 && len(l.segments) > 0; changes = changes[3:] {
		at := int(binary.BigEndian.Uint16(changes)) % (len(l.segments) * int(s.segment))
		l.segments[at/int(s.segment)][at%int(s.segment)] ^= changes[2]
	}
	copy(content[:], l.segments)
	return content
}

// at returns the bytes of the file that holds a physical offset, from there on, and what is
// left of the segment.
func (s *segmentStore) at(pos int64) (b []byte, left int64) {
	base := int64(-1)
	for at, b := range s.content {
		if at <= pos && len(b) > 0 {
			base = max(base, at)
		}
	}
	if b = s.content[base]; base < 0 || pos-base >= int64(len(b)) {
		return nil, 0
	}
	return b[pos-base:], base + s.found - pos
}

// soundAt returns the record that begins at a physical offset, nil if none does.
func (s *segmentStore) soundAt(pos int64) *made {
	b, left := s.at(pos)
	if len(b) < 8 {
		return nil
	}
	size := int64(int32(binary.BigEndian.Uint32(b)))
	if size < 0 || size > int64(len(b)) || size > left-8 {
		return nil
	}
	rec, ok := twinDecode(b[:size])
	if !ok || rec.physOffset != pos {
		return nil
	}
	if right, told := twinCheck(&rec, b[:size]); !right || !told {
		return nil
	}
	m := &made{topic: string(rec.topic), queue: rec.queueID, off: rec.queueOffset, pos: pos, store: rec.store, queued: rec.queued(), raw: b[:size]}
	if rec.sysFlag&0xC != 0xC {
		m.keys = twinKeys(rec.props)
	}
	return m
}

// walkThrough reads the log from its beginning to the first thing that is not sound.
func (s *segmentStore) walkThrough(base int64) {
	s.walk, s.end, s.whole = nil, base, len(s.content[base]) > 0
	for at := range s.content {
		if b := s.content[at]; int64(len(b)) != s.segment || at > base && s.content[at-s.segment] == nil {
			s.whole = false
		}
	}
	if !s.whole {
		return
	}
	for s.content[s.end-s.end%s.segment] != nil {
		b := s.content[s.end-s.end%s.segment][s.end%s.segment:]
		if len(b) >= 8 && binary.BigEndian.Uint32(b[4:]) == 0xCBD43194 && int(binary.BigEndian.Uint32(b)) == len(b) {
			s.end += int64(len(b))
			continue
		}
		m := s.soundAt(s.end)
		if m == nil {
			break
		}
		s.walk = append(s.walk, m)
		s.end += m.size()
	}
	// What was never written is zero, to the end of the last file.
	for at := s.end; s.content[at-at%s.segment] != nil; at += s.segment - at%s.segment {
		if slices.ContainsFunc(s.content[at-at%s.segment][at%s.segment:], func(c byte) bool { return c != 0 }) {
			s.whole = false
		}
	}
}

// queues returns the messages of each queue in physical order, and whether every one of
// them is numbered without a gap.
func (s *segmentStore) queues() (all map[queueName][]*made, regular bool) {
	all, regular = map[queueName][]*made{}, true
	for _, m := range s.walk {
		if !m.queued {
			continue
		}
		name := queueName{m.topic, m.queue}
		if bytes.Contains(m.raw, []byte("INNER_MULTI_DISPATCH")) { // it may be in other queues, too
			regular = false
		}
		if q := all[name]; m.off < 0 || m.off > 1<<40 || m.queue < 0 || m.topic == "" || len(q) > 0 && q[len(q)-1].off+1 != m.off {
			regular = false
		}
		all[name] = append(all[name], m)
	}
	return all, regular
}

func (s *segmentStore) writeQueues(t *testing.T, written map[string]bool) {
	t.Helper()
	l := madeLog{}
	var regular bool
	if l.queues, regular = s.queues(); !regular {
		return
	}
	for name, messages := range l.queues {
		if name.topic == "." || name.topic == ".." || len(name.topic) > 255 || strings.ContainsAny(name.topic, "/\x00") || len(messages) > 100 {
			continue
		}
		for file, b := range l.queueFiles(name, entriesPerFile) {
			path := filepath.Join(queueDir(s.dir, name), file)
			s.files.write(t, path, b)
			written[path] = true
		}
	}
}

func (s *segmentStore) check(t *testing.T, shape uint16) {
	t.Helper()
	o := warmlog.Options{CheckBytes: -1, RefuseHoles: shape&logRefuse != 0, Strict: shape&logStrictX != 0}
	if shape&logPart != 0 {
		o.CheckBytes = 1
	}
	if shape&logSize != 0 {
		o.SegmentSize = s.segment
	}
	store, err := openStore(s.dir, o)
	if err != nil {
		if s.whole || !errors.Is(err, warmlog.ErrDamaged) && !errors.Is(err, warmlog.ErrUnsupported) {
			t.Fatal(err)
		}
		return
	}
	defer store.Close()
	ctx := context.Background()
	info, err := store.Inspect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if s.found = info.SegmentSize; s.whole && s.found != s.segment {
		t.Fatalf("segments of %d bytes, not %d", s.found, s.segment)
	}
	if info.MinOffset > info.MaxOffset || s.whole && info.MaxOffset < s.end {
		t.Fatalf("the log goes from %d to %d, the records to %d", info.MinOffset, info.MaxOffset, s.end)
	}
	s.checkRecords(t, store)
	queues, regular := s.queues()
	if whole := s.whole && regular; whole && (shape&logPart == 0 || shape&logQueues != 0) {
		s.checkQueues(t, store, queues, shape&logPart == 0)
	} else {
		s.checkAnyQueues(t, store)
	}
	s.checkKeys(t, store)
	if shape&logVerify == 0 {
		return
	}
	var found []*message.DamageError
	v, err := store.Verify(ctx, func(d *message.DamageError) {
		if found = append(found, d); !isDamage(d) {
			t.Fatalf("%v", d)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if v.Damage != int64(len(found)) || s.whole && v.Records != int64(len(s.walk)) {
		t.Fatalf("%+v, %d damages", v, len(found))
	}
	if s.whole && regular && len(found) > 0 && !slices.ContainsFunc(s.walk, func(m *made) bool { return !m.queued && m.off != 0 }) {
		t.Fatalf("a log without damage: %v", found)
	}
}

// is fails if a view is not of a sound record that lies where it says.
func (s *segmentStore) is(t *testing.T, v *message.View) *made {
	t.Helper()
	m := s.soundAt(v.PhysicalOffset())
	if m == nil || !bytes.Equal(m.raw, v.Raw()) {
		t.Fatalf("a record at %d that is not there", v.PhysicalOffset())
	}
	return m
}

// checkRecords reads all records in physical order.
func (s *segmentStore) checkRecords(t *testing.T, store *warmlog.Store) {
	t.Helper()
	at, n, damaged := int64(-1), 0, false
	for v, err := range store.Records(context.Background(), 0) {
		if err != nil {
			if !isDamage(err) || s.whole {
				t.Fatal(err)
			}
			damaged = true
			continue
		}
		if v.PhysicalOffset() < at {
			t.Fatalf("a record at %d after one that ends at %d", v.PhysicalOffset(), at)
		}
		m := s.is(t, v)
		at = m.pos + m.size()
		if !damaged && n < len(s.walk) && s.walk[n].pos != m.pos {
			t.Fatalf("record %d lies at %d, not %d", n, m.pos, s.walk[n].pos)
		}
		if got, _, err := store.Record(m.pos, nil); err != nil || !bytes.Equal(got.Raw(), m.raw) {
			t.Fatalf("record at %d: %v", m.pos, err)
		}
		if from, err := store.RecordAt(m.pos); err != nil || from != m.pos {
			t.Fatalf("the record at %d is said to begin at %d, %v", m.pos, from, err)
		}
		n++
	}
	if n < len(s.walk) || s.whole && n != len(s.walk) {
		t.Fatalf("%d records of %d", n, len(s.walk))
	}
}

// checkQueues checks that every message of a log without damage comes out, and no other.
func (s *segmentStore) checkQueues(t *testing.T, store *warmlog.Store, queues map[queueName][]*made, times bool) {
	t.Helper()
	for _, q := range store.Queues() { // directories of earlier inputs are still there
		if queues[queueName{q.Topic, q.ID}] == nil {
			if low, high, err := store.QueueBounds(context.Background(), q.Topic, q.ID); err != nil || low != high {
				t.Fatalf("%v has no message, but goes from %d to %d, %v", q, low, high, err)
			}
		}
	}
	l := madeLog{base: -1, queues: queues}
	l.base, _ = store.Bounds()
	l.end = s.end
	checkWhole(t, store, &l)
	if times { // how far the clock was set back is not known of what was not read
		checkTimes(t, store, &l)
	}
}

// checkAnyQueues checks that what comes out of any log is what was asked for.
func (s *segmentStore) checkAnyQueues(t *testing.T, store *warmlog.Store) {
	t.Helper()
	ctx := context.Background()
	var b getmessage.Batch
	defer b.Release()
	for _, q := range store.Queues() {
		low, high, err := store.QueueBounds(ctx, q.Topic, q.ID)
		if err != nil || low < 0 || high < low {
			t.Fatalf("%v: %d to %d, %v", q, low, high, err)
		}
		is := func(v *message.View, from, to int64) int64 {
			m := s.soundAt(v.PhysicalOffset())
			if m == nil || !bytes.Equal(m.raw, v.Raw()) {
				t.Fatalf("%v: a record at %d that is not there", q, v.PhysicalOffset())
			}
			if off := v.QueueOffset(); off >= from && off < to && v.Is(q.Topic, q.ID, off) {
				return off
			}
			for off := from; off < min(to, from+1<<20); off++ {
				if v.Is(q.Topic, q.ID, off) {
					return off
				}
			}
			t.Fatalf("%v: the record at %d is none of %d to %d", q, v.PhysicalOffset(), from, to)
			return 0
		}
		most := min(high, low+100)
		next := low
		for v, err := range store.Messages(ctx, q.Topic, q.ID, low) {
			if err != nil && !isDamage(err) {
				t.Fatalf("%v: %v", q, err)
			}
			if err == nil {
				next = is(v, next, high) + 1
			}
			if next >= most {
				break
			}
			if err != nil {
				next++
			}
		}
		for off := low; off < most; {
			if err := store.Get(ctx, &getmessage.Request{Topic: q.Topic, QueueID: q.ID, Offset: off, MaxMessages: 5}, &b); err != nil {
				if !isDamage(err) {
					t.Fatalf("%v at %d: %v", q, off, err)
				}
				off++
				continue
			}
			if b.NextOffset <= off || b.NextOffset > b.MaxOffset || (b.Status == getmessage.Found) != (len(b.Records()) > 0) {
				t.Fatalf("%v at %d: %v, next %d of %d, %d records", q, off, b.Status, b.NextOffset, b.MaxOffset, len(b.Records()))
			}
			at := off
			for i := range b.Records() {
				at = s.named(t, &b.Records()[i], q, at, b.NextOffset) + 1
			}
			off = b.NextOffset
		}
		for _, bound := range []consumequeue.Bound{consumequeue.Lower, consumequeue.Upper} {
			if off, err := store.OffsetByTime(ctx, q.Topic, q.ID, 1700000000000, bound); err != nil || off < low || off > high {
				t.Fatalf("%v: %d of %d to %d, %v", q, off, low, high, err)
			}
		}
	}
}

// named returns which of some offsets a record of a pull is for. Its body may be damaged:
// a pull compares no checksums.
func (s *segmentStore) named(t *testing.T, v *message.View, q consumequeue.Named, from, to int64) int64 {
	t.Helper()
	pos := v.PhysicalOffset()
	if b, _ := s.at(pos); len(b) < int(v.Size()) || !bytes.Equal(b[:v.Size()], v.Raw()) {
		t.Fatalf("%v: a record at %d that is not there", q, pos)
	}
	for off := from; off < to; off++ {
		if v.Is(q.Topic, q.ID, off) {
			return off
		}
	}
	t.Fatalf("%v: the record at %d is none of %d to %d", q, pos, from, to)
	return 0
}

// checkKeys asks for the keys of the first record that has any.
func (s *segmentStore) checkKeys(t *testing.T, store *warmlog.Store) {
	t.Helper()
	i := slices.IndexFunc(s.walk, func(m *made) bool { return len(m.keys) > 0 && m.topic != "" })
	if i < 0 {
		return
	}
	topic, key := s.walk[i].topic, s.walk[i].keys[0]
	var want []int64
	for _, m := range s.walk {
		if m.topic == topic && slices.Contains(m.keys, key) {
			want = append(want, m.pos)
		}
	}
	got, err := store.FindByKey(context.Background(), warmlog.KeyQuery{Topic: topic, Key: key, Max: 100, From: -1 << 63})
	if err != nil {
		t.Fatal(err)
	}
	for _, pos := range got.Offsets {
		if m := s.soundAt(pos); m == nil || m.topic != topic || !slices.Contains(m.keys, key) {
			t.Fatalf("the record at %d has no key %q", pos, key)
		}
	}
	if s.whole && !slices.Equal(got.Offsets, want) {
		t.Fatalf("%q: %v, want %v", key, got.Offsets, want)
	}
}
