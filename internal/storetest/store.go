package storetest

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

// Options shape a store. The zero value of a field means its default.
type Options struct {
	SegmentSize   int64 // bytes; 0: 64 KiB
	QueueFileSize int64 // bytes; 0: RocketMQ's 6,000,000
	// Begin is the physical offset of the first segment, a multiple of SegmentSize.
	Begin int64
	// WithCRC ends every record with a checksum over all of it.
	WithCRC bool
	// Index is the layout of index files. The zero Layout: no index.
	Index keyindex.Layout
	// Premake makes the segment after the one in use, as RocketMQ's allocator does.
	Premake bool
	// Pieces, if not 0, writes the log in so many bytes at a time, so that who reads meanwhile
	// sees records of which only a part is there, as a reader beside a broker may.
	Pieces int
	// Time is the store time of the first message, ms since 1970; 0: 1700000000000.
	Time int64
}

// Record says where a message was put.
type Record struct {
	Topic       string
	QueueID     int32
	QueueOffset int64
	Offset      int64 // physical
	Size        int32
	Time        int64 // of storing, ms since 1970
}

// End returns the physical offset behind the record.
func (r Record) End() int64 { return r.Offset + int64(r.Size) }

// Host is the born and store host of all messages.
var Host = netip.MustParseAddrPort("10.0.0.1:10911")

// Store is a store that is being written.
type Store struct {
	Paths layout.Store
	// Time is the store time of the next message, ms since 1970. Each message adds 1 ms.
	Time int64

	t       testing.TB
	options Options
	log     segments
	queues  map[queueName]*queue
	dirty   []*queue // have entries that are not on disk
	last    int64    // store time of the newest message
	index   *keyindex.Builder
	indexes []*indexFile
	rec     []byte
}

type queueName struct {
	topic string
	id    int32
}

// New begins a store in a directory, which is made if it does not exist.
func New(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	if o.SegmentSize == 0 {
		o.SegmentSize = 64 << 10
	}
	if o.QueueFileSize == 0 {
		o.QueueFileSize = consumequeue.DefaultFileSize
	}
	if o.Time == 0 {
		o.Time = 1700000000000
	}
	if o.Begin%o.SegmentSize != 0 || o.QueueFileSize%consumequeue.EntrySize != 0 {
		t.Fatalf("storetest: begin %d, segments of %d bytes, queue files of %d", o.Begin, o.SegmentSize, o.QueueFileSize)
	}
	s := &Store{Paths: layout.Store(dir), Time: o.Time, t: t, options: o, queues: map[queueName]*queue{}}
	s.log = segments{dir: s.Paths.CommitLog(), size: o.SegmentSize, pos: o.Begin, premake: o.Premake, pieces: o.Pieces}
	s.check(os.MkdirAll(s.Paths.CommitLog(), 0o755))
	s.check(os.MkdirAll(s.Paths.ConsumeQueue(), 0o755))
	return s
}

// Dir returns the store's directory.
func (s *Store) Dir() string { return string(s.Paths) }

// Put appends a message: its record at the next place in the log, after a blank where it
// does not fit, its queue entry and its keys.
func (s *Store) Put(m *message.Message) Record {
	q := s.queue(m.Topic, m.QueueID)
	s.rec = s.encode(s.rec[:0], m)
	if n := int64(len(s.rec)); n+message.BlankSize > s.log.left() {
		if n+message.BlankSize > s.log.size {
			s.t.Fatalf("storetest: a record of %d bytes in segments of %d", n, s.log.size)
		}
		s.Blank()
	}
	r := Record{Topic: m.Topic, QueueID: m.QueueID, Offset: s.log.pos, Size: int32(len(s.rec)), Time: s.Time}
	transaction := m.SysFlag & message.SysFlagTransactionMask
	queued := transaction == 0 || transaction == message.SysFlagCommit
	if queued {
		r.QueueOffset = q.next
	}
	message.Stamp(s.rec, r.QueueOffset, r.Offset, r.Time, s.options.WithCRC)
	s.check(s.log.write(s.rec))
	v, err := message.Decode(s.rec)
	s.check(err)
	if queued {
		s.entry(q, consumequeue.EntryOf(&v, r.Offset))
	}
	s.keys(&v, r)
	s.last = max(s.last, r.Time)
	s.Time++
	return r
}

// Encode returns the record of a message for any place, for bytes that are left over from
// another life of the log. Give them to [Store.Raw] or write them oneself.
func (s *Store) Encode(m *message.Message, queueOffset, physicalOffset, storeTime int64) []byte {
	rec := s.encode(nil, m)
	message.Stamp(rec, queueOffset, physicalOffset, storeTime, s.options.WithCRC)
	return rec
}

func (s *Store) encode(dst []byte, m *message.Message) []byte {
	if !m.BornHost.IsValid() {
		given := *m
		given.BornHost, given.BornTimestamp = Host, s.Time
		m = &given
	}
	return message.AppendRecord(dst, m, Host, s.options.WithCRC)
}

// Pos returns the physical offset of the next record, if it fits.
func (s *Store) Pos() int64 { return s.log.pos }

// Left returns the bytes of the segment in use that are not used up.
func (s *Store) Left() int64 { return s.log.left() }

// Blank fills the rest of the segment with a blank: at least 8 bytes must be left.
func (s *Store) Blank() {
	s.t.Helper()
	left := s.log.left()
	if left < message.BlankSize {
		s.t.Fatalf("storetest: %d bytes left for a blank", left)
	}
	var b [message.BlankSize]byte
	message.PutBlank(b[:], int32(left))
	s.check(s.log.write(b[:]))
	s.check(s.log.skip(left - message.BlankSize))
}

// Raw appends bytes to the log as they are. They must fit into the segment.
func (s *Store) Raw(b []byte) {
	s.t.Helper()
	if int64(len(b)) > s.log.left() {
		s.t.Fatalf("storetest: %d bytes, %d left", len(b), s.log.left())
	}
	s.check(s.log.write(b))
}

// Skip leaves bytes of the log as they are: zero, a hole in the file.
func (s *Store) Skip(n int64) { s.check(s.log.skip(n)) }

// StartQueue makes a queue's numbering begin at an offset. The head of its first file is
// filled as RocketMQ does. It must be called before the queue's first message.
func (s *Store) StartQueue(topic string, id int32, offset int64) {
	q := s.queue(topic, id)
	per := s.options.QueueFileSize / consumequeue.EntrySize
	q.next = offset
	q.written = offset - offset%per
	for range offset % per {
		q.pending = consumequeue.Filler.AppendTo(q.pending)
	}
	s.touch(q)
}

// Renumber makes a queue go on at another offset without writing anything: a gap, or the
// second life of a topic that was deleted.
func (s *Store) Renumber(topic string, id int32, offset int64) {
	s.Flush()
	q := s.queue(topic, id)
	q.next, q.written = offset, offset
}

// Next returns the offset of a queue's next message.
func (s *Store) Next(topic string, id int32) int64 { return s.queue(topic, id).next }

// Entry appends an entry to a queue that no record was put for.
func (s *Store) Entry(topic string, id int32, e consumequeue.Entry) { s.entry(s.queue(topic, id), e) }

func (s *Store) entry(q *queue, e consumequeue.Entry) {
	q.pending = e.AppendTo(q.pending)
	q.next++
	s.touch(q)
}

func (s *Store) touch(q *queue) {
	if !q.dirty {
		q.dirty = true
		s.dirty = append(s.dirty, q)
	}
}

func (s *Store) queue(topic string, id int32) *queue {
	name := queueName{topic, id}
	q := s.queues[name]
	if q == nil {
		q = &queue{dir: consumequeue.Dir(s.Paths.ConsumeQueue(), topic, id), size: s.options.QueueFileSize}
		s.queues[name] = q
	}
	return q
}

// Segment returns the file that holds a physical offset and the byte of it there.
func (s *Store) Segment(off int64) (path string, at int64) {
	at = off % s.options.SegmentSize
	return filepath.Join(s.Paths.CommitLog(), layout.FileName(off-at)), at
}

// QueueFile returns the file that holds the entry of a queue offset and the byte of it there.
func (s *Store) QueueFile(topic string, id int32, off int64) (path string, at int64) {
	pos := off * consumequeue.EntrySize
	at = pos % s.options.QueueFileSize
	return filepath.Join(consumequeue.Dir(s.Paths.ConsumeQueue(), topic, id), layout.FileName(pos-at)), at
}

// IndexFiles returns the index files, the oldest first.
func (s *Store) IndexFiles() []string {
	var all []string
	for _, f := range s.indexes {
		all = append(all, f.path)
	}
	return all
}

// FlushLog writes the log, but neither queues nor index: dispatch that is behind.
func (s *Store) FlushLog() { s.check(s.log.flush()) }

// Flush writes what was put, in the order of a broker: log, queues, index.
func (s *Store) Flush() {
	s.t.Helper()
	s.FlushLog()
	for _, q := range s.dirty {
		s.check(q.flush())
	}
	s.dirty = s.dirty[:0]
	for _, f := range s.indexes {
		s.check(f.flush())
	}
}

// Drop forgets the queue entries that were not yet flushed: dispatch that never came.
func (s *Store) Drop() {
	for _, q := range s.dirty {
		q.written += int64(len(q.pending) / consumequeue.EntrySize)
		q.pending, q.dirty = q.pending[:0], false
	}
	s.dirty = s.dirty[:0]
}

// Close leaves the store as a broker that was stopped in order does.
func (s *Store) Close() {
	s.t.Helper()
	s.Flush()
	s.check(s.log.close())
	indexed := int64(0)
	for _, f := range s.indexes {
		if h := f.builder.Header(); h.Count >= s.options.Index.Entries {
			indexed = h.EndTimestamp
		}
	}
	s.Checkpoint(layout.Checkpoint{PhysicTime: s.last, LogicsTime: s.last, IndexTime: indexed})
}

// Kill leaves the store as a broker that was killed does: with an abort file, which holds
// the pid of nobody.
func (s *Store) Kill() {
	s.t.Helper()
	s.Close()
	s.check(os.WriteFile(s.Paths.Abort(), []byte("4194305"), 0o644)) // above the kernel's highest pid
}

// Checkpoint writes the checkpoint.
func (s *Store) Checkpoint(c layout.Checkpoint) {
	s.t.Helper()
	b := make([]byte, 0, 4096)
	for _, field := range []int64{c.PhysicTime, c.LogicsTime, c.IndexTime, c.MasterFlushed, c.ConfirmOffset, c.LogicsOffset} {
		b = binary.BigEndian.AppendUint64(b, uint64(field))
	}
	s.check(os.WriteFile(s.Paths.Checkpoint(), b[:4096], 0o644))
}

// keys gives the keys of a record to the index.
func (s *Store) keys(v *message.View, r Record) {
	if s.options.Index.Entries == 0 || v.Transaction() == message.SysFlagRollback {
		return
	}
	for _, hash := range keyindex.KeyHashes(nil, v, false) {
		if s.index == nil || !s.index.Add(hash, r.Offset, r.Time) {
			s.rollIndex(r.Time)
			s.index.Add(hash, r.Offset, r.Time)
		}
		s.indexes[len(s.indexes)-1].dirty = true
	}
}

func (s *Store) rollIndex(now int64) {
	var prev *keyindex.Header
	if s.index != nil {
		h := s.index.Header()
		prev = &h
	}
	s.index = keyindex.NewBuilder(s.options.Index, prev)
	at := time.UnixMilli(now)
	name := keyindex.FileName(at)
	for n := len(s.indexes); n > 0 && filepath.Base(s.indexes[n-1].path) >= name; {
		at = at.Add(time.Millisecond) // several full ones within one ms, or a clock that was set back
		name = keyindex.FileName(at)
	}
	s.indexes = append(s.indexes, &indexFile{path: filepath.Join(s.Paths.Index(), name), builder: s.index})
}

func (s *Store) check(err error) {
	if err != nil {
		s.t.Helper()
		s.t.Fatal(fmt.Errorf("storetest: %w", err))
	}
}
