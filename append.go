package warmlog

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/warmlog/warmlog/commitlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/message"
)

var (
	// ErrReadOnly says that the store was opened for reading.
	ErrReadOnly = errors.New("the store is open for reading only")

	// ErrInvalid says that a message cannot be stored as it is. Nothing was written.
	ErrInvalid = message.ErrInvalid

	// ErrFailed says that the store takes no more messages until it is opened again: a write
	// or sync failed, and bytes that were to be on disk may not be. Reads go on.
	ErrFailed = commitlog.ErrFailed

	// ErrNoSpace says that the disk has no room for a message. Nothing was written.
	ErrNoSpace = commitlog.ErrNoSpace

	// ErrBusy says that more waits for the disk than Options.MaxUnsynced: it is too slow for
	// what is appended. Nothing was written; a later append may succeed.
	ErrBusy = errors.New("the disk is too slow for what is appended")
)

// Durability is what a message survives when its append returns.
type Durability uint8

const (
	// StoreDefault is what the store was opened with.
	StoreDefault Durability = iota
	// Written survives the death of the process, however it ends. In a store that is opened
	// with it consumers see a message when it is written. A power cut can take back what they
	// saw: their offsets are given to other messages then, and a pull above the end of the
	// queue is answered by getmessage.OffsetOverflowBadly until these have come so far.
	Written
	// Flushed survives a power cut. In a store that is opened with it consumers see nothing,
	// by offset, by key or in the log, before it is on the disk.
	Flushed
)

// Appended says where a message was put.
type Appended struct {
	QueueOffset    int64
	PhysicalOffset int64
	Size           int32 // bytes of the record
	StoreTimestamp int64 // ms since 1970
}

// Append appends a message and returns when it has the store's durability.
//
// A message that is refused ([ErrInvalid], [ErrNoSpace], [ErrBusy], [ErrFailed], [ErrClosed]) uses up
// nothing: no byte, no offset. An error of ctx comes with the place of the message: it is
// in the log, and may become durable and visible all the same.
func (s *Store) Append(ctx context.Context, m *message.Message) (Appended, error) {
	return s.AppendWith(ctx, m, StoreDefault)
}

// AppendWith is [Store.Append] with a durability of its own. In a store whose default is
// Flushed every message is flushed.
func (s *Store) AppendWith(ctx context.Context, m *message.Message, d Durability) (Appended, error) {
	b := batches.Get().(*appendBatch)
	defer b.giveBack()
	if err := s.put(ctx, b, nil, m); err != nil {
		return Appended{}, err
	}
	return b.result(0), s.settle(ctx, b.end(), d)
}

// AppendAll appends messages, one behind the other, and returns when all have a durability.
// All of them are appended or none; together they take less than a segment.
func (s *Store) AppendAll(ctx context.Context, ms []*message.Message, d Durability) ([]Appended, error) {
	b := batches.Get().(*appendBatch)
	defer b.giveBack()
	if err := s.put(ctx, b, nil, ms...); err != nil || len(ms) == 0 {
		return nil, err
	}
	all := make([]Appended, len(ms))
	for i := range all {
		all[i] = b.result(i)
	}
	return all, s.settle(ctx, b.end(), d)
}

// AppendAsync appends a message and calls done when it has a durability, or with the error.
// It waits for no disk, so that one producer keeps thousands of messages in flight, as long as
// those in flight take less than 64 MiB.
//
// What need not be waited for (a refusal, and in a Written store a Written message) is told by
// this goroutine before AppendAsync returns; what is flushed is told by a goroutine of the
// store, one after the other, in the order in which the messages came here. done must not
// block.
func (s *Store) AppendAsync(m *message.Message, d Durability, done func(Appended, error)) {
	b := batches.Get().(*appendBatch)
	defer b.giveBack()
	waits, many := false, false
	err := s.put(context.Background(), b, func() { // before Close takes what waits
		if waits = s.w.flushes(d); waits {
			many = s.w.acks.add(ack{b.end(), b.result(0), done})
		}
	}, m)
	switch {
	case err != nil:
		done(Appended{}, err)
	case !waits:
		done(b.result(0), nil)
	case many: // what fails is told by done
		_ = s.w.appender.Commit(context.Background(), b.end())
	}
}

// appendBatch are messages on their way into the log.
type appendBatch struct {
	buf     []byte // their records
	ends    []int  // of each in buf
	records []commitlog.Placed
	queues  []*consumequeue.Queue
}

var batches = sync.Pool{New: func() any { return new(appendBatch) }}

// mostKept is how large a buffer may be that is kept for another append.
const mostKept = 1 << 20

func (b *appendBatch) giveBack() {
	if cap(b.buf) > mostKept || cap(b.records) > mostKept/64 {
		return
	}
	clear(b.records)
	clear(b.queues)
	b.buf, b.ends, b.records, b.queues = b.buf[:0], b.ends[:0], b.records[:0], b.queues[:0]
	batches.Put(b)
}

func (b *appendBatch) result(i int) Appended {
	p := &b.records[i]
	return Appended{p.QueueOffset, p.Offset, int32(len(p.Record)), p.StoreTime}
}

// end returns the physical offset behind the last message that was placed.
func (b *appendBatch) end() int64 { return b.records[len(b.records)-1].End() }

// enter begins a change of the store, which Close waits for: the caller ends it by
// writer.using.RUnlock.
func (s *Store) enter() error {
	if s.w == nil {
		return ErrReadOnly
	}
	s.w.using.RLock()
	if s.closed.Load() {
		s.w.using.RUnlock()
		return ErrClosed
	}
	return nil
}

// put places messages and calls then, if not nil, before a Close can begin to end the store.
func (s *Store) put(ctx context.Context, b *appendBatch, then func(), ms ...*message.Message) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.w.using.RUnlock() // also while a panic passes through: the clock's
	err := s.place(ctx, b, ms...)
	if err == nil && then != nil {
		then()
	}
	return err
}

// place puts messages into the log. The caller has entered.
func (s *Store) place(ctx context.Context, b *appendBatch, ms ...*message.Message) error {
	if s.Role() != getmessage.Master {
		return fmt.Errorf("%w: it is a slave", ErrRole)
	}
	if err := s.accepts(); err != nil {
		return err
	}
	if err := s.busy(); err != nil {
		return err
	}
	now := s.options.Clock().UnixMilli()
	for _, m := range ms {
		if err := s.encode(ctx, b, m, now); err != nil {
			return mapfile.Explained(err)
		}
	}
	from := 0
	for i, q := range b.queues { // now that the buffer stays where it is
		p := commitlog.Placed{Record: b.buf[from:b.ends[i]]}
		if q != nil {
			p.Next = q.Next()
		}
		b.records, from = append(b.records, p), b.ends[i]
	}
	err := s.w.appender.Append(b.records, now)
	// Segments that are full and wait to be synced have descriptors: at a limit, and only there,
	// an append waits for that.
	if mapfile.AtLimit(err) && s.w.appender.Commit(ctx, s.w.appender.End()) == nil {
		err = s.w.appender.Append(b.records, now)
	}
	if err = s.noteRoom(int64(len(b.buf)), err); err != nil {
		if errors.Is(err, commitlog.ErrTooLarge) {
			err = fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		return fmt.Errorf("append to %s/%d: %w", ms[0].Topic, ms[0].QueueID, mapfile.Explained(err))
	}
	for _, q := range b.queues {
		if q != nil {
			q.SetExists()
		}
	}
	return nil
}

// accepts returns why the log takes nothing more for now, nil if it does.
func (s *Store) accepts() error {
	if err := s.w.failure(); err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, err) // nobody would see the message
	}
	if err := s.w.conditions.refuses.Load(); err != nil {
		return *err
	}
	return nil
}

// busy refuses what would wait for the disk beside too much else, and has what waits synced
// before it comes to that.
func (s *Store) busy() error {
	most := s.options.MaxUnsynced
	if most == 0 {
		return nil
	}
	a := s.w.appender
	waits := a.End() - a.Durable()
	if waits > most/4 {
		select {
		case s.w.early <- struct{}{}:
		default:
		}
	}
	if waits > most {
		return fmt.Errorf("%w: %d bytes wait for it", ErrBusy, waits)
	}
	return nil
}

// encode appends a message's record to a batch.
func (s *Store) encode(ctx context.Context, b *appendBatch, m *message.Message, now int64) error {
	if err := m.Validate(s.options.RecordCRC); err != nil {
		return err
	}
	if n := len(m.Body); n > s.options.MaxBody {
		return fmt.Errorf("%w: body has %d bytes, limit %d", ErrInvalid, n, s.options.MaxBody)
	}
	given := *m
	if given.BornTimestamp == 0 {
		given.BornTimestamp = now
	}
	if !given.BornHost.IsValid() {
		given.BornHost = s.options.StoreHost
	}
	from := len(b.buf)
	b.buf = message.AppendRecord(b.buf, &given, s.options.StoreHost, s.options.RecordCRC)
	if size := int64(len(b.buf) - from); size+message.BlankSize > s.log.SegmentSize() {
		return fmt.Errorf("%w: a record of %d bytes, segments of %d", ErrInvalid, size, s.log.SegmentSize())
	}
	var q *consumequeue.Queue
	if t := m.SysFlag & message.SysFlagTransactionMask; t == 0 || t == message.SysFlagCommit {
		var err error
		if q, err = s.writable(ctx, m.Topic, m.QueueID); err != nil {
			return err
		}
	}
	b.ends = append(b.ends, len(b.buf))
	b.queues = append(b.queues, q)
	return nil
}

// writable returns a queue of which the next offset is known.
func (s *Store) writable(ctx context.Context, topic string, id int32) (*consumequeue.Queue, error) {
	q := s.queues.Get(topic, id)
	if q == nil {
		q = s.addQueue(topic, id)
	}
	if q.Numbered() {
		return q, nil
	}
	// Nobody appends to it before its numbering is known, so that its end stays where it is.
	_, end, err := q.Bounds(ctx)
	if err != nil {
		return nil, fmt.Errorf("append to %s/%d: %w", topic, id, err)
	}
	s.w.appender.Lock()
	defer s.w.appender.Unlock()
	q.StartNext(end)
	return q, nil
}

// settle returns when the log has a durability up to a physical offset.
func (s *Store) settle(ctx context.Context, end int64, d Durability) error {
	if !s.w.flushes(d) {
		return nil
	}
	if err := s.w.appender.Commit(ctx, end); err != nil {
		return fmt.Errorf("flush up to %d: %w", end, err)
	}
	return nil
}

// ack is an asynchronous append that waits to be durable.
type ack struct {
	end  int64
	at   Appended
	done func(Appended, error)
}

// acks calls back what became durable.
type acks struct {
	mu      sync.Mutex
	waiting []ack // in the order they were added; guarded by mu
	bytes   int64 // of their records; guarded by mu
	wake    chan struct{}
}

// add reports whether so much waits that the producer has to wait, too.
func (a *acks) add(one ack) (many bool) {
	a.mu.Lock()
	a.waiting = append(a.waiting, one)
	a.bytes += int64(one.at.Size)
	many = a.bytes > mostWaiting
	first := len(a.waiting) == 1
	a.mu.Unlock()
	if first {
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
	return many
}

// mostWaiting bounds the bytes that wait to be flushed.
const mostWaiting = 64 << 20

// run commits and calls back until ctx ends.
func (a *acks) run(ctx context.Context, w *writer) {
	for {
		select {
		case <-a.wake:
		case <-ctx.Done():
			return
		}
		a.settle(w)
	}
}

// settle commits all that waits. Two producers can have added theirs in another order than
// that of the log: each is called back in the order of adding.
func (a *acks) settle(w *writer) {
	for {
		a.mu.Lock()
		waiting := a.waiting
		a.waiting, a.bytes = nil, 0
		a.mu.Unlock()
		if len(waiting) == 0 {
			return
		}
		end := int64(0)
		for i := range waiting {
			end = max(end, waiting[i].end)
		}
		err := w.appender.Commit(context.Background(), end)
		for _, one := range waiting {
			one.done(one.at, err)
		}
	}
}
