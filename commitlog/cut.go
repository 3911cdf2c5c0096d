package commitlog

import (
	"context"
	"os"
)

// Cut ends the log at a physical offset, where a record or blank ends. Nothing may be
// appended meanwhile. files does the work on the files, when no reader is led to what goes
// and nobody writes: the segments from there on are removed and taken out of the list, and
// the one that holds the offset is replaced by another file with what is left. After an error
// nothing more is appended.
//
// Bytes that somebody holds stay as they are: they are of the files that were.
func (a *Appender) Cut(ctx context.Context, off int64, files func() error) error {
	// Whoever waits for what was appended gets it.
	if err := a.Commit(ctx, a.End()); err != nil {
		return err
	}
	for led := false; !led; { // nobody else leads a round meanwhile
		var err error
		if led, err = a.beginRound(ctx); err != nil {
			return err
		}
	}
	defer a.endRound()
	a.show.mu.Lock()
	defer a.show.mu.Unlock()
	a.mu.Lock()
	defer a.moved.Changed()
	defer a.mu.Unlock()
	if off < a.log.Max() {
		a.log.SetMax(off)
	}
	if err := a.cutLocked(off, files); err != nil {
		return a.fail(err)
	}
	return nil
}

func (a *Appender) cutLocked(off int64, files func() error) error {
	if next := a.mu.next; next != nil { // it has its name, and is not in the list
		if err := os.Remove(next.seg.Path()); err != nil {
			return err
		}
		_ = next.close() // empty
		a.mu.next = nil
	}
	if next := a.ahead.take(-1); next != nil {
		next.discard()
	}
	if err := files(); err != nil {
		return err
	}
	_ = a.closeDirty() // synced by Commit
	if s := a.log.Segment(off); s != nil {
		var err error
		if a.mu.cur, err = a.continueSegment(s, off); err != nil {
			return err
		}
		a.mu.dirty = append(a.mu.dirty, a.mu.cur)
	}
	a.beginLocked(off)
	return nil
}
