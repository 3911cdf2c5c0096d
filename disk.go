package warmlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// disk is a file system that has a part of the store.
type disk struct {
	dir       string // the part that was measured
	device    uint64
	used, all int64 // bytes
}

// percent returns how full it is, rounded up.
func (d *disk) percent() int {
	if d.all <= 0 {
		return 0
	}
	return int((d.used*100 + d.all - 1) / d.all)
}

// relief is by how many percent of a disk a limit must be fallen short of before a condition
// that was set by it ends: it else would come and go with every message.
const relief = 2

// endsAt returns the level, in percent, at or below which a condition with a limit ends.
func endsAt(limit int) int { return limit - min(relief, limit/10) }

// over reports whether a condition with a limit is set at a level, if it was or was not before.
func over(was bool, percent, limit int) bool {
	if was {
		limit = endsAt(limit)
	}
	return percent > limit
}

// disks measures the file systems of the store, each by its own path, the log's first. What is
// deleted but still held open counts as free.
func (s *Store) disks() (all []disk, err error) {
	for _, dir := range []string{s.paths.CommitLog(), s.paths.ConsumeQueue(), s.paths.Index(), string(s.paths)} {
		d, err := measureDisk(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // not made yet
		}
		if err != nil {
			return nil, err
		}
		known := false
		for i := range all {
			known = known || all[i].device == d.device
		}
		if known {
			continue
		}
		if dir == s.paths.CommitLog() {
			d.used = max(0, d.used-s.log.Unlinked())
		}
		all = append(all, d)
	}
	return all, nil
}

// measure sets and clears what depends on how full the file systems are. It never waits for a
// deletion. It returns by how many bytes the log's is above the level at which deletion ends, 0
// where none is needed.
func (s *Store) measure() (excess int64, err error) {
	w, r := s.w, &s.options.Retention
	w.measureMu.Lock()
	defer w.measureMu.Unlock()
	var disks []disk
	if r.WarnAbove > 0 || r.RefuseAbove > 0 || r.DeleteAbove > 0 {
		if disks, err = s.disks(); err != nil {
			return 0, err
		}
	}
	for i := range disks {
		d := &disks[i]
		s.level(d, DiskWarning, r.WarnAbove)
		s.level(d, DiskFull, r.RefuseAbove)
		if d.dir == s.paths.CommitLog() && s.level(d, DiskCleaning, r.DeleteAbove) {
			excess = max(1, d.used-d.all/100*int64(endsAt(r.DeleteAbove)))
		}
	}
	if n := w.noSpace.Load(); n > 0 && w.appender.Room(n) == nil {
		s.spaceFound()
	}
	return excess, nil
}

// level sets or clears a condition that a limit sets, and reports whether it is set.
func (s *Store) level(d *disk, name string, limit int) bool {
	on := limit > 0 && over(s.has(name, d.dir), d.percent(), limit)
	err := fmt.Errorf("%s: the file system is full by %d %% (%d of %d bytes); the limit is %d %%", d.dir, d.percent(), d.used, d.all, limit)
	if name == DiskFull {
		err = fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	s.condition(on, Condition{Name: name, Path: d.dir, Refuses: name == DiskFull, Err: err})
	return on
}

// noteRoom notes whether an append of n bytes found room on the disk, and returns its error.
func (s *Store) noteRoom(n int64, err error) error {
	switch lacked := s.w.noSpace.Load(); {
	case errors.Is(err, ErrNoSpace):
		s.w.noSpace.Store(n)
		s.condition(true, Condition{Name: NoSpace, Path: s.paths.CommitLog(), Err: err})
	case err == nil && lacked > 0 && n >= lacked:
		s.spaceFound()
	}
	return err
}

// spaceFound notes that there is room again.
func (s *Store) spaceFound() {
	s.w.noSpace.Store(0)
	s.condition(false, Condition{Name: NoSpace, Path: s.paths.CommitLog()})
}

// measureInterval is how often the file systems are measured at the least.
const measureInterval = time.Second

// keepMeasured measures the file systems until ctx ends. Deletion has a goroutine of its own: a
// file that takes long to delete must not hide that the disk runs full meanwhile.
func (s *Store) keepMeasured(ctx context.Context) {
	tick := time.NewTicker(min(measureInterval, s.options.Retention.Interval))
	defer tick.Stop()
	for {
		excess, err := s.measure()
		s.condition(err != nil, Condition{Name: RetentionFailed, Path: string(s.paths), Err: err})
		if excess > 0 {
			select {
			case s.w.clean <- struct{}{}:
			default:
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
