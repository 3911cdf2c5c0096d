package keyindex

import (
	"math"

	"github.com/warmlog/warmlog/message"
)

// text is a topic or key as a query or as a record has it.
type text interface{ string | []byte }

// tagPrefix stands before a tag that is indexed like a key (RocketMQ 5.4 and later).
const tagPrefix = "T#"

// Hash returns the hash under which a key is indexed: the absolute value of Java's hash of
// "topic#key", and 0 for the minimum int, which has none. Up to 512 bytes of topic and
// key are hashed without an allocation. Source: IndexFile.indexKeyHashMethod.
func Hash[T text](topic, key T) int32 {
	var room [512]byte
	b := append(room[:0], topic...)
	b = append(b, '#')
	b = append(b, key...)
	return positive(message.JavaHash(b))
}

func tagHash(topic, tag []byte) int32 {
	var room [512]byte
	b := append(room[:0], topic...)
	b = append(b, "#"+tagPrefix...)
	b = append(b, tag...)
	return positive(message.JavaHash(b))
}

func positive(h int32) int32 {
	switch {
	case h == math.MinInt32:
		return 0
	case h < 0:
		return -h
	}
	return h
}

// KeyHashes appends the hashes of a record's keys in the order in which they are indexed:
// UNIQ_KEY, the pieces of KEYS and, with tag, the tag as RocketMQ 5.4 and later add it.
// Rollback records have none. Source: IndexService.buildIndex.
func KeyHashes(dst []int32, v *message.View, tag bool) []int32 {
	topic := v.Topic()
	for key := range v.IndexKeys() {
		dst = append(dst, Hash(topic, key))
	}
	if tag {
		if h, ok := tagKeyHash(v); ok {
			dst = append(dst, h)
		}
	}
	return dst
}

// tagKeyHash returns the hash of the record's tag as a key, if it can be indexed so.
func tagKeyHash(v *message.View) (int32, bool) {
	if v.Transaction() == message.SysFlagRollback {
		return 0, false
	}
	tag := v.Property(message.PropTags)
	if len(tag) == 0 {
		return 0, false
	}
	return tagHash(v.Topic(), tag), true
}
