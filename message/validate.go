package message

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// ErrInvalid is the class of all refusals of a message. Ask for it with errors.Is.
var ErrInvalid = errors.New("invalid message")

// MaxQueueID is the highest queue id that is accepted.
const MaxQueueID = 1<<20 - 1

// Validate reports everything for which a message cannot be stored, in one error that is
// an [ErrInvalid]: topic empty, not UTF-8, longer than [MaxTopic] bytes or with a path in
// it; queue id below 0 or over [MaxQueueID]; properties without a name, with a separator or
// zero byte (which a record that was not written to its end has there, see [View.Torn]), with
// a name that the store assigns (the checksum's, a further queue's offsets), or that take more
// than [MaxProperties] bytes; a record that would not fit 31 bits. withCRC is whether a
// whole-record checksum will be added.
func (m *Message) Validate(withCRC bool) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	switch t := m.Topic; {
	case t == "":
		fault("topic is empty")
	case len(t) > MaxTopic:
		fault("topic has %d bytes, limit %d", len(t), MaxTopic)
	case !utf8.ValidString(t):
		fault("topic %q is not UTF-8", t)
	case t == "." || t == ".." || strings.IndexByte(t, '/') >= 0 || strings.IndexByte(t, 0) >= 0:
		fault("topic %q is no name for a directory", t)
	}
	if m.QueueID < 0 || m.QueueID > MaxQueueID {
		fault("queue id %d is not within 0 and %d", m.QueueID, MaxQueueID)
	}
	props := 0
	property := func(name, value string) {
		props += len(name) + len(value) + 2
		if name == PropCRC || name == PropMultiQueueOffs {
			fault("property %q is the store's to assign", name)
		}
		if name == "" || separates(name) || separates(value) {
			fault("property %q=%q has no name or holds a separator or zero byte", name, value)
		}
	}
	if m.Keys != "" {
		property(PropKeys, m.Keys)
	}
	if m.Tags != "" {
		property(PropTags, m.Tags)
	}
	for _, p := range m.Properties {
		property(p.Name, p.Value)
	}
	if withCRC {
		props += PropCRCSize
	}
	if props > MaxProperties {
		fault("properties take %d bytes, limit %d", props, MaxProperties)
	}
	if int64(len(m.Body)) > math.MaxInt32-HeaderSize-2-MaxTopic-2-MaxProperties {
		fault("body has %d bytes", len(m.Body))
	}
	if faults == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalid, errors.Join(faults...))
}

// separates reports whether a name or value has a separator or zero byte. It is asked of every
// message.
func separates(s string) bool {
	for i := range len(s) {
		if s[i] <= '\x02' {
			return true
		}
	}
	return false
}
