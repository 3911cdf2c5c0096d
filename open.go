package warmlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/warmlog/warmlog/commitlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/message"
	"github.com/warmlog/warmlog/pagecache"
	"github.com/warmlog/warmlog/progress"
)

func open(ctx context.Context, dir string, o Options) (_ *Store, err error) {
	s := &Store{options: o, paths: layout.Store(dir), cache: mapfile.NewCache(mapfile.DefaultLimit())}
	if err := s.refuse(); err != nil {
		return nil, err
	}
	if !o.ReadOnly {
		if s.w, err = claim(ctx, s.paths, o); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				s.w.unclaim()
			}
		}()
	}
	if s.threshold, err = pagecache.NewThreshold(o.Memory); err != nil {
		return nil, err
	}
	if err := s.readMarkers(); err != nil {
		return nil, err
	}
	s.cache.SetProber(s.prober)
	s.log, err = commitlog.OpenReadOnly(s.paths.CommitLog(), commitlog.Options{
		SegmentSize: o.SegmentSize, RefuseHoles: o.RefuseHoles, Cache: s.cache,
	})
	if err != nil {
		return nil, err
	}
	s.reader = &getmessage.Reader{Log: s.log, Limits: o.Limits, Threshold: s.threshold.Bytes, Policy: o.Policy, Strict: o.Strict, Lanes: getmessage.NewLanes(o.Lanes)}
	s.reader.SetRole(o.Role)
	s.waiters = s.newWaiters()
	if err := s.deleted.load(s.paths.Deleted()); err != nil {
		return nil, err
	}
	if s.w != nil && s.cutAt >= 0 {
		if err := s.deleted.cut(s.paths.Deleted(), s.paths.Temp(), s.cutAt); err != nil {
			return nil, err
		}
	}
	s.dispatch = newDispatcher(s)
	s.listed = time.Now()
	err = s.openQueues()
	if err == nil && s.w != nil {
		if err = s.refuseSize(); err == nil {
			err = s.purge()
		}
	}
	if err != nil {
		s.log.Close()
		return nil, err
	}
	if err := s.readTail(ctx); err != nil {
		s.closeFiles()
		return nil, err
	}
	run, stop := context.WithCancel(context.Background())
	s.stop = stop
	if s.w != nil {
		if err := s.startWriting(ctx, run); err != nil {
			stop()
			s.closeFiles()
			return nil, err
		}
	} else {
		s.done.Go(func() { s.followForWaiters(run) })
	}
	s.done.Go(func() { s.keepThreshold(run) })
	s.done.Go(func() { s.cache.Watch(run, s.stepWarm) })
	return s, nil
}

// refuse looks for what this engine does not support, and leaves it untouched.
func (s *Store) refuse() error {
	batches := s.paths.BatchConsumeQueue()
	named, err := consumequeue.List(batches)
	if err != nil {
		return err
	}
	if consumequeue.AnyFile(batches, named) {
		return fmt.Errorf("%s: batch consume queues: %w", batches, ErrUnsupported)
	}
	topics, _, err := progress.LoadTopics(filepath.Join(s.paths.Config(), "topics.json"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		s.note("topics are not known: %v", err)
	default:
		for name, topic := range topics.Table {
			if (&topic).BatchQueue() {
				return fmt.Errorf("%s: topic %s: batch consume queues: %w", s.paths.Config(), name, ErrUnsupported)
			}
		}
	}
	return nil
}

// readMarkers reads how the store was left.
func (s *Store) readMarkers() error {
	var err error
	s.checkpoint, err = layout.ReadCheckpoint(s.paths.Checkpoint())
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, ErrDamaged):
		// Without it more of the log is read, and nothing is lost.
		s.note("%v", err)
	case err != nil:
		return err
	}
	if s.abort, err = layout.ReadAbort(s.paths.Abort()); err != nil {
		return err
	}
	if s.cutAt, err = layout.ReadCut(s.paths.Cut()); errors.Is(err, ErrDamaged) {
		s.note("%v: the log is taken as it is", err) // the note is written whole before anything is cut
		err = nil
	}
	s.abort.Exists = s.abort.Exists || s.cutAt >= 0
	return err
}

// openQueues makes a queue of each directory. Its files are listed when it is first used.
func (s *Store) openQueues() error {
	dir := s.paths.ConsumeQueue()
	named, err := consumequeue.List(dir)
	if err != nil {
		return err
	}
	s.queueSize = consumequeue.FindFileSize(dir, named)
	if want := s.options.QueueFileSize; want != 0 {
		if s.queueSize != 0 && s.queueSize != want {
			return fmt.Errorf("%s: queue files of %d bytes, not of the %d asked for: %w", dir, s.queueSize, want, layout.ErrFileSize)
		}
		s.queueSize = want
	}
	if s.queueSize == 0 {
		s.queueSize = consumequeue.DefaultFileSize
	}
	s.anyFile = consumequeue.AnyFile(dir, named)
	for _, q := range named {
		s.addQueue(q.Topic, q.ID).SetExists()
	}
	return nil
}

// readTail reads the end of the log: it finds where it ends and gives what it sees to the
// queues.
func (s *Store) readTail(ctx context.Context) error {
	segments := s.log.Segments()
	if len(segments) == 0 {
		return nil
	}
	// Until the end is known, everything that checks out may be read.
	s.log.SetMax(s.log.Limit())
	last := s.log.LastStarted()
	from := s.tailBegin(segments, last)
	sealed := from
	if last != nil {
		sealed = last.Base
	}
	if st, ok := s.believed(); ok {
		from, sealed = st.Dispatched, st.Durable
		if s.cutAt < 0 || st.Dispatched <= s.cutAt {
			if err := s.expectEnds(st.Dispatched); err != nil {
				return err
			}
		}
	}
	to := s.log.Limit()
	if s.cutAt >= 0 {
		// What lies above is taken for tail, and nothing above was ever dispatched.
		to = min(to, s.cutAt)
		from = min(from, max(segments[0].Base, to-to%s.log.SegmentSize()))
		sealed = min(sealed, to)
	}
	s.scanned = from
	t := tail{Store: s, ctx: ctx, from: from, to: to, sealed: sealed, noted: from}
	if s.w != nil && s.abort.Exists {
		if err := s.openIndex(); err != nil {
			return err
		}
		if s.w.index.next == from {
			t.index = s.w.index
		}
	}
	if last != nil {
		t.until, t.last = last.End(), last.Base
	}
	end, err := t.read()
	if err != nil {
		return err
	}
	s.log.SetMax(end)
	s.read = end
	if t.index != nil {
		t.index.next = end
	}
	if err := s.dispatch.end(); err != nil {
		return err
	}
	return s.completeQueues(ctx)
}

// tailBegin returns the segment beginning from which on the log is read.
func (s *Store) tailBegin(segments []*commitlog.Segment, last *commitlog.Segment) int64 {
	i := len(segments) - 1
	for i > 0 && last != nil && segments[i] != last {
		i--
	}
	check := s.options.CheckBytes
	if last == nil || check < 0 || !s.anyFile {
		return segments[0].Base
	}
	if check == 0 {
		check = defaultCheckBytes
	}
	end := segments[i].End()
	for i > 0 && end-segments[i-1].Base <= check {
		i--
	}
	if s.abort.Exists {
		// RocketMQ's own rule for an unclean start: back to a segment whose first record is
		// older than what was flushed.
		flushed := s.checkpoint.MinTimestamp()
		for i > 0 && !s.beginsBefore(segments[i], flushed) {
			i--
		}
	}
	return segments[i].Base
}

func (s *Store) beginsBefore(seg *commitlog.Segment, flushed int64) bool {
	v, _, err := s.log.ReadRecord(seg.Base, 0, nil)
	return err == nil && v.StoreTimestamp() > 0 && v.StoreTimestamp() <= flushed
}

// completeQueues reads further back for queues of which the tail had messages, but not the
// ones before.
func (s *Store) completeQueues(ctx context.Context) error {
	if s.scanned == s.log.Min() {
		return nil
	}
	lack := newDispatcher(s)
	lack.below = map[*consumequeue.Queue]int64{}
	begin := s.scanned
	for q := range s.dispatch.at {
		from, below, err := q.Gap()
		if err != nil {
			return err
		}
		if below > 0 && from < s.scanned {
			lack.below[q] = below
			begin = min(begin, max(from, s.log.Min()))
		}
	}
	if len(lack.below) == 0 {
		return nil
	}
	s.note("%d queues lack messages that the log has: completed from physical offset %d on", len(lack.below), begin)
	err := s.records(ctx, begin, s.scanned, func(v *message.View, pos int64) error {
		s.report("completing queues", pos-begin, s.scanned-begin)
		return lack.add(v, pos)
	}, func(d *message.DamageError, _, _ int64) error { return s.damage(d) })
	if err != nil {
		return err
	}
	return lack.end()
}

func (s *Store) damage(d *message.DamageError) error {
	s.options.Logger.Warn("damage", "file", d.File, "offset", d.Offset, "error", d.Err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.damaged = append(s.damaged, d)
	return nil
}
