package warmlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/internal/wake"
	"github.com/warmlog/warmlog/message"
)

// delivery gives the records that became visible to their queues and the index, in the order
// of the log. One goroutine does so; it follows the visible position.
type delivery struct {
	store *Store
	// pos is the physical offset up to which everything was delivered. Stored with the
	// index's mu held.
	pos atomic.Int64
	// done is told when something was delivered or cleared, or failed.
	done wake.Point

	mu    sync.Mutex
	dirty []*consumequeue.Queue // have entries that are only in memory; guarded by mu
	// clear are queues that were deleted, in the order of the log. Guarded by mu.
	clear []clearing

	// Of the goroutine: consecutive entries of one queue that were not yet given to it.
	queue   *consumequeue.Queue
	first   int64
	entries []byte
	view    message.View // of the record at hand: a local one would be allocated for each
	// touched are the queues that got entries since the last notification.
	touched []*consumequeue.Queue
	// stall is why nothing is delivered for now, nil if it goes on. Stored by the goroutine.
	stall atomic.Pointer[error]
	// last is the store time and place of the newest record delivered.
	lastTime, lastPos atomic.Int64
}

// clearing are queues to be cleared when everything below a position was delivered.
type clearing struct {
	pos    int64
	queues []*consumequeue.Queue
}

// clearAt lets queues be cleared at a position. It is called in the order of positions.
func (d *delivery) clearAt(pos int64, queues []*consumequeue.Queue) {
	d.mu.Lock()
	d.clear = append(d.clear, clearing{pos, queues})
	d.mu.Unlock()
	d.store.w.appender.Wake()
}

// nextClear returns the position of the next clearing, or to if there is none below it; the
// clearing itself, if everything below its position was delivered.
func (d *delivery) nextClear(from, to int64) (pos int64, due *clearing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.clear) == 0 {
		return to, nil
	}
	first := d.clear[0]
	if first.pos <= from {
		return first.pos, &first
	}
	return min(to, first.pos), nil
}

func newDelivery(s *Store, from int64) *delivery {
	d := &delivery{store: s}
	d.pos.Store(from)
	return d
}

// stallRetry is how often delivery is tried again that found no descriptor or mapping.
const stallRetry = 50 * time.Millisecond

// run delivers until ctx ends, and then what is visible.
func (d *delivery) run(ctx context.Context) {
	for {
		for d.step() {
		}
		if d.stalled() != nil {
			select {
			case <-time.After(stallRetry):
				continue
			case <-ctx.Done():
				d.step()
				return
			}
		}
		if d.store.w.appender.Wait(ctx, d.pending) != nil {
			for d.step() {
			}
			return
		}
	}
}

// pending reports whether step has something to do.
func (d *delivery) pending() bool {
	if d.store.w.failure() != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.clear) > 0 && d.clear[0].pos <= d.pos.Load() || d.pos.Load() < d.store.log.Max()
}

// step delivers what is visible, and reports whether there was something.
func (d *delivery) step() bool {
	if d.store.w.failure() != nil {
		return false
	}
	x := d.store.w.index
	x.mu.Lock()
	// A log without segments can begin anywhere.
	from := max(d.pos.Load(), d.store.log.Min())
	to, due := d.nextClear(from, d.store.log.Max())
	if due != nil {
		x.mu.Unlock()
		return d.clearQueues(due)
	}
	if from >= to {
		x.mu.Unlock()
		return false
	}
	end, err := d.read(from, to)
	err = errors.Join(err, d.give())
	d.pos.Store(end)
	x.mu.Unlock()
	for i, q := range d.touched {
		d.touched[i] = nil
		_, high, _ := q.Bounds(context.Background())
		d.store.options.Visible(q.Topic(), q.ID(), high)
	}
	d.touched = d.touched[:0]
	if mapfile.AtLimit(err) {
		// Nothing is lost, and it is tried again.
		err = mapfile.Explained(err)
		d.stall.Store(&err)
		d.store.condition(true, Condition{Name: DispatchWaits, Err: err})
		return false
	}
	if d.stalled() != nil {
		d.stall.Store(nil)
		d.store.condition(false, Condition{Name: DispatchWaits})
	}
	if err != nil {
		d.store.fail(fmt.Errorf("dispatch at %d: %w", end, err))
	}
	d.done.Changed()
	return err == nil
}

// stalled returns why nothing is delivered for now, nil if it goes on.
func (d *delivery) stalled() error {
	if err := d.stall.Load(); err != nil {
		return *err
	}
	return nil
}

// clearQueues clears the queues of the first clearing.
func (d *delivery) clearQueues(c *clearing) bool {
	for _, q := range c.queues {
		if err := q.Clear(); err != nil {
			d.store.fail(fmt.Errorf("delete %s/%d: %w", q.Topic(), q.ID(), err))
			continue
		}
		d.store.waiters.Wake(q.Topic(), q.ID(), getmessage.Deleted)
	}
	d.mu.Lock()
	d.clear = d.clear[1:]
	d.mu.Unlock()
	d.done.Changed()
	return true
}

// wait returns when everything below a visible physical offset was delivered, or was cut off.
func (d *delivery) wait(ctx context.Context, to int64) error {
	return d.until(ctx, func() bool { return d.pos.Load() >= min(to, d.store.log.Max()) })
}

// waitDeleted returns when no clearing up to a position is left.
func (d *delivery) waitDeleted(ctx context.Context, pos int64) error {
	return d.until(ctx, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.clear) == 0 || d.clear[0].pos > pos
	})
}

// until returns when the delivery has come so far that reached is true, or has failed.
func (d *delivery) until(ctx context.Context, reached func() bool) error {
	failed := func() bool { return d.store.w.failure() != nil }
	if err := d.done.Wait(ctx, func() bool { return reached() || failed() }); err != nil || reached() {
		return err
	}
	return d.store.w.failure()
}

// back takes the delivery back to where the log was cut. The index's mu is held.
func (d *delivery) back(off int64) {
	d.pos.Store(min(d.pos.Load(), off))
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.clear {
		d.clear[i].pos = min(d.clear[i].pos, off)
	}
}

// read delivers the records of one segment, from a physical offset to another at the most.
func (d *delivery) read(from, to int64) (int64, error) {
	base, data, held, err := d.store.log.Map(from)
	if err != nil {
		return from, err
	}
	defer held.Release()
	pos := from
	fault := mapfile.Guard(func() {
		pos, err = d.walk(data[:min(int64(len(data)), to-base)], base, pos)
	})
	return pos, errors.Join(fault, err)
}

// walk delivers the records of a segment's bytes, which begin at a physical offset, from one of
// their places on. It returns behind the last one.
func (d *delivery) walk(data []byte, base, pos int64) (int64, error) {
	segmentEnd := base + d.store.log.SegmentSize()
	for pos < base+int64(len(data)) {
		rest := data[pos-base:]
		if _, magic := message.Size(rest); magic == message.MagicBlank {
			return segmentEnd, nil
		}
		var err error
		if d.view, err = message.Decode(rest); err != nil {
			return pos, d.store.log.Damage(pos, err)
		}
		if err := d.record(&d.view, pos); err != nil {
			return pos, err
		}
		pos += int64(d.view.Size())
	}
	return pos, nil
}

func (d *delivery) record(v *message.View, pos int64) error {
	d.lastTime.Store(v.StoreTimestamp())
	d.lastPos.Store(pos)
	switch {
	case d.store.w.replica.Load(): // another store numbered it, perhaps in several queues
		for p := range d.store.places(v, pos) {
			if err := d.entry(p.Topic, p.QueueID, p.Offset, v, pos); err != nil {
				return err
			}
		}
	case v.Queued():
		if err := d.entry(v.Topic(), v.QueueID(), v.QueueOffset(), v, pos); err != nil {
			return err
		}
	}
	d.store.w.index.addLocked(v)
	return nil
}

// entry makes a record a message of a queue.
func (d *delivery) entry(topic []byte, id int32, off int64, v *message.View, pos int64) error {
	q := d.queue
	if q == nil || q.ID() != id || off != d.first+int64(len(d.entries)/consumequeue.EntrySize) || q.Topic() != string(topic) {
		if err := d.give(); err != nil {
			return err
		}
		d.queue, d.first = d.store.ensure(topic, id), off
	}
	d.entries = consumequeue.EntryOf(v, pos).AppendTo(d.entries)
	return nil
}

// give gives the entries at hand to their queue.
func (d *delivery) give() error {
	q, entries := d.queue, d.entries
	if q == nil {
		return nil
	}
	d.queue, d.entries = nil, d.entries[:0]
	first, err := q.Add(context.Background(), d.first, entries)
	if err != nil {
		return fmt.Errorf("%s/%d: %w", q.Topic(), q.ID(), err)
	}
	d.store.waiters.Visible(q.Topic(), q.ID(), d.first, entries)
	if first {
		d.mu.Lock()
		d.dirty = append(d.dirty, q)
		d.mu.Unlock()
	}
	if d.store.options.Visible != nil {
		d.touched = append(d.touched, q)
	}
	return nil
}

// takeDirty returns the queues that have something to flush, and forgets them.
func (d *delivery) takeDirty() []*consumequeue.Queue {
	d.mu.Lock()
	defer d.mu.Unlock()
	dirty := d.dirty
	d.dirty = nil
	return dirty
}

func (d *delivery) giveBackDirty(qs []*consumequeue.Queue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dirty = append(d.dirty, qs...)
}
