package message

import (
	"bytes"
	"iter"
)

const (
	nameEnd  = 0x01
	valueEnd = 0x02
)

// Names of properties that the store itself looks at. Source: MessageConst.
const (
	PropKeys           = "KEYS"                     // index keys, separated by single spaces
	PropTags           = "TAGS"                     // one tag
	PropUniqueKey      = "UNIQ_KEY"                 // the client's message id, indexed
	PropDelay          = "DELAY"                    // delay level of a message in the schedule topic
	PropCRC            = "__CRC32#"                 // checksum of the whole record, always last
	PropInnerNum       = "INNER_NUM"                // messages in an inner batch
	PropMultiDispatch  = "INNER_MULTI_DISPATCH"     // names of further queues, joined with commas
	PropMultiQueueOffs = "INNER_MULTI_QUEUE_OFFSET" // the offsets in them, likewise
)

// Properties is the encoded form: name 0x01 value 0x02, repeated; the last 0x02 may be
// missing (4.9.1 to 5.1 leave it out). A piece without both a name and a value is
// skipped, as RocketMQ's reader does (MessageDecoder.string2messageProperties).
type Properties []byte

// All yields the pairs in the order in which they are stored. A name can come twice: the
// later one counts.
func (p Properties) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for name, value, rest := p.next(); name != nil; name, value, rest = rest.next() {
			if !yield(name, value) {
				return
			}
		}
	}
}

// next returns the first complete pair and what follows it. name is nil at the end.
func (p Properties) next() (name, value []byte, rest Properties) {
	for len(p) > 0 {
		piece := []byte(p)
		if end := bytes.IndexByte(p, valueEnd); end >= 0 {
			piece, p = p[:end:end], p[end+1:]
		} else {
			p = nil
		}
		if i := bytes.IndexByte(piece, nameEnd); i > 0 && i < len(piece)-1 {
			return piece[:i:i], piece[i+1:], p
		}
	}
	return nil, nil, nil
}

// Get returns the value of a property, nil if it is absent. Of several the last counts.
func (p Properties) Get(name string) []byte {
	var found []byte
	for n, v, rest := p.next(); n != nil; n, v, rest = rest.next() {
		if string(n) == name {
			found = v
		}
	}
	return found
}

// Map returns all pairs, names and values as text: see [JavaString].
func (p Properties) Map() map[string]string {
	m := make(map[string]string)
	for name, value := range p.All() {
		m[JavaString(name)] = JavaString(value)
	}
	return m
}

// AppendProperty adds one pair, closed by 0x02, to an encoded form. The name must
// not be empty, and neither may contain 0x01 or 0x02; see [Message.Validate]. RocketMQ's
// readers, and so [Properties], leave out a property with an empty value.
func AppendProperty(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, nameEnd)
	dst = append(dst, value...)
	return append(dst, valueEnd)
}
