package warmlog

import (
	"context"
	"errors"
	"iter"

	"github.com/warmlog/warmlog/commitlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/message"
)

// Messages reads a queue's messages in order, from an offset on (or from the first one that
// is left), to the end that the queue has now. Unlike Get it reads by system call into a
// buffer, touches no page of a mapping, and compares checksums.
//
// A view is valid until the next step. A damaged message is a *message.DamageError in place
// of a view, and the next ones follow; any other error is the last.
func (s *Store) Messages(ctx context.Context, topic string, id int32, from int64) iter.Seq2[*message.View, error] {
	return func(yield func(*message.View, error) bool) {
		q, err := s.queue(topic, id)
		if err != nil {
			yield(nil, err)
			return
		}
		low, high, err := q.Bounds(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		r := messageReader{store: s, ctx: ctx, q: q}
		for off := max(from, low); off < high; off++ {
			if next := min(q.Known(off), high); next-off > longestGap {
				// Numbers can be left out; naming each of a large stretch would never end.
				if !yield(nil, q.Damage(off, consumequeue.ErrEntry)) {
					return
				}
				off = next - 1
				continue
			}
			v, err := r.read(off)
			if errors.Is(err, commitlog.ErrGone) {
				continue // deleted meanwhile
			}
			if !yield(v, err) {
				return
			}
			var damage *message.DamageError
			if err != nil && !errors.As(err, &damage) {
				return
			}
		}
	}
}

// longestGap is how many messages in a row may be missing for each to be named.
const longestGap = 1 << 16

// messageReader reads the messages of one queue, with checks, by pread.
type messageReader struct {
	store *Store
	ctx   context.Context
	q     *consumequeue.Queue

	view       message.View
	buf        []byte // of the record
	entries    []byte // read ahead
	entriesOff int64  // offset of the first of them
}

// entriesAhead is how many queue entries are read at once.
const entriesAhead = 256

func (r *messageReader) entry(off int64) (consumequeue.Entry, error) {
	i := off - r.entriesOff
	if i < 0 || i >= int64(len(r.entries)/consumequeue.EntrySize) {
		b, err := r.q.Read(off, entriesAhead, r.entries)
		if err != nil {
			return consumequeue.Entry{}, err
		}
		r.entries, r.entriesOff, i = b, off, 0
	}
	if len(r.entries) < consumequeue.EntrySize {
		return consumequeue.Entry{}, nil // missing
	}
	return consumequeue.Decode(r.entries[i*consumequeue.EntrySize:]), nil
}

// read returns the message of an offset. Where the queue's entry does not lead to it, the
// log is asked.
func (r *messageReader) read(off int64) (*message.View, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	e, err := r.entry(off)
	if err != nil {
		return nil, err
	}
	cause := r.record(e, off)
	if cause == nil {
		return &r.view, nil
	}
	if !errors.Is(cause, ErrDamaged) || errors.Is(cause, message.ErrBodyCRC) || errors.Is(cause, message.ErrPropCRC) {
		return nil, cause // the entry is right
	}
	right, ok, err := r.q.Heal(r.ctx, off)
	if err != nil {
		return nil, err
	}
	if ok && right != e {
		if cause = r.record(right, off); cause == nil {
			return &r.view, nil
		}
	}
	return nil, cause
}

// record reads and checks the record of an entry.
func (r *messageReader) record(e consumequeue.Entry, off int64) error {
	max := r.store.log.Max()
	if !e.Real() || e.End() > max {
		if at, ok := e.Place(); ok && at < max {
			return r.store.log.Damage(at, consumequeue.ErrEntry)
		}
		return r.q.Damage(off, consumequeue.ErrEntry)
	}
	var err error
	if r.view, r.buf, err = r.store.log.ReadRecord(e.Offset, e.Size, r.buf); err != nil {
		return err
	}
	if !r.view.Is(r.q.Topic(), r.q.ID(), off) {
		return r.store.log.Damage(e.Offset, message.ErrOtherEntry)
	}
	if err := r.view.Check(); err != nil {
		return r.store.log.Damage(e.Offset, err)
	}
	return nil
}

// Records reads every record in physical order, from where one begins (or from the log's
// beginning), to the end that the log has now: also those that are in no queue. Buffer,
// checks and errors are as with [Store.Messages].
func (s *Store) Records(ctx context.Context, from int64) iter.Seq2[*message.View, error] {
	return func(yield func(*message.View, error) bool) {
		if s.closed.Load() {
			yield(nil, ErrClosed)
			return
		}
		stopped := errors.New("stopped")
		err := s.records(ctx, max(from, s.log.Min()), s.log.Max(), func(v *message.View, _ int64) error {
			if !yield(v, nil) {
				return stopped
			}
			return nil
		}, func(d *message.DamageError, _, _ int64) error {
			if !yield(nil, d) {
				return stopped
			}
			return nil
		})
		if err != nil && err != stopped {
			yield(nil, err)
		}
	}
}

// OffsetByTime searches a queue for a message by store time, ms since 1970. Lower is the
// first message stored at t or later, or the end of the queue; Upper the last one stored at
// t or earlier, or the first that is left. Both are what a linear scan of the queue finds,
// also where the clock was set back.
func (s *Store) OffsetByTime(ctx context.Context, topic string, id int32, t int64, bound consumequeue.Bound) (int64, error) {
	q, err := s.queue(topic, id)
	if err != nil {
		return 0, err
	}
	var buf []byte
	return q.OffsetByTime(ctx, t, bound, consumequeue.Disorder(s.disorder.Load()), func(e consumequeue.Entry) (int64, bool) {
		v, b, err := s.log.ReadRecord(e.Offset, e.Size, buf)
		buf = b
		if err != nil {
			return 0, false
		}
		return v.StoreTimestamp(), true
	})
}
