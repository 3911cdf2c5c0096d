package progress

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"unicode/utf8"
)

// integers reads an object of integers by 32-bit integers.
func (c *cursor) integers(entry func(key int32, value int64, at int) error) error {
	return c.entries(func(name string, at int) error {
		key, err := c.integer(name, at, math.MinInt32, math.MaxInt32)
		if err != nil {
			return err
		}
		var value int64
		if err := c.int64(&value, math.MinInt64); err != nil {
			return err
		}
		return entry(int32(key), value, at)
	})
}

// integer takes digits as Java writes an integer within lo and hi: no plus, no zero in
// front, no fraction, no exponent.
func (c *cursor) integer(digits string, at int, lo, hi int64) (int64, error) {
	n, err := strconv.ParseInt(digits, 10, 64)
	var buf [20]byte
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && (n < lo || n > hi):
		return 0, c.fault(at, "%s is not within %d and %d", clip(digits), lo, hi)
	case err != nil || string(strconv.AppendInt(buf[:0], n, 10)) != digits:
		return 0, c.fault(at, "an integer should stand here, not %s", clip(digits))
	}
	return n, nil
}

func (c *cursor) int64(dst *int64, lo int64) (err error) {
	if b := c.peek(); b != '-' && (b < '0' || b > '9') {
		return c.wrong("an integer")
	}
	at := c.at
	*dst, err = c.integer(string(c.raw()), at, lo, math.MaxInt64)
	return err
}

func (c *cursor) int32(dst *int32, lo int32) error {
	c.peek()
	at := c.at
	var n int64
	if err := c.int64(&n, int64(lo)); err != nil {
		return err
	}
	if n > math.MaxInt32 {
		return c.fault(at, "%d is not within %d and %d", n, lo, math.MaxInt32)
	}
	*dst = int32(n)
	return nil
}

func (c *cursor) bool(dst *bool) error {
	switch c.peek() {
	case 't':
		*dst = true
	case 'f':
		*dst = false
	default:
		return c.wrong("true or false")
	}
	c.raw()
	return nil
}

func (c *cursor) string(dst *string) error {
	if c.peek() != '"' {
		return c.wrong("a string")
	}
	at := c.at
	raw := c.raw()
	if !utf8.Valid(raw) { // RocketMQ writes UTF-8; two damaged names must not become one
		return c.fault(at, "%s is not UTF-8", clip(raw))
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		*dst = string(raw[1 : len(raw)-1])
		return nil
	}
	if err := json.Unmarshal(raw, dst); err != nil {
		return c.fault(at, "%v", err)
	}
	return nil
}

// stringMap reads an object of strings.
func (c *cursor) stringMap(dst *map[string]string) error {
	m := make(map[string]string)
	*dst = m
	return c.entries(func(name string, at int) error {
		if _, ok := m[name]; ok {
			return c.twice(name, at)
		}
		var value string
		if err := c.string(&value); err != nil {
			return err
		}
		m[name] = value
		return nil
	})
}

// named reads the name of an entry from within it: it must be that of the table.
func (c *cursor) named(want string) error {
	c.peek()
	at := c.at
	var name string
	if err := c.string(&name); err != nil {
		return err
	}
	if name != want {
		return c.fault(at, "the entry %s calls itself %s", clip(want), clip(name))
	}
	return nil
}
