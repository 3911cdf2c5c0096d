package warmlog

import (
	"github.com/warmlog/warmlog/internal/layout"
)

// A long recovery notes how far it has come, so that one that is killed, by a watchdog that
// finds it too long, goes on from there the next time.

// noteEvery is how much of the log is read between two notes: a second's work or more, for a note
// takes a tenth of one.
func (s *Store) noteEvery() int64 { return min(1<<30, 16*s.log.SegmentSize()) }

// notes reports whether what is read may be noted.
func (t *tail) notes() bool {
	w := t.w
	return w != nil && t.abort.Exists && t.cutAt < 0 && !w.stateLost
}

// flushed reports whether the log was Flushed: it then is written again before it is durable,
// by whole segments. That is little where checkpoints were taken, but much where the queues'
// disk was full for long, or a broker went on with the log.
func (t *tail) flushed() bool { return t.w.known && t.w.state.Last().Mode == layout.Flushed }

// noteAt reports whether it is time for a note, before the record at pos is taken.
func (t *tail) noteAt(pos int64) bool {
	return pos-t.noted >= t.noteEvery() && (!t.flushed() || pos%t.log.SegmentSize() == 0)
}

// note brings to the disk what was read up to a record at pos, log, queues and index, and
// lets the next start begin there.
func (t *tail) note(pos int64) error {
	at := pos
	pos, err := t.dispatch.settle(pos)
	if err != nil || pos <= t.noted {
		return err
	}
	if t.flushed() {
		if pos < at {
			return nil // in the middle of a segment: the next note takes it
		}
		if err := t.rewriteTail(t.ctx, t.w.state.Last().Durable, pos); err != nil {
			return err
		}
	}
	if err := t.completeQueues(t.ctx); err != nil {
		return err
	}
	var dirty []string
	for q := range t.dispatch.at {
		if dirty, err = q.Flush(dirty); err != nil {
			return err
		}
	}
	for _, seg := range t.log.Segments() {
		if seg.End() > t.noted && seg.Base < pos {
			dirty = append(dirty, seg.Path())
		}
	}
	if err := syncPaths(t.paths, dirty); err != nil {
		return err
	}
	keyless := false
	if t.index != nil {
		if keyless, err = t.syncIndex(t.ctx, pos); err != nil {
			return err
		}
	}
	if err := replaceFile(t.paths.QueueEnds(), t.paths.Temp(), bytesOnly(t.queueEnds(pos))); err != nil {
		return err
	}
	t.noted = pos
	return t.w.state.Write(layout.State{Durable: pos, Dispatched: pos, Mode: t.w.state.Last().Mode, Keyless: keyless, Checkpoint: t.checkpoint.Digest()})
}
