package getmessage

import "github.com/warmlog/warmlog/message"

// Request is one pull.
type Request struct {
	Group   string // consumer group
	Topic   string
	QueueID int32
	Offset  int64 // queue offset of the first message wanted
	// MaxMessages bounds the batch; 0: 32. Below 0: 1, as RocketMQ does for 0 and below.
	MaxMessages int
	// MaxBytes bounds the batch's records, in bytes; 0: 128 MiB, which is also the most.
	MaxBytes int64
	Filter   Filter // nil: every message
}

func (r *Request) wanted() (messages int, bytes int64) {
	messages = r.MaxMessages
	if messages == 0 {
		messages = defaultMessages
	}
	if r.MaxBytes == 0 {
		return messages, maxPullBytes
	}
	return messages, min(max(r.MaxBytes, minPullBytes), maxPullBytes)
}

// Filter chooses messages. What it rejects counts as consumed.
type Filter interface {
	// MatchEntry decides by the tag code in the queue, before the record is touched. It
	// may say yes where it cannot tell.
	MatchEntry(tagCode int64) bool
	// MatchRecord decides by the record.
	MatchRecord(tagCode int64, v *message.View) bool
}
