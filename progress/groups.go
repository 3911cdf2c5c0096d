package progress

import "math"

// Groups is the content of subscriptionGroup.json.
type Groups struct {
	Version DataVersion
	Table   map[string]Group // by name

	// Forbidden has, by group and topic, bits of what the group may not do there: bit 2
	// is reading. nil if the file has none, as in 4.9.
	Forbidden map[string]map[string]int32

	Rest Members
}

// Group is how one consumer group is set up. A member that a file leaves out has
// RocketMQ's default, which stands in parentheses. Source: SubscriptionGroupConfig of
// RocketMQ; groupRetryPolicy and subscriptionDataSet are in Rest.
type Group struct {
	ConsumeEnable    bool // (true)
	ConsumeFromMin   bool // consumeFromMinEnable (true)
	ConsumeBroadcast bool // consumeBroadcastEnable (true)
	ConsumeOrderly   bool // consumeMessageOrderly; not in 4.9 (false)
	NotifyIDsChanged bool // notifyConsumerIdsChangedEnable (true)

	RetryQueues   int32 // queues of the retry topic (1)
	RetryMaxTimes int32 // attempts before the dead letter queue (16)

	BrokerID              int64 // where to read from: 0 is the master (0)
	WhichBrokerWhenSlow   int64 // the broker to suggest to a reader of cold messages (1)
	SysFlag               int32 // groupSysFlag; not in 4.9 (0)
	ConsumeTimeoutMinutes int32 // not in 4.9 (15)

	// Attributes by name; nil if the file has none, as in 4.9.
	Attributes map[string]string

	Rest Members
}

// LoadGroups reads subscriptionGroup.json at path, or its spare copy, and says which. The package
// comment tells when it fails: with [ErrNoGoodCopy], [fs.ErrNotExist], or what kept the file
// from being read.
func LoadGroups(path string) (*Groups, Origin, error) { return load(path, parseGroups) }

func parseGroups(c *cursor) (*Groups, error) {
	gs := new(Groups)
	err := c.fields(func(name string, at int) error {
		switch name {
		case "dataVersion":
			return c.version(&gs.Version)
		case "forbiddenTable":
			return c.forbidden(&gs.Forbidden)
		case "subscriptionGroupTable":
			gs.Table = make(map[string]Group)
			return c.entries(func(group string, at int) error {
				if _, ok := gs.Table[group]; ok {
					return c.twice(group, at)
				}
				g, err := c.group(group)
				gs.Table[group] = g
				return err
			})
		}
		c.keep(&gs.Rest, at)
		return nil
	})
	if err == nil && gs.Table == nil {
		err = c.fault(0, "there is no subscriptionGroupTable")
	}
	return gs, err
}

func (c *cursor) group(name string) (Group, error) {
	g := Group{
		ConsumeEnable: true, ConsumeFromMin: true, ConsumeBroadcast: true, NotifyIDsChanged: true,
		RetryQueues: 1, RetryMaxTimes: 16, WhichBrokerWhenSlow: 1, ConsumeTimeoutMinutes: 15,
	}
	err := c.fields(func(member string, at int) error {
		switch member {
		case "groupName":
			return c.named(name)
		case "consumeEnable":
			return c.bool(&g.ConsumeEnable)
		case "consumeFromMinEnable":
			return c.bool(&g.ConsumeFromMin)
		case "consumeBroadcastEnable":
			return c.bool(&g.ConsumeBroadcast)
		case "consumeMessageOrderly":
			return c.bool(&g.ConsumeOrderly)
		case "notifyConsumerIdsChangedEnable":
			return c.bool(&g.NotifyIDsChanged)
		case "retryQueueNums":
			return c.int32(&g.RetryQueues, 0)
		case "retryMaxTimes":
			return c.int32(&g.RetryMaxTimes, math.MinInt32)
		case "brokerId":
			return c.int64(&g.BrokerID, math.MinInt64)
		case "whichBrokerWhenConsumeSlowly":
			return c.int64(&g.WhichBrokerWhenSlow, math.MinInt64)
		case "groupSysFlag":
			return c.int32(&g.SysFlag, math.MinInt32)
		case "consumeTimeoutMinute":
			return c.int32(&g.ConsumeTimeoutMinutes, math.MinInt32)
		case "attributes":
			return c.stringMap(&g.Attributes)
		}
		c.keep(&g.Rest, at)
		return nil
	})
	return g, err
}

func (c *cursor) forbidden(dst *map[string]map[string]int32) error {
	table := make(map[string]map[string]int32)
	*dst = table
	return c.entries(func(group string, at int) error {
		if table[group] != nil {
			return c.twice(group, at)
		}
		topics := make(map[string]int32)
		table[group] = topics
		return c.entries(func(topic string, at int) error {
			if _, ok := topics[topic]; ok {
				return c.twice(topic, at)
			}
			var bits int32
			err := c.int32(&bits, math.MinInt32)
			topics[topic] = bits
			return err
		})
	})
}
