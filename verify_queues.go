package warmlog

import (
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/message"
)

// queueCheck is how far the verification of one queue has come.
type queueCheck struct {
	*consumequeue.Audit
	next int64 // offset that the next record should have; -1: not known
}

func (v *verifier) checkOf(q *consumequeue.Queue) (*queueCheck, error) {
	c := v.queues[q]
	if c == nil {
		audit, err := q.NewAudit(v.ctx)
		if err != nil {
			return nil, err
		}
		c = &queueCheck{audit, -1}
		v.queues[q] = c
	}
	return c, nil
}

// queued compares a record with the entries of its queues.
func (v *verifier) queued(rec *message.View, pos int64) error {
	if !rec.Queued() {
		if rec.QueueOffset() != 0 { // it has no place in a queue
			v.misnumbered(pos)
		}
		return nil
	}
	own := true
	for p := range rec.Places() {
		q := v.Store.queues.Get(string(p.Topic), p.QueueID)
		if q == nil && !own {
			continue // the broker was not told to dispatch to further queues
		}
		own = false
		if v.Store.deleted.covers(p.Topic, p.QueueID, pos) {
			v.old++
			continue
		}
		if q == nil || p.Offset < 0 {
			v.misnumbered(pos)
			continue
		}
		if err := v.place(q, rec, pos, p.Offset); err != nil {
			return err
		}
	}
	return nil
}

// place compares a record with the entry of one queue.
func (v *verifier) place(q *consumequeue.Queue, rec *message.View, pos, off int64) error {
	c, err := v.checkOf(q)
	if err != nil {
		return err
	}
	e, there := c.At(off)
	switch {
	case there && v.agrees(e, rec, pos):
		v.result.Entries++
		c.Seen(off, v.unnamed(q))
		c.next = off + 1
		return nil
	case c.next >= 0 && off != c.next && v.names(c, c.next, pos):
		// The entry that should name it does: the offset in the record is wrong.
		c.Seen(c.next, v.unnamed(q))
		c.next++
		v.misnumbered(pos)
	case !there && (c.next < 0 || off == c.next):
		v.behind++
		v.unfiled[pos] = true
		c.next = off + 1
	case !there:
		v.misnumbered(pos)
	case e.Offset > pos && (queueLog{v.Store}).Holds(q.Topic(), q.ID(), off, e):
		v.old++
		v.unfiled[pos] = true
	case c.next >= 0 && off != c.next:
		v.misnumbered(pos)
	default:
		v.report(q.Damage(off, consumequeue.ErrEntry))
		c.Seen(off, v.unnamed(q))
		c.next = off + 1
	}
	return nil
}

// agrees reports whether an entry is the one of a record.
func (v *verifier) agrees(e consumequeue.Entry, rec *message.View, pos int64) bool {
	if e.Offset != pos || e.Size != rec.Size() {
		return false
	}
	const extAddress = -1<<31 - 1 // and below: the tag's hash is in the ext file
	switch {
	case e.TagCode <= extAddress && v.ext:
		return true
	case rec.Delayed():
		return e.TagCode >= rec.StoreTimestamp() // by how much is the broker's setting
	}
	return e.TagCode == rec.TagCode()
}

// names reports whether the entry of an offset points to a position.
func (v *verifier) names(c *queueCheck, off, pos int64) bool {
	e, ok := c.At(off)
	return ok && e.Offset == pos
}

func (v *verifier) misnumbered(pos int64) {
	v.report(v.Store.log.Damage(pos, ErrMisnumbered))
	v.named[pos] = true
}

// unnamed deals with queue entries for which no record came.
func (v *verifier) unnamed(q *consumequeue.Queue) func(int64, consumequeue.Entry) {
	return func(off int64, e consumequeue.Entry) {
		switch {
		case e.Real() && (v.lost.has(e.Offset) || v.named[e.Offset]):
			// Its record was reported.
		case e.Real() && v.unfiled[e.Offset]:
			// A record lies there that no queue knows under the name that it claims.
			v.report(v.Store.log.Damage(e.Offset, message.ErrOtherEntry))
			v.named[e.Offset] = true
		case e.Real() && e.Offset >= v.Store.log.Max() && v.abort.Exists:
			v.ahead++ // recovery cuts it, with the log
		default:
			v.report(q.Damage(off, consumequeue.ErrEntry))
		}
	}
}

// finishQueues looks at what is left of the queues when the log was read.
func (v *verifier) finishQueues() error {
	for _, q := range v.Store.queues.All() {
		v.result.Queues++
		c, err := v.checkOf(q)
		if err != nil {
			return err
		}
		for _, d := range q.FileDamage() {
			v.report(d)
		}
		c.Rest(v.unnamed(q))
		if err := c.Stray(func(off int64) { v.report(q.Damage(off, consumequeue.ErrEntry)) }); err != nil {
			return err
		}
	}
	return nil
}
