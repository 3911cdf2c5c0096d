package warmlog

import (
	"github.com/warmlog/warmlog/internal/layout"
)

// A long recovery notes how far it has come, so that one that is killed, by a watchdog that
// finds it too long, goes on from there the next time.

// noteEvery is how much of the log is read between two notes: a second's work or more, for a note
// takes a tenth of one.
func (s *Store) noteEvery() int64 { return min(1<<30, 16*s.log.SegmentSize()) }

// notes reports whether what is read may be noted: while a log is recovered that was Written,
// or by a broker. One that was Flushed is short, as no run leaves more than checkpointBytes,
// and has to be rewritten first.
func (t *tail) notes() bool {
	w := t.w
	return w != nil && t.abort.Exists && t.cutAt < 0 && !w.stateLost && !(w.known && w.state.Last().Mode == layout.Flushed)
}

// note brings to the disk what was read up to a record at pos, log, queues and index, and
// lets the next start begin there.
func (t *tail) note(pos int64) error {
	pos, err := t.dispatch.settle(pos)
	if err != nil || pos <= t.noted {
		return err
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
	return t.w.state.Write(layout.State{Durable: pos, Dispatched: pos, Mode: layout.Written, Keyless: keyless, Checkpoint: t.checkpoint.Digest()})
}
