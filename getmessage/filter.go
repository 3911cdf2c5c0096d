package getmessage

import (
	"slices"
	"strings"

	"github.com/warmlog/warmlog/message"
)

// TagFilter accepts messages by their tag.
type TagFilter struct {
	codes []int32
	tags  []string
	exact bool
}

// NewTagFilter makes a filter of a subscription such as "paid || refunded". It is nil,
// which accepts everything, for "" and "*". Without exact, tags are compared by their hash
// in the queue, as RocketMQ's broker does: a message whose tag has the same hash gets
// through, and its client has to compare again. exact reads the record's tag too.
func NewTagFilter(subscription string, exact bool) Filter {
	if subscription == "" || subscription == "*" {
		return nil
	}
	f := &TagFilter{exact: exact}
	for _, tag := range strings.Split(subscription, "||") {
		if tag = strings.TrimSpace(tag); tag != "" {
			f.tags = append(f.tags, tag)
			f.codes = append(f.codes, message.JavaHash([]byte(tag)))
		}
	}
	return f
}

// extAddress is the highest tag code that is the address of a unit in a consume queue's ext
// file. Source: ConsumeQueueExt.isExtAddr.
const extAddress = -1<<31 - 1

// MatchEntry compares hashes. An address in an ext file says nothing about the tag.
func (f *TagFilter) MatchEntry(tagCode int64) bool {
	return tagCode <= extAddress || slices.Contains(f.codes, int32(tagCode))
}

// MatchRecord compares tags where the filter is exact, or where the entry had no hash.
func (f *TagFilter) MatchRecord(tagCode int64, v *message.View) bool {
	switch {
	case f.exact:
		return slices.Contains(f.tags, string(v.Property(message.PropTags)))
	case tagCode <= extAddress:
		return slices.Contains(f.codes, message.JavaHash(v.Property(message.PropTags)))
	}
	return true
}
