package warmlog

import (
	"context"
	"errors"
	"sort"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/message"
)

// queueLog is the log as a queue wants it.
type queueLog struct{ *Store }

func (l queueLog) Min() int64     { return l.log.Min() }
func (l queueLog) Max() int64     { return l.log.Max() }
func (l queueLog) Scanned() int64 { return l.scanned }

func (l queueLog) Holds(topic string, id int32, off int64, e consumequeue.Entry) bool {
	v, _, err := l.log.ReadRecord(e.Offset, e.Size, nil)
	return err == nil && v.Is(topic, id, off) && !l.deleted.covers([]byte(topic), id, e.Offset)
}

func (l queueLog) Lost(off int64) bool { return l.lost.has(off) }

func (l queueLog) Rescan(ctx context.Context, topic string, id int32, from, to int64, found func(int64, consumequeue.Entry)) (lost func(int64) bool, err error) {
	if from < l.log.Min() {
		from = l.log.Min()
	}
	var passed stretches
	if from >= to {
		return passed.has, nil
	}
	l.options.Logger.Info("reading the log for a queue", "topic", topic, "queue", id, "from", from, "to", to)
	err = l.records(ctx, from, to, func(v *message.View, pos int64) error {
		for p := range v.Places() {
			if p.QueueID == id && string(p.Topic) == topic && !l.deleted.covers(p.Topic, id, pos) {
				found(p.Offset, consumequeue.EntryOf(v, pos))
			}
		}
		return nil
	}, func(d *message.DamageError, from, to int64) error {
		if errors.Is(d, mapfile.ErrFault) {
			return d // out of service: what is there cannot be told
		}
		passed = append(passed, stretch{from, to})
		return nil
	})
	return passed.has, err
}

// stretch is a part of the log, by physical offsets, without a sound record.
type stretch struct{ from, to int64 }

// stretches are in ascending order.
type stretches []stretch

func (all stretches) has(off int64) bool {
	i := sort.Search(len(all), func(i int) bool { return all[i].to > off })
	return i < len(all) && off >= all[i].from
}

// records calls each for the sound records of a part of the log and damaged, if not nil,
// for what is passed over between them: what is wrong, and from where to where. from is
// where a record begins.
func (s *Store) records(ctx context.Context, from, to int64, each func(*message.View, int64) error, damaged func(d *message.DamageError, from, to int64) error) error {
	scan := s.log.Scan(from, to, true)
	defer scan.Close()
	for n := 0; ; n++ {
		for scan.Next() {
			if err := each(scan.View(), scan.Pos()); err != nil {
				return err
			}
			if n++; n%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if scan.Err() == nil {
			return ctx.Err()
		}
		if scan.Passed() {
			continue
		}
		var damage *message.DamageError
		if !errors.As(scan.Err(), &damage) {
			return scan.Err()
		}
		at := scan.Offset()
		if !scan.Resync(nil) {
			next := to
			if seg := s.log.Segment(at); seg != nil {
				next = min(to, seg.Base+s.log.SegmentSize())
			}
			scan.Skip(next)
		}
		if damaged != nil {
			if err := damaged(damage, at, scan.Offset()); err != nil {
				return err
			}
		}
	}
}

// quarantine puts a file that a fault happened in out of service. It reports whether the
// pull should be tried again: a queue's entries are found in the log, and what lies before a
// bad segment is given.
func (s *Store) quarantine(err error, q *consumequeue.Queue) (again bool) {
	var damage *message.DamageError
	if !errors.Is(err, mapfile.ErrFault) || !errors.As(err, &damage) {
		return false
	}
	s.options.Logger.Error("file out of service", "file", damage.File, "offset", damage.Offset)
	return s.log.Quarantine(damage) || q.Quarantine(damage)
}
