package warmlog

import (
	"context"
	"fmt"
	"time"

	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/mapfile"
)

// How often what is in memory goes to the disk.
const (
	syncInterval       = 500 * time.Millisecond // of the log
	checkpointInterval = 10 * time.Second
	checkpointBytes    = 256 << 20 // of the log since the last one: what recovery reads at the most
)

// persist brings the log, queues and index to the disk until ctx ends.
func (s *Store) persist(ctx context.Context) {
	tick := time.NewTicker(syncInterval)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.w.early:
		}
		if err := s.w.appender.Commit(ctx, s.w.appender.End()); err != nil && ctx.Err() == nil {
			s.options.Logger.Error("the log is not synced", "error", err)
			continue
		}
		behind := s.w.dispatch.pos.Load() - s.w.checkpointed.Load()
		if behind < checkpointBytes && (behind == 0 || time.Since(last) < checkpointInterval) {
			continue
		}
		last = time.Now()
		_ = s.Checkpoint(ctx) // a condition tells
	}
}

// Checkpoint brings to the disk what was appended and dispatched, and notes how far that is:
// the next start reads the log from there on. It is called in the background, and by Close.
func (s *Store) Checkpoint(ctx context.Context) error {
	if s.w == nil {
		return ErrReadOnly
	}
	err := mapfile.Explained(s.takeCheckpoint(ctx))
	s.condition(err != nil && ctx.Err() == nil, Condition{Name: NoCheckpoint, Path: string(s.paths), Err: err})
	return err
}

func (s *Store) takeCheckpoint(ctx context.Context) error {
	w := s.w
	w.checkpointMu.Lock()
	defer w.checkpointMu.Unlock()
	return s.checkpointLocked(ctx)
}

// checkpointLocked is Checkpoint with checkpointMu held.
func (s *Store) checkpointLocked(ctx context.Context) error {
	w := s.w
	if w.notSynced != nil {
		return fmt.Errorf("no checkpoint since a sync failed: %w", w.notSynced)
	}
	// What was delivered below pos is in the queues: flushing them takes all of it.
	w.index.mu.Lock()
	pos := w.dispatch.pos.Load()
	lastTime, lastPos := w.dispatch.lastTime.Load(), w.dispatch.lastPos.Load()
	ends := s.queueEnds(pos)
	w.index.mu.Unlock()
	// First, as it opens nothing and gives descriptors back.
	if err := w.appender.Commit(ctx, pos); err != nil {
		return err
	}
	if err := s.flushQueues(); err != nil {
		return err
	}
	keyless, err := s.syncIndex(ctx, pos)
	if err != nil {
		return err
	}
	c := s.checkpoint
	c.IndexTime = w.index.w.FilledTime()
	// Where this run has seen no record, what was noted before is still right, unless the log
	// was cut below.
	if lastTime > 0 || c.LogicsOffset >= pos {
		c.PhysicTime, c.LogicsTime, c.LogicsOffset, c.ConfirmOffset = lastTime, lastTime, lastPos, lastPos
	}
	c.MasterFlushed = 0
	// Before the others, which need no space: they go on belonging together on a full disk.
	if err := replaceFile(s.paths.QueueEnds(), s.paths.Temp(), bytesOnly(ends)); err != nil {
		return err
	}
	if err := layout.WriteCheckpoint(s.paths.Checkpoint(), c); err != nil {
		return err
	}
	s.mu.Lock()
	s.checkpoint = c
	s.mu.Unlock()
	if err := w.state.Write(layout.State{Durable: w.appender.Durable(), Dispatched: pos, Mode: w.mode(), Keyless: keyless, Checkpoint: c.Digest()}); err != nil {
		return err
	}
	w.checkpointed.Store(pos)
	return nil
}

// flushQueues brings all queue entries that are only in memory to the disk.
func (s *Store) flushQueues() error {
	if err := s.writeQueues(); err != nil {
		return err
	}
	return s.syncQueues()
}

// writeQueues writes all queue entries that are only in memory to their files.
func (s *Store) writeQueues() error {
	w := s.w
	dirty := w.dispatch.takeDirty()
	for i, q := range dirty {
		var err error
		if w.unsynced, err = q.Flush(w.unsynced); err != nil {
			w.dispatch.giveBackDirty(dirty[i:])
			return err
		}
	}
	return nil
}

// syncQueues syncs what was written of the queues, and what the last run left.
func (s *Store) syncQueues() error {
	w := s.w
	if w.left {
		paths, err := s.leftPaths()
		if err != nil {
			return err
		}
		w.unsynced, w.left = append(w.unsynced, paths...), false
	}
	if err := syncPaths(s.paths, w.unsynced); err != nil {
		// The kernel tells a failure once: a later success would prove nothing. What could not
		// be opened did not fail.
		if !mapfile.AtLimit(err) {
			w.notSynced = err
		}
		return err
	}
	w.unsynced = w.unsynced[:0]
	return nil
}
