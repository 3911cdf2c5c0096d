package progress

import "math"

// DataVersion tells one state of a table from another. Two are the same if they are equal
// with ==. In a file without one (4.9: consumerOffset.json, delayOffset.json) it is zero.
// Source: DataVersion of RocketMQ. Members that are not known here are not kept.
type DataVersion struct {
	Counter      int64 // changes so far, as the writer counts them
	StateVersion int64 // 0 without a controller; not in 4.9
	Timestamp    int64 // of the last change, ms
}

func (c *cursor) version(v *DataVersion) error {
	return c.fields(func(name string, _ int) error {
		switch name {
		case "counter":
			return c.int64(&v.Counter, math.MinInt64)
		case "stateVersion":
			return c.int64(&v.StateVersion, math.MinInt64)
		case "timestamp":
			return c.int64(&v.Timestamp, math.MinInt64)
		}
		c.raw()
		return nil
	})
}
