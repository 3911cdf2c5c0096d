package warmlog

import (
	"context"
	"fmt"
	"time"

	"github.com/warmlog/warmlog/commitlog"
)

// Retention says what is deleted. The zero Retention deletes nothing and refuses nothing.
// What is deleted is whole segments, from the oldest on, never the one in use; queue and
// index files follow.
type Retention struct {
	// MaxAge deletes a segment when its last record was stored longer ago; 0: no limit.
	MaxAge time.Duration
	// MaxBytes deletes the oldest segments of a log that is larger; 0: no limit.
	MaxBytes int64
	// DeleteAbove deletes the oldest segments, whatever their age, while the file system is
	// fuller than this many percent; 0: never.
	DeleteAbove int
	// RefuseAbove refuses appends, with [ErrNoSpace], while the file system is fuller than
	// this many percent; 0: never.
	RefuseAbove int
	// KeepUnread keeps a segment that has messages which Lowest says are still to be read,
	// but for MaxAge: a full disk then refuses appends.
	KeepUnread bool
	// Lowest returns the lowest offset that a consumer group still has to read of a queue,
	// false where no group reads it. It is asked before a segment is deleted.
	Lowest func(topic string, queueID int32) (offset int64, ok bool)
	// Interval is how often the limits are looked at; 0: 10 s.
	Interval time.Duration
}

// RocketMQRetention is what a broker of RocketMQ does by default: 72 hours, deletion at any
// age above 85 % of the disk, no messages above 90 %. (It deletes by the time of a file's
// last change, and what has expired in the hour of 4 o'clock only.)
func RocketMQRetention() Retention {
	return Retention{MaxAge: 72 * time.Hour, DeleteAbove: 85, RefuseAbove: 90}
}

const retentionInterval = 10 * time.Second

func (r *Retention) faults() (faults []error) {
	percent := func(name string, v int) {
		if v < 0 || v > 100 {
			faults = append(faults, fmt.Errorf("retention: %s is %d percent", name, v))
		}
	}
	percent("DeleteAbove", r.DeleteAbove)
	percent("RefuseAbove", r.RefuseAbove)
	if r.MaxAge < 0 || r.MaxBytes < 0 || r.Interval < 0 {
		faults = append(faults, fmt.Errorf("retention: age %v, %d bytes, interval %v", r.MaxAge, r.MaxBytes, r.Interval))
	}
	if r.KeepUnread && r.Lowest == nil {
		faults = append(faults, fmt.Errorf("retention: KeepUnread without Lowest"))
	}
	return faults
}

// Unread is how many messages of a queue were deleted before a consumer had read them.
type Unread struct {
	Topic    string
	QueueID  int32
	Messages int64
}

// Expired says that a segment was deleted.
type Expired struct {
	File   string
	From   int64 // physical offset of its first byte
	Bytes  int64
	Why    string // the limit, in a few words
	Unread []Unread
}

// Retain looks at the limits of Options.Retention now, as is done in the background, and
// deletes what is beyond them. It returns what was deleted.
func (s *Store) Retain(ctx context.Context) ([]Expired, error) {
	switch {
	case s.w == nil:
		return nil, ErrReadOnly
	case s.closed.Load():
		return nil, ErrClosed
	}
	s.w.retainMu.Lock()
	defer s.w.retainMu.Unlock()
	var all []Expired
	for ctx.Err() == nil {
		e, err := s.retainOne(ctx)
		if err != nil {
			return all, err
		}
		if e == nil {
			break
		}
		all = append(all, *e)
		if s.options.Expired != nil {
			s.options.Expired(*e)
		}
	}
	if err := s.setFull(); err != nil {
		return all, err
	}
	if len(all) == 0 {
		return nil, ctx.Err()
	}
	for _, q := range s.queues.All() {
		if _, err := q.Expire(); err != nil {
			return all, err
		}
	}
	s.w.index.mu.Lock()
	defer s.w.index.mu.Unlock()
	if _, _, err := s.w.index.w.DeleteBelow(s.log.Min()); err != nil {
		return all, err
	}
	return all, ctx.Err()
}

// retainOne deletes the oldest segment, if it is beyond a limit.
func (s *Store) retainOne(ctx context.Context) (*Expired, error) {
	segments := s.log.Segments()
	if len(segments) < 2 || segments[1].Base > s.w.checkpointed.Load() {
		return nil, nil // the next start reads from there on
	}
	r, first := &s.options.Retention, segments[0]
	why, forced := "", false
	switch {
	case r.MaxAge > 0 && s.olderThan(segments, r.MaxAge):
		why = fmt.Sprintf("older than %v", r.MaxAge)
	case r.MaxBytes > 0 && s.log.Max()-segments[1].Base >= r.MaxBytes:
		why, forced = fmt.Sprintf("the log is larger than %d bytes", r.MaxBytes), true
	case r.DeleteAbove > 0:
		used, err := diskUsed(s.paths.CommitLog(), s.log.Unlinked())
		if err != nil {
			return nil, err
		}
		if used > r.DeleteAbove {
			why, forced = fmt.Sprintf("the disk is full by %d %%", used), true
		}
	}
	if why == "" {
		return nil, nil
	}
	unread, err := s.unread(ctx, segments[1].Base)
	if err != nil || forced && r.KeepUnread && len(unread) > 0 {
		return nil, err
	}
	freed, err := s.log.RemoveFirst()
	if err != nil {
		return nil, err
	}
	s.options.Logger.Info("segment deleted", "file", first.Path(), "why", why)
	return &Expired{first.Path(), first.Base, freed, why, unread}, nil
}

// olderThan reports whether the last record of the first segment is older than an age. It is
// not younger than the first one of the next segment: where that is old enough, so is it.
func (s *Store) olderThan(segments []*commitlog.Segment, age time.Duration) bool {
	limit := s.options.Clock().Add(-age).UnixMilli()
	if t := segments[0].LastTime(); t > 0 {
		return t < limit
	}
	v, _, err := s.log.ReadRecord(segments[1].Base, 0, nil)
	return err == nil && v.StoreTimestamp() < limit
}

// unread returns the queues with messages below a physical offset that are still to be read.
func (s *Store) unread(ctx context.Context, below int64) (all []Unread, err error) {
	lowest := s.options.Retention.Lowest
	if lowest == nil {
		return nil, nil
	}
	for _, q := range s.queues.All() {
		offset, ok := lowest(q.Topic(), q.ID())
		if !ok {
			continue
		}
		low, _, err := q.Bounds(ctx)
		if err != nil {
			return nil, err
		}
		if next := q.FirstAt(below); next > max(offset, low) {
			all = append(all, Unread{q.Topic(), q.ID(), next - max(offset, low)})
		}
	}
	return all, nil
}

// setFull refuses appends, or lets them in again.
func (s *Store) setFull() error {
	limit := s.options.Retention.RefuseAbove
	if limit == 0 {
		return nil
	}
	used, err := diskUsed(s.paths.CommitLog(), s.log.Unlinked())
	if err != nil {
		return err
	}
	s.w.full.Store(used > limit)
	return nil
}
