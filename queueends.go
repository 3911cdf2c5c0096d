package warmlog

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"

	"github.com/cespare/xxhash/v2"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/message"
)

// The ends of all queues at a checkpoint stand in warmlog/queues: a start that reads the log
// only from the checkpoint on would else not notice that somebody deleted or cut a queue's
// last file, and would number its next message as one that exists.
//
//	0   8  "warmqueu"
//	8   8  dispatched position that the ends belong to
//	16  …  queues: topic's length (2), topic, queue (4), offset behind the last message (8)
//	end 8  xxhash64 of all before; all integers big endian
const endsMagic = "warmqueu"

// errEnds is the damage of the file.
var errEnds = message.NewKind("bad-queue-ends", "the list of queue ends cannot be read")

// queueEnds encodes the ends of all queues that are known, as they are now.
func (s *Store) queueEnds(dispatched int64) []byte {
	be := binary.BigEndian
	b := append([]byte(nil), endsMagic...)
	b = be.AppendUint64(b, uint64(dispatched))
	for q := range s.queues.Each { // unsorted: dispatch waits meanwhile
		end, ok := q.End()
		if !ok || len(q.Topic()) > message.MaxTopic {
			continue
		}
		b = be.AppendUint16(b, uint16(len(q.Topic())))
		b = append(b, q.Topic()...)
		b = be.AppendUint32(b, uint32(q.ID()))
		b = be.AppendUint64(b, uint64(end))
	}
	return be.AppendUint64(b, xxhash.Sum64(b))
}

// expectEnds tells the queues where they ended at a checkpoint. A file that is missing,
// damaged or of another checkpoint tells nothing.
func (s *Store) expectEnds(dispatched int64) error {
	b, err := os.ReadFile(s.paths.QueueEnds())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ends, pos, err := parseEnds(b)
	switch {
	case err != nil:
		s.note("%v", &message.DamageError{File: s.paths.QueueEnds(), Err: err})
		return nil
	case pos != dispatched:
		return nil
	}
	if s.w != nil {
		s.w.ends = true
	}
	for name, end := range ends {
		if s.deleted.covers([]byte(name.Topic), name.ID, dispatched-1) {
			continue // deleted since
		}
		q := s.queues.Get(name.Topic, name.ID)
		if q == nil {
			if end == 0 {
				continue
			}
			q = s.addQueue(name.Topic, name.ID)
		}
		q.Expect(end)
	}
	return nil
}

func parseEnds(b []byte) (ends map[consumequeue.Named]int64, dispatched int64, err error) {
	be := binary.BigEndian
	n := len(b) - 8
	if n < 16 || string(b[:8]) != endsMagic || be.Uint64(b[n:]) != xxhash.Sum64(b[:n]) {
		return nil, 0, errEnds
	}
	dispatched = int64(be.Uint64(b[8:]))
	ends = map[consumequeue.Named]int64{}
	for rest := b[16:n]; len(rest) > 0; {
		if len(rest) < 2 || len(rest) < 2+int(be.Uint16(rest))+12 {
			return nil, 0, errEnds
		}
		topic := int(be.Uint16(rest))
		name := consumequeue.Named{Topic: string(rest[2 : 2+topic]), ID: int32(be.Uint32(rest[2+topic:]))}
		end := int64(be.Uint64(rest[2+topic+4:]))
		if end < 0 || name.ID < 0 {
			return nil, 0, errEnds
		}
		ends[name] = end
		rest = rest[2+topic+12:]
	}
	return ends, dispatched, nil
}
