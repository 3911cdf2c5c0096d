package warmlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmlog/warmlog/commitlog"
	"github.com/warmlog/warmlog/internal/layout"
)

// writer is what a store has that is open for writing.
type writer struct {
	durability Durability
	lock       *layout.Lock
	state      *layout.StateFile
	known      bool // the state was there, and is sound
	stateLost  bool // it was damaged
	cut        bool // something lay behind the end of the log
	ends       bool // the ends of queues at the last checkpoint are known

	appender *commitlog.Appender
	dispatch *delivery
	acks     acks
	index    *indexer
	// using is held for reading while something is appended, and taken by Close.
	using sync.RWMutex

	// replica says that the log has records that another store numbered: see AppendRaw.
	replica atomic.Bool

	// failed is why nothing more is dispatched or appended. It stays.
	failed atomic.Pointer[error]

	conditions conditions
	noSpace    atomic.Int64  // bytes of the append that found no room last; 0: there is room
	measureMu  sync.Mutex    // one measures at a time
	clean      chan struct{} // wakes who deletes
	retainMu   sync.Mutex    // one deletes at a time

	early chan struct{} // asks for a sync before its time

	// checkpointed is the dispatched position that the state has on disk.
	checkpointed atomic.Int64

	checkpointMu sync.Mutex // one checkpoint at a time
	unsynced     []string   // queue files and directories; guarded by checkpointMu
	left         bool       // the last run may have left anything in memory only; likewise
	notSynced    error      // why there will be no checkpoint any more; guarded by checkpointMu
}

// claim makes a store this process's to write.
func claim(ctx context.Context, paths layout.Store, o Options) (*writer, error) {
	w := &writer{durability: o.Durability, early: make(chan struct{}, 1), acks: acks{wake: make(chan struct{}, 1)}, clean: make(chan struct{}, 1)}
	var err error
	if w.lock, err = takeLock(ctx, paths, o); err != nil {
		return nil, err
	}
	w.state, w.known, err = layout.OpenState(paths.State())
	if errors.Is(err, ErrDamaged) {
		o.Logger.Warn("the state of the store is begun anew", "error", err)
		w.stateLost, err = true, nil
	}
	if err == nil {
		err = os.MkdirAll(paths.CommitLog(), 0o755)
	}
	if err == nil {
		err = emptyDir(paths.Temp())
	}
	if err != nil {
		w.unclaim()
		return nil, err
	}
	return w, nil
}

// lockPoll is how often the lock is tried: a wait in the kernel could not be left.
const lockPoll = 20 * time.Millisecond

// takeLock takes a store's lock, and waits for Options.LockWait where it is held.
func takeLock(ctx context.Context, paths layout.Store, o Options) (*layout.Lock, error) {
	for until := time.Now().Add(o.LockWait); ; {
		l, err := layout.Take(paths)
		left := time.Until(until)
		if o.LockWait == 0 || !errors.Is(err, ErrInUse) {
			return l, err
		}
		if left <= 0 {
			return nil, fmt.Errorf("%w; waited %v", err, o.LockWait)
		}
		o.Progress(Progress{Phase: fmt.Sprintf("waiting: %v", err)})
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(min(left, lockPoll)):
		}
	}
}

// emptyDir makes a directory and removes what an earlier run left there.
func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := os.Remove(filepath.Join(dir, n.Name())); err != nil {
			return err
		}
	}
	return nil
}

// unclaim gives the store back.
func (w *writer) unclaim() {
	if w.index != nil {
		_ = w.index.w.Close() // the next start makes what is missing
	}
	if w.state != nil {
		_ = w.state.Close() // each write was synced
	}
	_ = w.lock.Release()
}

// believed returns the state of the store, and whether it may be believed: it belongs to the
// checkpoint that is there, and to the log. Who opens for reading, and says how much is to be
// read, or finds that the store was not stopped in order, does not rest on it.
func (s *Store) believed() (st layout.State, ok bool) {
	switch {
	case s.w != nil && s.w.known:
		st = s.w.state.Last()
	case s.w == nil && s.options.CheckBytes == 0 && !s.abort.Exists:
		var err error
		if st, err = layout.ReadState(s.paths.State()); err != nil {
			return st, false // more of the log is read
		}
	default:
		return st, false
	}
	ok = st.Checkpoint == s.checkpoint.Digest() && st.Dispatched >= s.log.Min() && st.Dispatched <= s.log.Limit() && s.anyFileOrNone(st)
	return st, ok
}

// anyFileOrNone reports whether there are queue files, as there must be where something was
// dispatched. Somebody may have removed them, to have them made again.
func (s *Store) anyFileOrNone(st layout.State) bool { return s.anyFile || st.Dispatched == s.log.Min() }

// refuseSize refuses to write segments of another size than the log has.
func (s *Store) refuseSize() error {
	if s.log.SegmentSize() == 0 {
		s.log.SetSegmentSize(defaultSegmentSize)
	}
	// A single file can be one of another size, or one that was cut: it would be made longer.
	if all := s.log.Segments(); len(all) == 1 && all[0].Size != s.log.SegmentSize() && s.options.SegmentSize != 0 {
		return fmt.Errorf("%s: %d bytes, segments of %d asked for: %w", all[0].Path(), all[0].Size, s.options.SegmentSize, layout.ErrFileSize)
	}
	return nil
}

// startWriting makes the store ready for appends, when its end is known.
func (s *Store) startWriting(ctx, run context.Context) error {
	w := s.w
	if err := s.recoverEnd(ctx); err != nil {
		return err
	}
	end := s.log.Max()
	if st, ok := s.believed(); ok { // retention goes by it, as long as a full disk takes no other
		w.checkpointed.Store(min(st.Dispatched, end))
	}
	durable, err := s.durableTo(end)
	if err != nil {
		return err
	}
	w.appender, err = s.log.OpenAppender(end, durable, max(s.newest, s.checkpoint.PhysicTime), commitlog.AppendOptions{
		Mode: w.mode(), Temp: s.paths.Temp(), WithCRC: s.options.RecordCRC, Failed: s.options.Failed,
	})
	if err != nil {
		return err
	}
	if err = s.completeIndex(ctx); err != nil {
		w.appender.Close()
		return err
	}
	s.log.StartFresh(end)
	s.log.Pin(s.options.PinTail)
	w.dispatch = newDelivery(s, end)
	w.dispatch.lastTime.Store(s.newest)
	w.dispatch.lastPos.Store(s.lastRecord.Load())
	if err = s.adoptQueues(ctx); err == nil && s.asLeft() {
		w.checkpointed.Store(end)
	} else if err == nil {
		if s.stillTrue() {
			err = s.writeQueues() // an entry that a kill left half written is whole again
		} else {
			err = s.Checkpoint(ctx)
		}
		switch {
		case layout.NoRoom(err):
			s.note("opened without a checkpoint: %v", err) // reads and deletions are what is needed now
			err = nil
		case err == nil && s.cutAt >= 0:
			err = s.forgetCut()
		}
	}
	if err == nil {
		err = layout.CreateAbort(s.paths.Abort())
	}
	if err != nil {
		w.appender.Close()
		return err
	}
	s.done.Go(func() { w.dispatch.run(run) })
	s.done.Go(func() { w.acks.run(run, w) })
	s.done.Go(func() { s.persist(run) })
	s.done.Go(func() { s.keepMeasured(run) })
	if r := s.options.Retention; r.MaxAge > 0 || r.MaxBytes > 0 || r.DeleteAbove > 0 {
		s.done.Go(func() { s.keepLimits(run) })
	}
	return nil
}

// asLeft reports whether the store is as its last run said: a checkpoint would say the same.
func (s *Store) asLeft() bool {
	w, end := s.w, s.log.Max()
	st, ok := s.believed()
	return ok && w.ends && s.cutAt < 0 && !s.abort.Exists && !w.cut && len(w.dispatch.dirty) == 0 &&
		st.Dispatched == end && st.Durable == end && st.Mode == w.mode() && w.index.next == end
}

// mostUnsynced is how many segments may be left for the first sync of the log in the background.
const mostUnsynced = 8

// durableTo returns up to where the log is known to be on disk. Where the last run may have left
// much in memory only, it is synced here.
func (s *Store) durableTo(end int64) (int64, error) {
	if !s.abort.Exists {
		return end, nil
	}
	durable := s.log.Min()
	if s.w.known {
		durable = max(durable, min(s.w.state.Last().Durable, end))
	}
	var left []string
	for _, seg := range s.log.Segments() {
		if seg.End() > durable {
			left = append(left, seg.Path())
		}
	}
	// What is seen in a Flushed store is on disk.
	if len(left) <= mostUnsynced && s.w.mode() == layout.Written {
		return durable, nil
	}
	return end, syncPaths(s.paths, append(left, s.paths.CommitLog()))
}

// stillTrue reports whether what the state says of a store that was not stopped in order goes
// on being so: the next checkpoint, which has much to sync, can be taken in the background.
func (s *Store) stillTrue() bool {
	_, ok := s.believed()
	return ok && s.abort.Exists && s.cutAt < 0
}

// adoptQueues writes the entries that reading the log's end has brought.
func (s *Store) adoptQueues(ctx context.Context) error {
	for _, q := range s.queues.All() {
		if s.abort.Exists || s.w.cut {
			if _, _, err := q.Bounds(ctx); err != nil {
				return err
			}
			var err error
			if s.w.unsynced, err = q.Trim(s.w.unsynced); err != nil {
				return err
			}
		}
		if q.Unflushed() {
			s.w.dispatch.dirty = append(s.w.dispatch.dirty, q)
		}
	}
	return nil
}

// mode is how the log is written.
func (w *writer) mode() layout.Mode {
	if w.durability == Flushed {
		return layout.Flushed
	}
	return layout.Written
}

// flushes reports whether an append waits for the disk.
func (w *writer) flushes(d Durability) bool { return d == Flushed || w.durability == Flushed }

func (w *writer) failure() error {
	if err := w.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// fail ends dispatch and appends: what cannot be dispatched would be seen by nobody.
func (s *Store) fail(err error) {
	if s.w.failed.CompareAndSwap(nil, &err) {
		s.options.Failed(err)
	}
}

// keepLimits looks at the limits of retention until ctx ends.
func (s *Store) keepLimits(ctx context.Context) {
	tick := time.NewTicker(s.options.Retention.Interval)
	defer tick.Stop()
	for {
		_, err := s.Retain(ctx)
		failed := err != nil && ctx.Err() == nil && !errors.Is(err, ErrClosed) // a store is closed before ctx ends
		s.condition(failed, Condition{Name: RetentionFailed, Path: s.paths.CommitLog(), Err: err})
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.w.clean:
		}
	}
}

// Dispatched returns when everything that is visible in the log is visible in its queues:
// a pull then finds what was appended before.
func (s *Store) Dispatched(ctx context.Context) error {
	if s.w == nil {
		return ErrReadOnly
	}
	return s.w.dispatch.wait(ctx, s.log.Max())
}

// close ends the writing: what was appended is dispatched and on disk, or the marker stays
// that makes the next start look.
func (w *writer) close(s *Store) error {
	s.closingStep("appends that are under way")
	w.using.Lock() // appends that had begun have ended
	//lint:ignore SA2001 nothing is guarded: a callback may try to append, and must be refused
	w.using.Unlock()
	s.closingStep("the log, of which %d bytes are to be synced", w.appender.End()-w.appender.Durable())
	w.acks.settle(w)
	err := w.appender.Commit(context.Background(), w.appender.End())
	if err == nil {
		err = w.appender.Failed() // also where all that was appended before is on disk
	}
	s.closingStep("queues and index, which are behind by %d bytes of the log", w.appender.End()-w.checkpointed.Load())
	for err == nil && w.dispatch.step() {
	}
	err = errors.Join(err, w.failure(), w.dispatch.stalled())
	if err == nil {
		err = s.Checkpoint(context.Background())
	}
	w.index.mu.Lock()
	defer w.index.mu.Unlock()
	err = errors.Join(err, w.index.w.Close(), w.appender.Close())
	if err == nil {
		err = layout.RemoveAbort(s.paths.Abort())
	}
	w.unclaim()
	if err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}
