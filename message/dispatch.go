package message

import (
	"bytes"
	"strconv"
	"strings"
)

// lmqPrefix begins the names of light message queues, whose queue id is always 0.
const lmqPrefix = "%LMQ%"

// dispatchedTo reports whether the properties name the queue and offset as one more place
// of the record: names and offsets are two lists of the same order, joined with commas.
// Source: MultiDispatch and LmqDispatch of RocketMQ.
func (v *View) dispatchedTo(topic string, queueID int32, off int64) bool {
	names, offsets := v.Property(PropMultiDispatch), v.Property(PropMultiQueueOffs)
	if names == nil || offsets == nil {
		return false
	}
	id := v.QueueID()
	if strings.HasPrefix(topic, lmqPrefix) {
		id = 0
	}
	if id != queueID {
		return false
	}
	for more := true; more; {
		var name, offset []byte
		name, names, more = bytes.Cut(names, []byte{','})
		offset, offsets, _ = bytes.Cut(offsets, []byte{','})
		if string(name) == topic {
			n, err := strconv.ParseInt(string(offset), 10, 64)
			return err == nil && n == off
		}
	}
	return false
}
