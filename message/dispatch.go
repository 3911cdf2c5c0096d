package message

import (
	"bytes"
	"iter"
	"strconv"
	"strings"
)

// lmqPrefix begins the names of light message queues, whose queue id is always 0.
const lmqPrefix = "%LMQ%"

// Place is a message's offset in one queue.
type Place struct {
	Topic   []byte
	QueueID int32
	Offset  int64
}

// Places yields the queues that have an entry for the record, and its offset in each: its
// own first, then those to which it was dispatched besides, by its properties. A prepared or
// rollback record has none. Source: MultiDispatch and LmqDispatch of RocketMQ.
func (v *View) Places() iter.Seq[Place] {
	return func(yield func(Place) bool) {
		if !v.Queued() || !yield(Place{v.Topic(), v.QueueID(), v.QueueOffset()}) {
			return
		}
		// Hardly a record has it: one search is cheaper than looking at each property.
		if !bytes.Contains(v.Properties(), []byte(PropMultiDispatch)) {
			return
		}
		// Names and offsets are two lists of the same order, joined with commas.
		names, offsets := v.Property(PropMultiDispatch), v.Property(PropMultiQueueOffs)
		for len(names) > 0 && len(offsets) > 0 {
			var name, offset []byte
			name, names, _ = bytes.Cut(names, []byte{','})
			offset, offsets, _ = bytes.Cut(offsets, []byte{','})
			n, err := strconv.ParseInt(string(offset), 10, 64)
			if err != nil || len(name) == 0 {
				continue
			}
			id := v.QueueID()
			if bytes.HasPrefix(name, []byte(lmqPrefix)) {
				id = 0
			}
			if !yield(Place{name, id, n}) {
				return
			}
		}
	}
}

// IsLight reports whether a topic is a light message queue, which only RocketMQ's multi
// dispatch fills.
func IsLight(topic string) bool { return strings.HasPrefix(topic, lmqPrefix) }

// dispatchedTo reports whether the properties name a queue and offset as one more place of
// the record.
func (v *View) dispatchedTo(topic string, queueID int32, off int64) bool {
	for p := range v.Places() {
		if string(p.Topic) == topic && p.QueueID == queueID {
			return p.Offset == off
		}
	}
	return false
}
