package warmlog

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/warmlog/warmlog/commitlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
	"github.com/warmlog/warmlog/progress"
)

// Info is what a store consists of.
type Info struct {
	Dir         string
	SegmentSize int64 // bytes; 0 in a store without segments
	QueueSize   int64 // bytes of a queue file
	MinOffset   int64 // physical, of the oldest byte
	MaxOffset   int64 // physical, behind the newest record
	Segments    []SegmentInfo
	Queues      []QueueInfo
	Index       []keyindex.File
	Groups      []GroupInfo
	Checkpoint  layout.Checkpoint
	// Clean says that the store was stopped in order: there is no abort file.
	Clean bool
	// Running says that a process holds the store's lock; PID is 0 where that is not told.
	Running bool
	PID     int
	// Cut is where recovery would end the log: the place, and what is wrong with what lies
	// there. The kind message.ErrMagic is usual: nothing was written there yet.
	Cut   *message.DamageError
	Notes []string
}

// SegmentInfo is one segment of the log.
type SegmentInfo struct {
	File string
	From int64 // physical offset of its first byte
	To   int64 // behind its last
	Size int64 // bytes of the file
}

// QueueInfo is one queue.
type QueueInfo struct {
	Topic string
	ID    int32
	Min   int64 // offset of the first message that is left
	Max   int64 // behind the last
	// FirstTime and LastTime are the store times of the first and last message, ms since
	// 1970; 0 where there is none, or its record is damaged.
	FirstTime, LastTime int64
}

// GroupInfo is how far a consumer group is in one queue, as it was last written to disk.
type GroupInfo struct {
	Group, Topic string
	QueueID      int32
	Offset       int64 // of the next message to consume
}

// Inspect says what the store consists of.
func (s *Store) Inspect(ctx context.Context) (*Info, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	if _, err := s.follow(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	checkpoint := s.checkpoint
	s.mu.Unlock()
	i := &Info{Dir: string(s.paths), SegmentSize: s.log.SegmentSize(), QueueSize: s.queueSize,
		Checkpoint: checkpoint, Clean: !s.abort.Exists, PID: s.abort.PID, Notes: s.Notes()}
	i.MinOffset, i.MaxOffset = s.Bounds()
	i.Cut = s.cut()
	held, pid, err := layout.Holder(s.paths.Lock())
	if err != nil {
		return nil, err
	}
	if i.Running = held; held && pid > 0 {
		i.PID = pid
	}
	i.Segments = s.Segments()
	if err := s.inspectQueues(ctx, i); err != nil {
		return nil, err
	}
	index, err := keyindex.Open(s.paths.Index(), keyindex.Options{})
	if err != nil {
		return nil, err
	}
	var notes []string
	if i.Index, notes, err = index.Files(); err != nil {
		return nil, err
	}
	i.Notes = append(i.Notes, notes...)
	return i, s.inspectGroups(i)
}

// cut returns where the log ends and what is there. A log that ends with a file has no
// byte there.
func (s *Store) cut() *message.DamageError {
	if s.tailCut != nil && s.log.Damage(s.log.Max(), nil).Offset == s.tailCut.Offset {
		return s.tailCut
	}
	return s.log.Damage(s.log.Max(), message.ErrMagic)
}

func (s *Store) inspectQueues(ctx context.Context, i *Info) error {
	for _, q := range s.queues.All() {
		low, high, err := q.Bounds(ctx)
		if err != nil {
			return err
		}
		info := QueueInfo{Topic: q.Topic(), ID: q.ID(), Min: low, Max: high}
		if low < high {
			if info.FirstTime, err = s.storeTime(ctx, q, low); err != nil {
				return err
			}
			if info.LastTime, err = s.storeTime(ctx, q, high-1); err != nil {
				return err
			}
		}
		i.Queues = append(i.Queues, info)
	}
	return nil
}

// storeTime returns the store time of a message, 0 where its record is damaged.
func (s *Store) storeTime(ctx context.Context, q *consumequeue.Queue, off int64) (int64, error) {
	r := messageReader{store: s, ctx: ctx, q: q}
	v, err := r.read(off)
	if errors.Is(err, ErrDamaged) || errors.Is(err, commitlog.ErrGone) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return v.StoreTimestamp(), nil
}

func (s *Store) inspectGroups(i *Info) error {
	offsets, origin, err := progress.LoadOffsets(filepath.Join(s.paths.Config(), "consumerOffset.json"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, progress.ErrNoGoodCopy):
		i.Notes = append(i.Notes, err.Error())
		return nil
	case err != nil:
		return err
	}
	if origin.Why != nil {
		i.Notes = append(i.Notes, origin.String())
	}
	for key, queues := range offsets.Table {
		topic, group := key.Split()
		for id, off := range queues {
			i.Groups = append(i.Groups, GroupInfo{Group: group, Topic: topic, QueueID: id, Offset: off})
		}
	}
	slices.SortFunc(i.Groups, func(a, b GroupInfo) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.QueueID, b.QueueID))
	})
	return nil
}

// Segments returns the segments of the log, by offset.
func (s *Store) Segments() []SegmentInfo {
	var all []SegmentInfo
	for _, seg := range s.log.Segments() {
		all = append(all, SegmentInfo{seg.Path(), seg.Base, seg.End(), seg.Size})
	}
	return all
}
