package warmlog

import (
	"cmp"
	"context"
	"errors"

	"github.com/warmlog/warmlog/commitlog"
	"github.com/warmlog/warmlog/message"
)

// tail reads the end of the log when a store is opened.
type tail struct {
	*Store
	ctx   context.Context
	from  int64 // physical offset where reading begins
	to    int64 // physical offset where it ends
	until int64 // end of the last segment that was begun, for the progress
	// sealed is the beginning of the last segment that begins with a sound record: those
	// below were filled, so that a record there that is not sound is damaged.
	sealed int64
	index  *indexer // gets the records; nil: it is completed later
	noted  int64    // up to here the next start need not read again: see note
	last   int64    // beginning of the last segment that was begun
}

// read returns the end of the log.
func (t *tail) read() (int64, error) {
	scan := t.log.Scan(t.from, t.to, true)
	defer scan.Close()
	if t.abort.Exists {
		// Who reads soon reads the end. What lies before must not take the place of what is used.
		scan.LeaveNothing(t.last)
	}
	// Queues, dispatch and index are the pipe's until it is drained.
	stages := []func(*message.View) error{t.toQueues}
	if t.index != nil {
		stages = append(stages, t.index.w.Add)
	}
	pipe := newPipe(stages...)
	defer pipe.close()
	scan.Trade(pipe.trade)
	notes := t.notes()
	for {
		for n := 0; scan.Next(); n++ {
			v := scan.View()
			if notes && t.noteAt(scan.Pos()) {
				if err := pipe.drain(); err != nil {
					return 0, err
				}
				if err := t.note(scan.Pos()); err != nil {
					return 0, err
				}
			}
			if t.abort.Exists && v.Torn() {
				if err := pipe.drain(); err != nil {
					return 0, err
				}
				if t.unfinished(scan) {
					t.tailCut = t.log.Damage(scan.Pos(), message.ErrUnfinished)
					return scan.Pos(), nil
				}
			}
			t.saw(v)
			pipe.put(v)
			if n%1024 == 0 {
				if err := cmp.Or(t.ctx.Err(), pipe.err()); err != nil {
					return 0, err
				}
				t.report("reading the log", scan.Pos()-t.from, t.until-t.from)
			}
		}
		if err := pipe.drain(); err != nil {
			return 0, err
		}
		if scan.Err() == nil {
			return scan.Offset(), nil
		}
		if scan.Passed() {
			continue
		}
		var damage *message.DamageError
		if !errors.As(scan.Err(), &damage) {
			return 0, scan.Err()
		}
		at := scan.Offset()
		switch {
		case at < t.sealed:
			if !scan.Resync(nil) {
				scan.Skip(t.log.Segment(at).Base + t.log.SegmentSize())
			}
		case !t.abort.Exists && scan.Resync(t.filed):
		case !t.abort.Exists && t.claimed(at) > at:
			// The last records are damaged: nothing sound follows, but queues name them. As in
			// RocketMQ, which would cut the log here, they do not count in their queues.
			return t.claimed(at), t.Store.damage(damage)
		default:
			t.tailCut = damage
			return at, nil
		}
		t.lost = append(t.lost, stretch{at, scan.Offset()})
		if err := t.Store.damage(damage); err != nil {
			return 0, err
		}
	}
}

// toQueues gives a record to its queues. A scan that compares checksums has compared the physical
// offset in it, too.
func (t *tail) toQueues(v *message.View) error { return t.dispatch.add(v, v.PhysicalOffset()) }

// unfinished reports whether a scan found a last record of which its writer may have
// written a part only: it looks so, its queue does not know it, and nothing follows it.
func (s *Store) unfinished(scan *commitlog.Scanner) bool {
	if !scan.View().Torn() {
		return false
	}
	if !s.filed(scan.View()) && !scan.Followed() {
		return true
	}
	return !scan.Again() // its last bytes may have come in since it was read
}

// filed reports whether a record is in its queue's file. One that was found behind damage
// and is not was left over when an earlier start cut the log, and is overwritten one day.
func (s *Store) filed(v *message.View) bool {
	if !v.Queued() {
		return false
	}
	q := s.queues.Get(string(v.Topic()), v.QueueID())
	if q == nil {
		return false
	}
	e, ok := q.EntryAt(v.QueueOffset())
	return ok && e.Offset == v.PhysicalOffset() && e.Size == v.Size()
}

// claimed returns the physical offset up to which the queues name records of the last
// segment, of a store that was stopped in order.
func (t *tail) claimed(at int64) int64 {
	end := at
	limit := t.to
	for q, c := range t.dispatch.at {
		for off := c.next; ; off++ {
			e, ok := q.EntryAt(off)
			if !ok || e.Offset < at || e.End() > limit {
				break
			}
			end = max(end, e.End())
		}
	}
	return end
}

func (s *Store) report(phase string, done, total int64) {
	s.options.Progress(Progress{phase, done, max(done, total)})
}
