package warmlog

import (
	"iter"
	"unsafe"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/message"
)

// dispatcher gives the records of a scan of the log to their queues. It is for one
// goroutine at a time.
//
// A queue's offsets rise by one from record to record. Nothing protects the offset in a
// record (only the body has a checksum), so one that does not continue its queue is
// believed only when something else agrees: the queue's file, or the queue's next record.
// It then is either behind records that were damaged, or the first of another life of the
// queue: RocketMQ numbers a topic that was deleted and made again from 0.
type dispatcher struct {
	store *Store
	// below, if not nil, names the queues to be completed and the offset below which. They
	// are known above it, so that another life of a queue cannot begin here.
	below map[*consumequeue.Queue]int64
	at    map[*consumequeue.Queue]*cursor
	// unmerged are the queues with pending entries, pending counts the bytes of these.
	unmerged []*consumequeue.Queue
	pending  int
	// doubtful are queues that may have a record in doubt.
	doubtful []*consumequeue.Queue
	// lost lists records that were not dispatched: their queue offset cannot be right.
	lost []int64
}

// cursor is how far a scan has come in one queue.
type cursor struct {
	next    int64  // offset that the next record should have; -1: not known
	first   int64  // offset of the first pending entry
	entries []byte // pending, consecutive
	// doubt is a record whose offset does not continue the queue, if inDoubt.
	doubt    consumequeue.Entry
	doubtOff int64
	inDoubt  bool
}

// mergeBytes bounds the pending entries: they are compared with the files in larger pieces.
const mergeBytes = 4 << 20

func newDispatcher(s *Store) *dispatcher {
	return &dispatcher{store: s, at: map[*consumequeue.Queue]*cursor{}}
}

// add takes the record at a physical offset.
func (d *dispatcher) add(v *message.View, pos int64) error {
	for p := range d.store.places(v, pos) {
		q := d.store.ensure(p.Topic, p.QueueID)
		if d.below != nil && p.Offset >= d.below[q] {
			continue // 0 for a queue that is not among them
		}
		c := d.at[q]
		if c == nil {
			c = &cursor{next: -1}
			d.at[q] = c
		}
		if err := d.place(q, c, p.Offset, consumequeue.EntryOf(v, pos)); err != nil {
			return err
		}
	}
	return nil
}

// places yields the queues that the record at a physical offset is a message of.
func (s *Store) places(v *message.View, pos int64) iter.Seq[message.Place] {
	// A broker dispatches to further queues only where it was told to: believe the property
	// where there are such queues, or where those that are lacking have to be made.
	lacking := !s.anyFile || s.w != nil && (s.w.known || s.w.replica.Load())
	return func(yield func(message.Place) bool) {
		first := true
		for p := range v.Places() {
			further := !first
			first = false
			switch {
			case further && s.queues.Get(string(p.Topic), p.QueueID) == nil && !(lacking && message.IsLight(string(p.Topic))):
			case p.QueueID < 0, p.Offset < 0, len(p.Topic) == 0, s.deleted.covers(p.Topic, p.QueueID, pos):
			case !yield(p):
				return
			}
		}
	}
}

func (d *dispatcher) place(q *consumequeue.Queue, c *cursor, off int64, e consumequeue.Entry) error {
	switch {
	case off == c.next:
		d.drop(c)
	case c.inDoubt && off == c.doubtOff+1:
		c.inDoubt = false
		if err := d.begin(q, c, c.doubtOff, c.doubt); err != nil {
			return err
		}
	case filed(q, off, e):
		d.drop(c)
		return d.begin(q, c, off, e)
	default:
		d.drop(c)
		c.doubt, c.doubtOff, c.inDoubt = e, off, true
		d.doubtful = append(d.doubtful, q)
		return nil
	}
	return d.append(q, c, off, e)
}

// drop gives up a record that nothing has confirmed.
func (d *dispatcher) drop(c *cursor) {
	if c.inDoubt {
		d.lost = append(d.lost, c.doubt.Offset)
		c.inDoubt = false
	}
}

// filed reports whether the queue's file has the entry.
func filed(q *consumequeue.Queue, off int64, e consumequeue.Entry) bool {
	have, ok := q.EntryAt(off)
	return ok && have == e
}

// begin goes on at another offset: behind a gap, or in another life of the queue.
func (d *dispatcher) begin(q *consumequeue.Queue, c *cursor, off int64, e consumequeue.Entry) error {
	if err := d.merge(q, c); err != nil {
		return err
	}
	if off < c.next && d.below == nil {
		q.Restart(off)
		d.store.waiters.Wake(q.Topic(), q.ID(), getmessage.Deleted)
	}
	return d.append(q, c, off, e)
}

func (d *dispatcher) append(q *consumequeue.Queue, c *cursor, off int64, e consumequeue.Entry) error {
	if len(c.entries) == 0 {
		c.first = off
		d.unmerged = append(d.unmerged, q)
	}
	c.entries = e.AppendTo(c.entries)
	c.next = off + 1
	if d.pending += consumequeue.EntrySize; d.pending >= mergeBytes {
		return d.flush()
	}
	return nil
}

func (d *dispatcher) merge(q *consumequeue.Queue, c *cursor) error {
	if len(c.entries) == 0 {
		return nil
	}
	d.pending -= len(c.entries)
	err := q.Merge(c.first, c.entries)
	if err == nil {
		d.store.waiters.Visible(q.Topic(), q.ID(), c.first, c.entries)
	}
	c.entries = c.entries[:0]
	return err
}

// flush makes everything that was taken visible.
func (d *dispatcher) flush() error {
	for _, q := range d.unmerged {
		c := d.at[q]
		if err := d.merge(q, c); err != nil {
			return err
		}
		if cap(c.entries) > 1<<12 {
			c.entries = nil // a busy queue's buffer is not worth keeping for all
		}
	}
	d.unmerged = d.unmerged[:0]
	return nil
}

// settle makes everything visible, but for records that nothing has confirmed yet. It returns
// where the first of these lies, or the position up to which records were added.
func (d *dispatcher) settle(pos int64) (int64, error) {
	doubtful := d.doubtful
	d.doubtful = nil
	for _, q := range doubtful {
		c := d.at[q]
		if !c.inDoubt {
			continue
		}
		// The first record of its queue in what is read: it continues what was there.
		if end, ok := q.End(); c.next < 0 && (c.doubtOff == 0 || ok && c.doubtOff == end) {
			c.inDoubt = false
			if err := d.begin(q, c, c.doubtOff, c.doubt); err != nil {
				return pos, err
			}
			continue
		}
		d.doubtful = append(d.doubtful, q)
		pos = min(pos, c.doubt.Offset)
	}
	return pos, d.flush()
}

// end decides about the records still in doubt, when no record is left that could confirm
// them, and makes everything visible.
func (d *dispatcher) end() error {
	for _, q := range d.doubtful {
		c := d.at[q]
		if !c.inDoubt {
			continue
		}
		// The only record of its queue, the first of a new life, or one behind a few that
		// were damaged: no other is likely to be right.
		if c.next < 0 || c.doubtOff == 0 || c.doubtOff > c.next && c.doubtOff-c.next <= maxGap {
			c.inDoubt = false
			if err := d.begin(q, c, c.doubtOff, c.doubt); err != nil {
				return err
			}
		}
		d.drop(c)
	}
	d.doubtful = d.doubtful[:0]
	return d.flush()
}

// maxGap is how many messages of a queue may be missing before its last one.
const maxGap = 1024

// ensure returns the queue of a record, made if the store did not know it.
func (s *Store) ensure(topic []byte, id int32) *consumequeue.Queue {
	// The table keeps no reference to the name that it is asked for.
	if q := s.queues.Get(unsafe.String(unsafe.SliceData(topic), len(topic)), id); q != nil {
		return q
	}
	return s.addQueue(string(topic), id)
}

func (s *Store) addQueue(topic string, id int32) *consumequeue.Queue {
	return s.queues.Ensure(topic, id, func() *consumequeue.Queue {
		dir := consumequeue.Dir(s.paths.ConsumeQueue(), topic, id)
		return consumequeue.NewQueue(topic, id, dir, s.queueSize, s.cache, queueLog{s})
	})
}
