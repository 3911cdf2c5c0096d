package storetest

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/warmlog/warmlog/message"
)

// Add appends a message of a queue with a body of n bytes that [Check] knows, and two
// properties, which end with "end".
func (s *Store) Add(topic string, id int32, n int) Record {
	return s.Put(s.Message(topic, id, n))
}

// Message makes the message that [Store.Add] would append next to a queue.
func (s *Store) Message(topic string, id int32, n int) *message.Message {
	return Message(topic, id, s.Next(topic, id), n)
}

// Message makes a message that [Check] knows.
func Message(topic string, id int32, off int64, n int) *message.Message {
	return &message.Message{Topic: topic, QueueID: id, Tags: "tag", Body: Body(topic, id, off, n),
		Properties: []message.Property{{Name: "number", Value: fmt.Sprintf("%d/%d-end", id, off)}}}
}

// Leave appends a message of a queue that leaves exactly n bytes of the segment, 8 or more.
func (s *Store) Leave(topic string, id int32, n int64) Record {
	s.t.Helper()
	least := int64(len(s.encode(nil, s.Message(topic, id, 0))))
	size := s.log.left() - n - least
	if n < message.BlankSize || size < 0 {
		s.t.Fatalf("storetest: %d of %d bytes cannot be left", n, s.log.left())
	}
	return s.Put(s.Message(topic, id, int(size)))
}

// Body returns n bytes that differ from queue to queue and from offset to offset, none of
// them 0.
func Body(topic string, id int32, off int64, n int) []byte {
	x := xxhash.Sum64String(topic) ^ uint64(id+1)*0x9E3779B97F4A7C15 ^ uint64(off+1)*0xD1B54A32D192ED03
	b := make([]byte, 0, n+8)
	for len(b) < n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b = binary.LittleEndian.AppendUint64(b, x|0x0101010101010101)
	}
	return b[:n]
}

// Check reports how a record is not the one that [Store.Add] put for a message of a queue:
// body, properties or names are others.
func Check(v *message.View, topic string, id int32, off int64) error {
	switch {
	case string(v.Topic()) != topic || v.QueueID() != id || v.QueueOffset() != off:
		return fmt.Errorf("%s/%d at %d instead of %s/%d at %d", v.Topic(), v.QueueID(), v.QueueOffset(), topic, id, off)
	case !bytes.Equal(v.Body(), Body(topic, id, off, len(v.Body()))):
		return fmt.Errorf("%s/%d at %d: another body of %d bytes", topic, id, off, len(v.Body()))
	case string(v.Property("number")) != fmt.Sprintf("%d/%d-end", id, off) || string(v.Property(message.PropTags)) != "tag":
		return fmt.Errorf("%s/%d at %d: properties %q", topic, id, off, v.Properties())
	}
	return nil
}
