package message

import "strconv"

// ScheduleTopic holds delayed messages until they are due. The tag code of its queue
// entries is the time of delivery, not a hash.
const ScheduleTopic = "SCHEDULE_TOPIC_XXXX"

// DelayLevels are RocketMQ's default delays of level 1 to 18, in ms.
var delayLevels = [...]int64{1e3, 5e3, 10e3, 30e3, 60e3, 120e3, 180e3, 240e3, 300e3,
	360e3, 420e3, 480e3, 540e3, 600e3, 1200e3, 1800e3, 3600e3, 7200e3}

// TagCode returns the tag code of a tag: its Java hash, sign-extended; 0 for no tag.
func TagCode(tag []byte) int64 { return int64(JavaHash(tag)) }

// TagCode returns the tag code that the record's queue entry has: the code of its TAGS
// or, for a delayed message in [ScheduleTopic], its time of delivery by the default delay
// levels. Source: CommitLog.checkMessageAndReturnSize.
func (v *View) TagCode() int64 {
	if level, ok := v.delayLevel(); ok {
		return v.StoreTimestamp() + delayLevels[level-1]
	}
	return TagCode(v.Property(PropTags))
}

// Delayed reports whether the tag code of the record's queue entry is a time. The delay
// levels are a broker's setting, so that only a bound of it is known from the record.
func (v *View) Delayed() bool {
	_, ok := v.delayLevel()
	return ok
}

func (v *View) delayLevel() (int, bool) {
	if string(v.Topic()) != ScheduleTopic {
		return 0, false
	}
	level, err := strconv.Atoi(string(v.Property(PropDelay)))
	if err != nil || level <= 0 {
		return 0, false
	}
	return min(level, len(delayLevels)), true
}
