package progress

import "strings"

// Key names the progress of one group on one topic: "topic@group". It is the whole text
// that identifies it, in RocketMQ as here.
type Key string

// KeyOf returns the key of a group on a topic.
func KeyOf(topic, group string) Key { return Key(topic + "@" + group) }

// Split takes a key apart at its first @. RocketMQ refuses a topic with an @ when it is
// created (TopicValidator), while a group may have one: 4.9 takes every group's commits,
// 5.x those of groups that an administrator made by any name. RocketMQ itself splits at
// every @ and then passes over keys that do not have two parts, where it lists the topics
// of a group or deletes one; when it asks for an offset, it never splits.
func (k Key) Split() (topic, group string) {
	topic, group, _ = strings.Cut(string(k), "@")
	return topic, group
}

// Offsets is the content of consumerOffset.json: the progress of consumers.
//
// Queue ids and offsets are never negative. A broker checks neither when a client commits,
// so its file can hold such entries; it answers "not found" for a negative offset, and no
// queue has a negative id. They are passed over and counted ([Origin]), since without
// them the answer is the same. Numbers that Java's int and long cannot hold, which no
// broker wrote, make the file bad.
type Offsets struct {
	Version DataVersion

	// Table has the next offset to consume by queue id. A group that has committed
	// nothing can be in it with no queue.
	Table map[Key]map[int32]int64

	Rest Members
}

// LoadOffsets reads consumerOffset.json at path, or its spare copy, and says which. The package
// comment tells when it fails: with [ErrNoGoodCopy], [fs.ErrNotExist], or what kept the file
// from being read.
func LoadOffsets(path string) (*Offsets, Origin, error) { return load(path, parseOffsets) }

func parseOffsets(c *cursor) (*Offsets, error) {
	o := new(Offsets)
	err := c.fields(func(name string, at int) error {
		switch name {
		case "dataVersion":
			return c.version(&o.Version)
		case "offsetTable":
			return c.progress(&o.Table)
		case "groupTopicMap": // made anew from the table whenever the file is written
			c.raw()
			return nil
		}
		c.keep(&o.Rest, at)
		return nil
	})
	if err == nil && o.Table == nil {
		err = c.fault(0, "there is no offsetTable")
	}
	return o, err
}

func (c *cursor) progress(dst *map[Key]map[int32]int64) error {
	table := make(map[Key]map[int32]int64)
	*dst = table
	return c.entries(func(name string, at int) error {
		key := Key(name)
		if table[key] != nil {
			return c.twice(name, at)
		}
		if strings.IndexByte(name, '@') < 0 {
			return c.fault(at, "%s is not topic@group", clip(name))
		}
		queues := make(map[int32]int64)
		table[key] = queues
		return c.integers(func(queue int32, offset int64, at int) error {
			if queue < 0 || offset < 0 {
				c.passOver(at)
				return nil
			}
			if _, ok := queues[queue]; ok {
				return c.fault(at, "queue %d comes twice", queue)
			}
			queues[queue] = offset
			return nil
		})
	})
}
