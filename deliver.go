package warmlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/message"
)

// delivery gives the records that became visible to their queues and the index, in the order
// of the log. One goroutine does so; it follows the visible position.
type delivery struct {
	store *Store
	// pos is the physical offset up to which everything was delivered. Stored by the
	// goroutine alone.
	pos  atomic.Int64
	idle atomic.Bool // the goroutine waits for wake
	wake chan struct{}

	mu    sync.Mutex
	dirty []*consumequeue.Queue // have entries that are only in memory; guarded by mu
	// progress is closed, and forgotten, when something was done or failed while somebody
	// waits. Guarded by mu.
	progress chan struct{}
	// clear are queues that were deleted, in the order of the log. Guarded by mu.
	clear []clearing

	// Of the goroutine: consecutive entries of one queue that were not yet given to it.
	queue   *consumequeue.Queue
	first   int64
	entries []byte
	// touched are the queues that got entries since the last notification.
	touched []*consumequeue.Queue
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
	d.moved()
}

// nextClear returns the position of the next clearing, or to if there is none below it.
func (d *delivery) nextClear(to int64) (pos int64, due *clearing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.clear) == 0 {
		return to, nil
	}
	first := d.clear[0]
	if first.pos <= d.pos.Load() {
		return first.pos, &first
	}
	return min(to, first.pos), nil
}

func newDelivery(s *Store, from int64) *delivery {
	d := &delivery{store: s, wake: make(chan struct{}, 1)}
	d.pos.Store(from)
	return d
}

// moved says that the visible position may have moved. While the goroutine is at work it
// costs a load.
func (d *delivery) moved() {
	if d.idle.Load() && d.idle.CompareAndSwap(true, false) {
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
}

// run delivers until ctx ends, and then what is visible.
func (d *delivery) run(ctx context.Context) {
	for {
		for d.step() {
		}
		d.idle.Store(true)
		if d.pending() && d.store.w.failure() == nil {
			d.idle.Store(false)
			continue // came in before idle was seen
		}
		select {
		case <-d.wake:
		case <-ctx.Done():
			d.idle.Store(false)
			for d.step() {
			}
			return
		}
		d.idle.Store(false)
	}
}

func (d *delivery) pending() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.clear) > 0 && d.clear[0].pos <= d.pos.Load() || d.pos.Load() < d.store.log.Max()
}

// step delivers what is visible, and reports whether there was something.
func (d *delivery) step() bool {
	if d.store.w.failure() != nil {
		return false
	}
	from := d.pos.Load()
	to, due := d.nextClear(d.store.log.Max())
	if due != nil {
		return d.clearQueues(due)
	}
	if from >= to {
		return false
	}
	end, err := from, error(nil)
	d.store.w.index.mu.Lock()
	fault := getmessage.Guard(func() { end, err = d.read(from, to) })
	d.give()
	d.pos.Store(end)
	d.store.w.index.mu.Unlock()
	for i, q := range d.touched {
		d.touched[i] = nil
		_, high, _ := q.Bounds(context.Background())
		d.store.options.Visible(q.Topic(), q.ID(), high)
	}
	d.touched = d.touched[:0]
	d.tell()
	if err = errors.Join(fault, err); err != nil {
		d.store.w.fail(fmt.Errorf("dispatch at %d: %w", end, err))
		d.tell()
		return false
	}
	return true
}

// clearQueues clears the queues of the first clearing.
func (d *delivery) clearQueues(c *clearing) bool {
	for _, q := range c.queues {
		if err := q.Clear(); err != nil {
			d.store.w.fail(fmt.Errorf("delete %s/%d: %w", q.Topic(), q.ID(), err))
		}
	}
	d.mu.Lock()
	d.clear = d.clear[1:]
	d.mu.Unlock()
	d.tell()
	return true
}

// tell wakes who waits.
func (d *delivery) tell() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.progress != nil {
		close(d.progress)
		d.progress = nil
	}
}

// wait returns when everything below a visible physical offset was delivered.
func (d *delivery) wait(ctx context.Context, to int64) error {
	return d.until(ctx, func() bool { return d.pos.Load() >= to })
}

// waitDeleted returns when no clearing is left that was asked for before.
func (d *delivery) waitDeleted(ctx context.Context) error {
	return d.until(ctx, func() bool { return len(d.clear) == 0 })
}

// until returns when the delivery has come so far that reached, which is asked with mu held,
// is true.
func (d *delivery) until(ctx context.Context, reached func() bool) error {
	for {
		d.mu.Lock()
		if reached() {
			d.mu.Unlock()
			return nil
		}
		if d.progress == nil {
			d.progress = make(chan struct{})
		}
		progress := d.progress
		d.mu.Unlock()
		d.moved()
		if err := d.store.w.failure(); err != nil {
			return err
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// read delivers the records of one segment, from a physical offset to another at the most.
func (d *delivery) read(from, to int64) (int64, error) {
	base, data, held, err := d.store.log.Map(from)
	if err != nil {
		return from, err
	}
	defer held.Release()
	data = data[:min(int64(len(data)), to-base)]
	segmentEnd := base + d.store.log.SegmentSize()
	pos := from
	for pos < base+int64(len(data)) {
		rest := data[pos-base:]
		if _, magic := message.Size(rest); magic == message.MagicBlank {
			return segmentEnd, nil
		}
		v, err := message.Decode(rest)
		if err != nil {
			return pos, d.store.log.Damage(pos, err)
		}
		if err := d.record(&v, pos); err != nil {
			return pos, err
		}
		pos += int64(v.Size())
	}
	return pos, nil
}

func (d *delivery) record(v *message.View, pos int64) error {
	d.lastTime.Store(v.StoreTimestamp())
	d.lastPos.Store(pos)
	if v.Queued() {
		topic, id := v.Topic(), v.QueueID()
		q := d.queue
		off := v.QueueOffset()
		if q == nil || q.ID() != id || off != d.first+int64(len(d.entries)/consumequeue.EntrySize) || q.Topic() != string(topic) {
			d.give()
			// The table keeps no reference to the name that it is asked for.
			if q = d.store.queues.Get(unsafe.String(unsafe.SliceData(topic), len(topic)), id); q == nil {
				q = d.store.addQueue(string(topic), id)
			}
			d.queue, d.first = q, off
		}
		d.entries = consumequeue.EntryOf(v, pos).AppendTo(d.entries)
	}
	d.store.w.index.addLocked(v)
	return nil
}

// give gives the entries at hand to their queue.
func (d *delivery) give() {
	q := d.queue
	if q == nil {
		return
	}
	if q.Add(d.first, d.entries) {
		d.mu.Lock()
		d.dirty = append(d.dirty, q)
		d.mu.Unlock()
	}
	if d.store.options.Visible != nil {
		d.touched = append(d.touched, q)
	}
	d.queue, d.entries = nil, d.entries[:0]
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
