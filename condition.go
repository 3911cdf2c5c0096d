package warmlog

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The names of conditions.
const (
	// DiskWarning: a file system is fuller than Retention.WarnAbove.
	DiskWarning = "disk-warning"
	// DiskCleaning: the log's file system is fuller than Retention.DeleteAbove, and the oldest
	// segments are deleted.
	DiskCleaning = "disk-cleaning"
	// DiskFull: a file system is fuller than Retention.RefuseAbove, and appends are refused.
	DiskFull = "disk-full"
	// NoSpace: an append found no room on the disk. The next ones are tried all the same.
	NoSpace = "no-space"
	// KeptUnread: a limit asks for a deletion that Retention.KeepUnread forbids.
	KeptUnread = "kept-unread"
	// RetentionFailed: file systems could not be measured, or files not be deleted.
	RetentionFailed = "retention-failed"
	// NoCheckpoint: what is in memory could not be brought to the disk, and is tried again. The
	// next start has more to read.
	NoCheckpoint = "no-checkpoint"
	// DispatchWaits: what is appended does not come to its queues for as long as there is no
	// descriptor or mapping left: see [ErrLimit].
	DispatchWaits = "dispatch-waits"
	// AppendFailed: appends are refused until the store is opened again: see [ErrFailed].
	AppendFailed = "append-failed"
	// DispatchFailed: what is appended does not come to its queues until the store is opened
	// again. Appends are refused.
	DispatchFailed = "dispatch-failed"
)

// Condition is one reason why a store does less than it should, or soon may. Each cause has
// its own, set and cleared by what was measured or tried last, and by nothing else.
type Condition struct {
	Name    string    // one of the names above
	Path    string    // the directory that it concerns; empty: the store as a whole
	Since   time.Time // when it began, by the store's clock; zero where that is not known
	Refuses bool      // appends are refused while it lasts
	Err     error     // what happened; of a file system its path, how full it is, and the limit
}

// harmless reports whether the store does all that it should.
func (c *Condition) harmless() bool { return c.Name == DiskWarning || c.Name == DiskCleaning }

// conditions are those of a store that is written.
type conditions struct {
	// refuses is why appends are refused, nil if they are not.
	refuses atomic.Pointer[error]

	mu  sync.Mutex
	all []Condition // in the order in which they began; guarded by mu
}

// condition sets a condition, or clears it.
func (s *Store) condition(on bool, c Condition) {
	all := &s.w.conditions
	all.mu.Lock()
	i := slices.IndexFunc(all.all, func(o Condition) bool { return o.Name == c.Name && o.Path == c.Path })
	switch {
	case on && i < 0:
		c.Since = s.options.Clock()
		all.all = append(all.all, c)
	case on:
		c.Since = all.all[i].Since
		all.all[i] = c
	case i >= 0:
		all.all = slices.Delete(all.all, i, i+1)
	}
	var refuses *error
	if first := slices.IndexFunc(all.all, func(o Condition) bool { return o.Refuses }); first >= 0 {
		err := all.all[first].Err
		refuses = &err
	}
	all.refuses.Store(refuses)
	all.mu.Unlock()
	switch { // without the lock: a handler may ask for the conditions
	case on && i < 0:
		level := slog.LevelError
		if c.harmless() {
			level = slog.LevelWarn
		}
		s.options.Logger.Log(context.Background(), level, "condition", "name", c.Name, "path", c.Path, "error", c.Err)
	case !on && i >= 0:
		s.options.Logger.Info("condition ended", "name", c.Name, "path", c.Path)
	}
}

// has reports whether a condition is set.
func (s *Store) has(name, path string) bool {
	all := &s.w.conditions
	all.mu.Lock()
	defer all.mu.Unlock()
	return slices.ContainsFunc(all.all, func(o Condition) bool { return o.Name == name && o.Path == path })
}

// conditions returns what is set now.
func (s *Store) conditions() (all []Condition) {
	w := s.w
	if w == nil {
		return nil
	}
	if err := w.appender.Failed(); err != nil {
		all = append(all, Condition{Name: AppendFailed, Refuses: true, Err: err})
	}
	if err := w.failure(); err != nil {
		all = append(all, Condition{Name: DispatchFailed, Refuses: true, Err: err})
	}
	w.conditions.mu.Lock()
	defer w.conditions.mu.Unlock()
	return append(all, w.conditions.all...)
}

// Health returns why the store does not do all that it should, nil if it does: it takes no
// appends ([ErrFailed], [ErrNoSpace]), what is appended does not come to its queues or to the
// disk, or what should be deleted is not. What only may come to that is in Stats.Conditions.
func (s *Store) Health() error {
	if s.closed.Load() {
		return ErrClosed
	}
	var errs []error
	for _, c := range s.conditions() {
		if !c.harmless() {
			errs = append(errs, c.Err)
		}
	}
	return errors.Join(errs...)
}
