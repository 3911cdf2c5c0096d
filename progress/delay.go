package progress

// DelayOffsets is the content of delayOffset.json: how far delayed messages have been
// delivered. A slave of RocketMQ stores its master's answer as it came, on one line.
type DelayOffsets struct {
	Version DataVersion

	// Table has, by delay level from 1, the next offset to deliver of queue level − 1 of
	// SCHEDULE_TOPIC_XXXX. Levels and offsets are never below 1 and 0: the broker itself
	// counts them, so a file with others is bad.
	Table map[int32]int64

	Rest Members
}

// LoadDelayOffsets reads delayOffset.json at path, or its spare copy, and says which. The package
// comment tells when it fails: with [ErrNoGoodCopy], [fs.ErrNotExist], or what kept the file
// from being read.
func LoadDelayOffsets(path string) (*DelayOffsets, Origin, error) { return load(path, parseDelay) }

func parseDelay(c *cursor) (*DelayOffsets, error) {
	d := new(DelayOffsets)
	err := c.fields(func(name string, at int) error {
		switch name {
		case "dataVersion":
			return c.version(&d.Version)
		case "offsetTable":
			d.Table = make(map[int32]int64)
			return c.integers(func(level int32, offset int64, at int) error {
				if level < 1 || offset < 0 {
					return c.fault(at, "level %d with offset %d: they begin at 1 and 0", level, offset)
				}
				if _, ok := d.Table[level]; ok {
					return c.fault(at, "level %d comes twice", level)
				}
				d.Table[level] = offset
				return nil
			})
		}
		c.keep(&d.Rest, at)
		return nil
	})
	if err == nil && d.Table == nil {
		err = c.fault(0, "there is no offsetTable")
	}
	return d, err
}
