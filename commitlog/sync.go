package commitlog

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/planted"
)

// syncer brings records to the disk. Who needs that becomes the leader of a round, or waits
// for the round that somebody else leads.
type syncer struct {
	// durable is the physical offset up to which the log is on disk.
	durable atomic.Int64
	// written is, in Flushed mode, the physical offset up to which the files have the log.
	written atomic.Int64

	mu      sync.Mutex
	leading bool // guarded by mu
	// followers wait for the round in progress, before waited for the one before. Guarded by mu.
	followers, before int
	round             chan struct{} // closed when the round in progress ends; guarded by mu

	spare chunkBuffers
}

// chunkBuffers keeps the buffers of written chunks for the next ones.
type chunkBuffers struct {
	mu   sync.Mutex
	free [][]byte // guarded by mu
}

const mostFree = 4

func (s *syncer) buffer() []byte {
	s.spare.mu.Lock()
	defer s.spare.mu.Unlock()
	if n := len(s.spare.free); n > 0 {
		b := s.spare.free[n-1]
		s.spare.free = s.spare.free[:n-1]
		return b
	}
	return make([]byte, 0, 64<<10)
}

func (s *syncer) giveBack(b []byte) {
	s.spare.mu.Lock()
	defer s.spare.mu.Unlock()
	if len(s.spare.free) < mostFree && cap(b) <= 16<<20 {
		s.spare.free = append(s.spare.free, b[:0])
	}
}

// Durable returns the physical offset up to which the log is on disk.
func (a *Appender) Durable() int64 { return a.sync.durable.Load() }

// Written returns the physical offset up to which the log's files have it: a killed process
// leaves that much.
func (a *Appender) Written() int64 {
	if a.o.Mode == layout.Written {
		return a.pos.Load()
	}
	return a.sync.written.Load()
}

// Commit returns when the log is on disk up to a physical offset: it leads a round, or waits
// for the one in progress. The error is [ErrFailed], or that of ctx: the records then are
// in the log all the same, and may come to the disk. A log that was cut below that offset
// meanwhile had all of it on disk before.
func (a *Appender) Commit(ctx context.Context, to int64) error {
	for a.sync.durable.Load() < min(to, a.pos.Load()) {
		if err := a.Failed(); err != nil && !planted.SyncAfterFailure {
			return err
		}
		led, err := a.beginRound(ctx)
		if led {
			a.gather()
			if a.sync.durable.Load() < to { // else the round that has just ended did it
				err = a.lead()
			}
			a.endRound()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gather lets those append who were woken together with this goroutine, at the end of the last
// round: else a round would be of a few, and all others had to wait for it.
func (a *Appender) gather() {
	s := &a.sync
	for range mostYields {
		s.mu.Lock()
		come := s.followers >= s.before
		s.mu.Unlock()
		if come {
			return
		}
		runtime.Gosched()
	}
}

// mostYields bounds how often a round waits for producers that may not come again.
const mostYields = 64

// beginRound makes the caller the leader of a round, until endRound, or waits for the round that
// somebody else leads.
func (a *Appender) beginRound(ctx context.Context) (led bool, err error) {
	a.sync.mu.Lock()
	leading, round := a.sync.leading, a.sync.round
	a.sync.leading = true
	if leading {
		a.sync.followers++
	}
	a.sync.mu.Unlock()
	if !leading {
		return true, nil
	}
	select {
	case <-round:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (a *Appender) endRound() {
	a.sync.mu.Lock()
	defer a.sync.mu.Unlock()
	a.sync.leading = false
	a.sync.before, a.sync.followers = a.sync.followers, 0
	close(a.sync.round)
	a.sync.round = make(chan struct{})
}

// lead writes and syncs all that was appended.
func (a *Appender) lead() error {
	// A round that failed has dropped its chunks: no later one may move the durable position
	// past them. It was latched before this one could begin.
	if err := a.Failed(); err != nil && !planted.SyncAfterFailure {
		return err
	}
	a.mu.Lock()
	end, cur := a.mu.pos, a.mu.cur
	chunks, dirty := a.mu.chunks, a.mu.dirty[:len(a.mu.dirty):len(a.mu.dirty)]
	a.mu.chunks = nil
	a.mu.Unlock()
	for _, c := range chunks {
		if err := a.ahead.write(c); err != nil {
			return a.fail(err)
		}
		a.sync.giveBack(c.data)
	}
	raise(&a.sync.written, end)
	a.moved.Changed() // a slave may have it before it is on disk here
	names := false
	for _, w := range dirty {
		if err := syncData(w.file); err != nil && !planted.IgnoreSyncError {
			return a.fail(fmt.Errorf("sync %s: %w", w.seg.Path(), err))
		}
		names = names || !w.named
		w.named = true
	}
	if names {
		if err := a.dir.Sync(); err != nil {
			return a.fail(err)
		}
	}
	// Zeros that were synced meanwhile may have been told what concerns these records.
	a.ahead.syncing.Lock()
	err := a.Failed()
	a.ahead.syncing.Unlock()
	if err != nil && !planted.SyncAfterFailure {
		return err
	}
	if a.o.Mode == layout.Flushed && end <= a.show.limit.Load() {
		a.log.SetMax(end) // first: who sees that it is durable may expect to read it
	}
	a.ahead.synced.Store(true)
	a.sync.durable.Store(end)
	a.showMore() // where a limit moved meanwhile
	a.moved.Changed()
	a.giveUp(dirty, cur)
	return nil
}

// giveUp closes the segments of a round but the one that was in use when it began: the
// others were full, and nothing of them is left to write or sync.
func (a *Appender) giveUp(synced []*writing, cur *writing) {
	if len(synced) < 2 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.mu.dirty) > 0 && a.mu.dirty[0] != cur {
		_ = a.mu.dirty[0].close() // synced: closing has nothing left to fail with
		a.mu.dirty = a.mu.dirty[1:]
	}
}
