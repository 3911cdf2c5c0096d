package warmlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/message"
)

// ErrNoBoundary says that a log cannot be cut at a physical offset: no record or blank ends
// there.
var ErrNoBoundary = errors.New("no record ends there")

// Truncate ends a slave's log at a physical offset, where a record or blank ends: what lies
// behind is of an abandoned line of history. Its bytes are set aside in warmlog/aside, and
// its messages go from queues and index. Slices that somebody holds stay as they are: what is
// left of the segment is in another file then. It returns when all is on disk; a process that
// dies meanwhile leaves a note, and the next Open goes on.
//
// An error that is none of [ErrRole], [ErrGone], [ErrBeyond] and [ErrNoBoundary] ends all
// appends, as a failed sync does, until the store is opened again.
func (s *Store) Truncate(ctx context.Context, off int64) error {
	if s.w == nil {
		return ErrReadOnly
	}
	w := s.w
	w.using.Lock()
	defer w.using.Unlock()
	if s.closed.Load() {
		return ErrClosed
	}
	if s.Role() != getmessage.Slave {
		return fmt.Errorf("truncate at %d: %w: it is the master", off, ErrRole)
	}
	if err := s.accepts(); err != nil && !errors.Is(err, ErrNoSpace) {
		return err
	}
	w.retainMu.Lock()
	defer w.retainMu.Unlock()
	w.checkpointMu.Lock()
	defer w.checkpointMu.Unlock()
	switch end := w.appender.End(); {
	case off < s.log.Min():
		return fmt.Errorf("truncate at %d: %w", off, ErrGone)
	case off > end:
		return fmt.Errorf("truncate at %d: %w: it ends at %d", off, ErrBeyond, end)
	case off == end:
		return nil
	}
	// What waits in memory is in the files then, where the boundary is looked for.
	if err := w.appender.Commit(ctx, w.appender.End()); err != nil {
		return err
	}
	last, stored, err := s.lastBelow(ctx, off)
	if err != nil {
		return fmt.Errorf("truncate at %d: %w", off, err)
	}
	// What has begun is brought to its end.
	if err := s.truncate(context.WithoutCancel(ctx), off, last, stored); err != nil {
		err = fmt.Errorf("truncate at %d: %w", off, err)
		s.fail(err)
		return err
	}
	return nil
}

// truncate does what Truncate says. last and stored are the place and store time of the last
// record that stays; 0 and 0 if none does.
func (s *Store) truncate(ctx context.Context, off, last, stored int64) error {
	if err := s.cutAll(ctx, off, last, stored); err != nil {
		return err
	}
	s.w.dispatch.done.Changed()
	if err := s.checkpointLocked(ctx); err != nil {
		return err
	}
	return s.forgetCut()
}

// cutAll cuts log, queues, index and deletions, while nothing is dispatched.
func (s *Store) cutAll(ctx context.Context, off, last, stored int64) error {
	w := s.w
	w.index.mu.Lock()
	defer w.index.mu.Unlock()
	// Before anything is delivered again: offsets that a filter rejected have other messages then.
	defer s.waiters.WakeAll(getmessage.Changed)
	if err := replaceFile(s.paths.Cut(), s.paths.Temp(), bytesOnly(layout.EncodeCut(off))); err != nil {
		return err
	}
	if err := w.appender.Cut(ctx, off, func() error { return s.cutFiles(off) }); err != nil {
		return err
	}
	w.dispatch.back(off)
	s.lastRecord.Store(last)
	w.dispatch.lastPos.Store(last)
	w.dispatch.lastTime.Store(stored)
	for _, q := range s.queues.All() {
		end, dirty, err := q.Cut(ctx, off, w.unsynced)
		if err != nil {
			return err
		}
		w.unsynced = dirty
		if q.Numbered() {
			w.appender.Lock()
			*q.Next() = end
			w.appender.Unlock()
		}
	}
	if err := w.index.w.Truncate(off); err != nil {
		return err
	}
	if w.index.behind > off {
		w.index.behind = off
	}
	return s.deleted.cut(s.paths.Deleted(), s.paths.Temp(), off)
}

// cutFiles removes what the log's files have from a physical offset on, the highest first:
// whoever comes after a kill in between finds no record behind a place that is missing.
func (s *Store) cutFiles(off int64) error {
	segments := s.log.Segments()
	for _, seg := range slices.Backward(segments) {
		switch {
		case seg.End() <= off:
			continue
		case seg.Base >= off && seg != segments[0]:
			if err := s.removeSegment(seg, off); err != nil {
				return err
			}
			continue
		}
		n, err := used(seg.Path(), off-seg.Base, seg.Size)
		if err != nil {
			return err
		}
		f, err := os.Open(seg.Path())
		if err != nil {
			return err
		}
		if n > off-seg.Base {
			err = s.copyAside(f, off, off-seg.Base, n-(off-seg.Base))
		}
		f.Close()
		if err == nil {
			err = s.rewriteSegment(seg, off-seg.Base, func(int64) error { return nil })
		}
		if err != nil {
			return err
		}
		s.log.Replaced(seg)
	}
	s.log.DropAbove(off)
	return layout.SyncDir(s.paths.CommitLog())
}

// forgetCut removes the note of a cut that is done, for good: it would cut off what is
// appended from now on.
func (s *Store) forgetCut() error {
	s.cutAt = -1
	if err := os.Remove(s.paths.Cut()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return layout.SyncDir(filepath.Dir(s.paths.Cut()))
}

// lastBelow returns the place and store time of the last record that ends at or below a
// physical offset, 0 and 0 if there is none; [ErrNoBoundary] where no record or blank ends
// there.
func (s *Store) lastBelow(ctx context.Context, off int64) (last, stored int64, err error) {
	// From the beginning of a segment on, where a record begins: nothing else tells a boundary
	// from bytes of a body that look like one.
	for base := off - off%s.log.SegmentSize(); base >= s.log.Min(); base -= s.log.SegmentSize() {
		ends := base == off
		scan := s.log.Scan(base, off, false)
		for ctx.Err() == nil {
			for scan.Next() && scan.Offset() <= off {
				last, stored = scan.Pos(), scan.View().StoreTimestamp()
			}
			var damage *message.DamageError
			if !errors.As(scan.Err(), &damage) || !scan.Resync(nil) {
				break
			}
		}
		ends = ends || scan.Offset() == off
		err := scan.Err()
		scan.Close()
		switch {
		case ctx.Err() != nil:
			return 0, 0, ctx.Err()
		case !ends && err != nil:
			return 0, 0, err
		case !ends:
			return 0, 0, ErrNoBoundary
		case stored != 0 || last != 0:
			return last, stored, nil
		}
		if off = base; base == 0 {
			break
		}
	}
	return 0, 0, nil
}
