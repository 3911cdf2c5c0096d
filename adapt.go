package warmlog

import (
	"context"
	"errors"

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
	return err == nil && v.Is(topic, id, off)
}

func (l queueLog) Rescan(ctx context.Context, topic string, id int32, from, to int64, found func(int64, consumequeue.Entry)) error {
	if from < l.log.Min() {
		from = l.log.Min()
	}
	l.options.Logger.Info("reading the log for a queue", "topic", topic, "queue", id, "from", from, "to", to)
	return l.records(ctx, from, to, func(v *message.View, pos int64) error {
		for p := range v.Places() {
			if p.QueueID == id && string(p.Topic) == topic {
				found(p.Offset, consumequeue.EntryOf(v, pos))
			}
		}
		return nil
	}, nil)
}

// records calls each for the sound records of a part of the log and damaged, if not nil,
// for what is passed over between them. from is where a record begins.
func (s *Store) records(ctx context.Context, from, to int64, each func(*message.View, int64) error, damaged func(*message.DamageError) error) error {
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
		var damage *message.DamageError
		if !errors.As(scan.Err(), &damage) {
			return scan.Err()
		}
		if damaged != nil {
			if err := damaged(damage); err != nil {
				return err
			}
		}
		if !scan.Resync(nil) {
			next := s.log.Segment(scan.Offset())
			if next == nil || next.End() >= to {
				return ctx.Err()
			}
			scan.Skip(next.Base + s.log.SegmentSize())
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
