package progress

import "math"

// Topics is the content of topics.json.
type Topics struct {
	Version DataVersion
	Table   map[string]Topic // by name
	Rest    Members
}

// Topic is how one topic is set up. A member that a file leaves out has RocketMQ's default,
// which stands in parentheses. Source: TopicConfig of RocketMQ.
type Topic struct {
	Perm        int32  // bits: 8 priority, 4 read, 2 write, 1 inherit (6)
	ReadQueues  int32  // queues that consumers see (16)
	WriteQueues int32  // queues that producers see (16)
	Order       bool   // whether it was made for ordered messages (false)
	FilterType  string // SINGLE_TAG or MULTI_TAG (SINGLE_TAG)
	SysFlag     int32  // bits of TopicSysFlag (0)

	// Attributes by name; nil if the file has none, as in 4.9. The names are stored
	// without the + or - that they have in a request to change them
	// (AttributeUtil.alterCurrentAttributes).
	Attributes map[string]string

	Rest Members
}

// BatchQueue reports whether the topic's queues are of the 46-byte kind, in
// batchconsumequeue: the attribute queue.type is BatchCQ. No other spelling counts, as for
// RocketMQ (QueueTypeUtils).
func (t *Topic) BatchQueue() bool { return t.Attributes["queue.type"] == "BatchCQ" }

// LoadTopics reads topics.json at path, or its spare copy, and says which. The package
// comment tells when it fails: with [ErrNoGoodCopy], [fs.ErrNotExist], or what kept the file
// from being read.
func LoadTopics(path string) (*Topics, Origin, error) { return load(path, parseTopics) }

func parseTopics(c *cursor) (*Topics, error) {
	ts := new(Topics)
	err := c.fields(func(name string, at int) error {
		switch name {
		case "dataVersion":
			return c.version(&ts.Version)
		case "topicConfigTable":
			ts.Table = make(map[string]Topic)
			return c.entries(func(topic string, at int) error {
				if _, ok := ts.Table[topic]; ok {
					return c.twice(topic, at)
				}
				t, err := c.topic(topic)
				ts.Table[topic] = t
				return err
			})
		}
		c.keep(&ts.Rest, at)
		return nil
	})
	if err == nil && ts.Table == nil {
		err = c.fault(0, "there is no topicConfigTable")
	}
	return ts, err
}

func (c *cursor) topic(name string) (Topic, error) {
	t := Topic{Perm: 6, ReadQueues: 16, WriteQueues: 16, FilterType: "SINGLE_TAG"}
	err := c.fields(func(member string, at int) error {
		switch member {
		case "topicName":
			return c.named(name)
		case "perm":
			return c.int32(&t.Perm, 0)
		case "readQueueNums":
			return c.int32(&t.ReadQueues, 0)
		case "writeQueueNums":
			return c.int32(&t.WriteQueues, 0)
		case "order":
			return c.bool(&t.Order)
		case "topicFilterType":
			return c.string(&t.FilterType)
		case "topicSysFlag":
			return c.int32(&t.SysFlag, math.MinInt32)
		case "attributes":
			return c.stringMap(&t.Attributes)
		}
		c.keep(&t.Rest, at)
		return nil
	})
	return t, err
}
