package warmlog

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
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
	// WarnAbove sets the condition [DiskWarning] while a file system that has a part of the
	// store is fuller than this many percent; 0: never.
	//
	// What a level has set, of this field and those below, ends two percent below it (less for
	// levels under 20).
	WarnAbove int
	// DeleteAbove deletes the oldest segments, whatever their age, when the log's file system
	// is fuller than this many percent; 0: never. Where queues or index lie on another one that
	// is full, nothing is deleted: segments would go, and that disk might stay full.
	DeleteAbove int
	// RefuseAbove refuses appends, with [ErrNoSpace], while a file system that has a part of
	// the store is fuller than this many percent; 0: never.
	RefuseAbove int
	// KeepUnread keeps a segment that has messages which a group of Readers has still to read,
	// but for MaxAge. A disk that runs full then refuses appends. Else they are deleted, and
	// Options.Expiring, Options.Expired and the log tell.
	KeepUnread bool
	// Readers returns the consumer groups that read a queue, each with the offset of the
	// message that it reads next; nil where none does. It is called before a segment is deleted.
	Readers func(topic string, queueID int32) iter.Seq2[string, int64]
	// Interval is how often MaxAge and MaxBytes are looked at; 0: 10 s. File systems are
	// measured as often, and every second at the least.
	Interval time.Duration
}

// RocketMQRetention is what a broker of RocketMQ does by default: 72 hours, deletion at any
// age above 85 % of the disk, no messages above 90 %. (It warns of nothing at 75 %; it deletes by
// the time of a file's last change, and what has expired in the hour of 4 o'clock only.)
func RocketMQRetention() Retention {
	return Retention{MaxAge: 72 * time.Hour, WarnAbove: 75, DeleteAbove: 85, RefuseAbove: 90}
}

const retentionInterval = 10 * time.Second

func (r *Retention) faults() (faults []error) {
	percent := func(name string, v int) {
		if v < 0 || v > 100 {
			faults = append(faults, fmt.Errorf("retention: %s is %d percent", name, v))
		}
	}
	percent("WarnAbove", r.WarnAbove)
	percent("DeleteAbove", r.DeleteAbove)
	percent("RefuseAbove", r.RefuseAbove)
	if r.MaxAge < 0 || r.MaxBytes < 0 || r.Interval < 0 {
		faults = append(faults, fmt.Errorf("retention: age %v, %d bytes, interval %v", r.MaxAge, r.MaxBytes, r.Interval))
	}
	if r.KeepUnread && r.Readers == nil {
		faults = append(faults, fmt.Errorf("retention: KeepUnread without Readers"))
	}
	return faults
}

// Unread is how many messages of a queue are deleted before a consumer group has read them.
type Unread struct {
	Group    string
	Topic    string
	QueueID  int32
	Messages int64
}

// Expired says that a segment is deleted.
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
	// What is freed counts from here on: a file system may say so only later.
	excess, err := s.measure()
	if err != nil {
		return nil, err
	}
	var all []Expired
	for ctx.Err() == nil {
		e, err := s.retainOne(ctx, excess)
		if err != nil {
			return all, err
		}
		if e == nil {
			break
		}
		excess -= e.Bytes
		all = append(all, *e)
		if s.options.Expired != nil {
			s.options.Expired(*e)
		}
	}
	if len(all) == 0 {
		return nil, ctx.Err()
	}
	if _, err := s.measure(); err != nil {
		return all, err
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

// retainOne deletes the oldest segment, if it is beyond a limit. excess is by how many bytes its
// file system is above the level at which deletion ends.
func (s *Store) retainOne(ctx context.Context, excess int64) (*Expired, error) {
	segments := s.log.Segments()
	if len(segments) < 2 {
		return nil, nil
	}
	r, first := &s.options.Retention, segments[0]
	why, forced := "", true
	switch {
	case r.MaxAge > 0 && s.olderThan(segments, r.MaxAge):
		why, forced = fmt.Sprintf("older than %v", r.MaxAge), false
	case r.MaxBytes > 0 && s.log.Max()-segments[1].Base >= r.MaxBytes:
		why = fmt.Sprintf("the log is larger than %d bytes", r.MaxBytes)
	case excess > 0:
		why = fmt.Sprintf("the disk was fuller than %d %%", r.DeleteAbove)
	}
	var unread []Unread
	var err error
	if why != "" {
		unread, err = s.unread(ctx, segments[1].Base)
	}
	if err != nil {
		return nil, err
	}
	kept := Condition{Name: KeptUnread, Path: s.paths.CommitLog()}
	if forced && r.KeepUnread && len(unread) > 0 {
		kept.Err = fmt.Errorf("%s is kept (%s): %d groups and queues have messages in it that are still to be read, the first one %+v", first.Path(), why, len(unread), unread[0])
		s.condition(true, kept)
		return nil, nil
	}
	s.condition(false, kept)
	if why == "" {
		return nil, nil
	}
	// The next start reads the log from the checkpoint on.
	if segments[1].Base > s.w.checkpointed.Load() {
		if err := s.Checkpoint(ctx); err != nil {
			return nil, err
		}
		if segments[1].Base > s.w.checkpointed.Load() {
			return nil, nil // not dispatched yet
		}
	}
	e := Expired{first.Path(), first.Base, first.Size, why, unread}
	for _, u := range unread {
		s.options.Logger.Warn("messages are deleted that were not read", "group", u.Group, "topic", u.Topic, "queue", u.QueueID, "messages", u.Messages, "file", e.File, "why", why)
	}
	if s.options.Expiring != nil {
		s.options.Expiring(e)
	}
	if e.Bytes, err = s.log.RemoveFirst(); err != nil {
		return nil, err
	}
	s.options.Logger.Info("segment deleted", "file", first.Path(), "why", why)
	return &e, nil
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

// unread returns what consumer groups have still to read below a physical offset, by topic,
// queue and group.
func (s *Store) unread(ctx context.Context, below int64) (all []Unread, err error) {
	readers := s.options.Retention.Readers
	if readers == nil {
		return nil, nil
	}
	for _, q := range s.queues.All() {
		groups := readers(q.Topic(), q.ID())
		if groups == nil {
			continue
		}
		low, _, err := q.Bounds(ctx)
		if err != nil {
			return nil, err
		}
		next, from := q.FirstAt(below), len(all)
		for group, offset := range groups {
			if n := next - max(offset, low); n > 0 {
				all = append(all, Unread{group, q.Topic(), q.ID(), n})
			}
		}
		slices.SortFunc(all[from:], func(a, b Unread) int { return cmp.Compare(a.Group, b.Group) })
	}
	return all, nil
}
