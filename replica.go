package warmlog

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/warmlog/warmlog/commitlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/mapfile"
)

var (
	// ErrRole says that the store's role does not allow what was asked for: a slave takes no
	// messages but its master's, a master takes no other store's.
	ErrRole = errors.New("not in this role")

	// ErrDiscontinuous says that another store's bytes do not continue this log.
	ErrDiscontinuous = commitlog.ErrDiscontinuous
)

// Role returns the part that the store plays.
func (s *Store) Role() getmessage.Role { return s.reader.Role() }

// SetRole changes the part that the store plays. It waits until what is being appended is in
// the log and on disk. A slave that becomes a master shows all that it has, whatever its
// [Store.SetVisibleLimit] was, and numbers on where its queues end.
func (s *Store) SetRole(ctx context.Context, role getmessage.Role) error {
	if role != getmessage.Master && role != getmessage.Slave {
		return fmt.Errorf("role is %d", role)
	}
	if s.w == nil {
		return ErrReadOnly
	}
	s.w.using.Lock()
	defer s.w.using.Unlock()
	if s.closed.Load() {
		return ErrClosed
	}
	if role == s.Role() {
		return nil
	}
	if err := s.w.appender.Commit(ctx, s.w.appender.End()); err != nil {
		return err
	}
	if role == getmessage.Master {
		s.w.appender.SetLimit(math.MaxInt64)
		if err := s.w.dispatch.wait(ctx, s.log.Max()); err != nil {
			return err
		}
		if err := s.renumber(ctx); err != nil {
			return err
		}
	}
	s.reader.SetRole(role)
	s.waiters.WakeAll(getmessage.Changed)
	return nil
}

// renumber lets the numbering of queues go on where they end. Nothing is appended meanwhile.
func (s *Store) renumber(ctx context.Context) error {
	s.w.appender.Lock()
	defer s.w.appender.Unlock()
	for q := range s.queues.Each {
		if !q.Numbered() {
			continue
		}
		_, end, err := q.Bounds(ctx)
		if err != nil {
			return err
		}
		*q.Next() = end
	}
	return nil
}

// AppendRaw appends a part of a master's log to a slave's, byte for byte: whole records, each
// sound and at its place, and whole blanks, that continue this log at a physical offset. A log
// that has nothing yet begins where the first bytes belong, at the beginning of a segment.
// It returns when they have the store's durability; readers see them up to
// [Store.SetVisibleLimit].
//
// What is not right is refused as a whole, with the physical offset where it is not:
// [ErrDiscontinuous], or a [ErrDamaged]. After [ErrNoSpace] a part may be in the log:
// [Stats].Written says how much. It is called by one goroutine at a time.
func (s *Store) AppendRaw(ctx context.Context, off int64, b []byte) error {
	if err := s.appendRaw(off, b); err != nil {
		return fmt.Errorf("append of %d raw bytes: %w", len(b), err)
	}
	return s.settle(ctx, off+int64(len(b)), StoreDefault)
}

func (s *Store) appendRaw(off int64, b []byte) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.w.using.RUnlock()
	if s.Role() != getmessage.Slave {
		return fmt.Errorf("%w: it is the master", ErrRole)
	}
	if err := s.accepts(); err != nil {
		return err
	}
	s.w.replica.Store(true)
	return mapfile.Explained(s.noteRoom(int64(len(b)), s.w.appender.AppendRaw(off, b)))
}

// ReadRaw reads a part of the log as it is written, visible or not: up to len(b) bytes from a
// physical offset on, of one segment, by system call. They may end within a record. It
// returns 0 at the end of what is written: see [Store.WaitRaw]. The error is [ErrGone] below
// the log, [ErrBeyond] above it.
func (s *Store) ReadRaw(off int64, b []byte) (int, error) {
	if s.closed.Load() {
		return 0, ErrClosed
	}
	if s.w == nil {
		return 0, ErrReadOnly
	}
	return s.w.appender.Raw(off, b)
}

// WaitRaw returns when the log is written beyond a physical offset, with where it ends; with
// [ErrBeyond] when it was cut below that offset; with [ErrClosed] when the store closes.
func (s *Store) WaitRaw(ctx context.Context, off int64) (end int64, err error) {
	if s.w == nil {
		return 0, ErrReadOnly
	}
	a := s.w.appender
	err = a.Wait(ctx, func() bool { return a.Written() != off || s.closed.Load() })
	switch end = a.Written(); {
	case err != nil:
	case s.closed.Load():
		err = ErrClosed
	case end < off:
		err = ErrBeyond
	}
	return end, err
}

// Flush returns when the log is on disk up to a physical offset, or to its end if that is
// lower.
func (s *Store) Flush(ctx context.Context, to int64) error {
	if s.w == nil {
		return ErrReadOnly
	}
	return s.settle(ctx, to, Flushed)
}

// SetVisibleLimit says up to which physical offset consumers may see the log at the most: what
// enough replicas hold, or what the master shows. It may lie within a record, which then is
// not seen. What was visible stays so, and what Open found is visible. Math.MaxInt64, as at
// first, limits nothing.
func (s *Store) SetVisibleLimit(off int64) error {
	if s.w == nil {
		return ErrReadOnly
	}
	s.w.appender.SetLimit(off)
	return nil
}

// ApplyDeletions deletes on a slave the queues that its master has deleted: it is called
// with them when this log has everything below their positions, and before more is appended.
// It returns when they are noted on disk; the queues are cleared in the order of the log.
func (s *Store) ApplyDeletions(list []Deletion) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.w.using.RUnlock()
	if s.Role() != getmessage.Slave {
		return fmt.Errorf("%w: it is the master", ErrRole)
	}
	for _, one := range list {
		if one.Topic == "" || one.QueueID < 0 {
			return fmt.Errorf("%w: deletion of %q/%d", ErrInvalid, one.Topic, one.QueueID)
		}
		if end := s.w.appender.End(); one.Position != end {
			return fmt.Errorf("%w: deletion of %s/%d at %d, the log ends at %d", ErrDiscontinuous, one.Topic, one.QueueID, one.Position, end)
		}
	}
	s.w.appender.Lock()
	err := s.deleted.add(s.paths.Deleted(), s.paths.Temp(), list, s.log.Min())
	s.w.appender.Unlock()
	if err != nil {
		return fmt.Errorf("delete queues: %w", err)
	}
	for _, one := range list {
		if q := s.queues.Get(one.Topic, one.QueueID); q != nil {
			s.w.dispatch.clearAt(one.Position, []*consumequeue.Queue{q})
		}
		s.options.Deleted(one)
	}
	return nil
}
