package progress

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/warmlog/warmlog/internal/fastjson"
	"github.com/warmlog/warmlog/message"
)

// Members is an object of the members that are not known here, as standard JSON: what a
// newer RocketMQ has written, to be written again. nil if there are none.
type Members json.RawMessage

// cursor walks over a JSON text once, from front to end. Its text is valid JSON, so braces
// match and each value ends. It does not use encoding/json's decoder, which lets a name
// come twice, takes names in any case and a null for 0, and so loses entries in silence.
//
// Each method that reads a value takes exactly one, white space before it included, unless
// it returns an error: then the cursor is of no further use.
type cursor struct {
	file string
	src  []byte // as it stands in the file, to say where something is wrong
	text []byte // the same as standard JSON
	at   int    // the next byte of text

	leftOut   int   // entries that were passed over
	leftOutAt int64 // where the first of them stands in src
}

func newCursor(file string, src []byte) (*cursor, error) {
	text, err := fastjson.Standard(nil, src)
	if err != nil {
		var syntax *fastjson.SyntaxError
		if !errors.As(err, &syntax) {
			return nil, &message.DamageError{File: file, Err: fmt.Errorf("%w: %w", ErrNotJSON, err)}
		}
		return nil, &message.DamageError{File: file, Offset: syntax.Offset, Err: fmt.Errorf("%w: %s", ErrNotJSON, syntax.Cause)}
	}
	return &cursor{file: file, src: src, text: text}, nil
}

// fault makes the error for something wrong at a byte of text.
func (c *cursor) fault(at int, format string, args ...any) error {
	return &message.DamageError{
		File: c.file, Offset: fastjson.SourceOffset(c.src, int64(at)),
		Err: fmt.Errorf("%w: %s", ErrContent, fmt.Sprintf(format, args...)),
	}
}

// passOver counts an entry that begins at a byte of text and is not taken.
func (c *cursor) passOver(at int) {
	if c.leftOut == 0 {
		c.leftOutAt = fastjson.SourceOffset(c.src, int64(at))
	}
	c.leftOut++
}

// peek returns the first byte of what comes next.
func (c *cursor) peek() byte {
	for ; c.at < len(c.text); c.at++ {
		switch b := c.text[c.at]; b {
		case ' ', '\t', '\n', '\r':
		default:
			return b
		}
	}
	return 0
}

// wrong is the error for a value that is not what it should be.
func (c *cursor) wrong(wanted string) error {
	c.peek()
	at := c.at
	return c.fault(at, "%s should stand here, not %s", wanted, clip(c.raw()))
}

// clip shortens what is shown of a file in an error.
func clip[T ~string | ~[]byte](s T) string {
	const most = 64
	if len(s) <= most {
		return strconv.Quote(string(s))
	}
	return strconv.Quote(string(s[:most])) + "…"
}

// entries reads an object and calls entry for each name, which begins at byte at of text;
// entry reads the value. That no name comes twice is for entry to see.
func (c *cursor) entries(entry func(name string, at int) error) error {
	if c.peek() != '{' {
		return c.wrong("an object")
	}
	c.at++
	for c.peek() != '}' {
		if c.text[c.at] == ',' {
			c.at++
			c.peek()
		}
		at := c.at
		var name string
		if err := c.string(&name); err != nil {
			return err
		}
		// fastjson 1 writes an object that it has written before as a reference to it.
		// RocketMQ's tables never share one; to take it for an entry would be wrong.
		if name == "$ref" {
			return c.fault(at, "fastjson's reference to another value is not read")
		}
		c.peek()
		c.at++ // the colon
		if err := entry(name, at); err != nil {
			return err
		}
	}
	c.at++
	return nil
}

// fields reads an object that has a fixed set of members, each once; null ones count as
// absent.
func (c *cursor) fields(member func(name string, at int) error) error {
	seen := make(map[string]bool)
	return c.entries(func(name string, at int) error {
		if seen[name] {
			return c.twice(name, at)
		}
		seen[name] = true
		if c.peek() == 'n' {
			c.raw()
			return nil
		}
		return member(name, at)
	})
}

func (c *cursor) twice(name string, at int) error {
	return c.fault(at, "%s comes twice", clip(name))
}

// keep puts a member that is not known here aside; its name begins at a byte of text.
func (c *cursor) keep(rest *Members, at int) {
	c.raw()
	if member := c.text[at:c.at]; *rest == nil {
		*rest = slices.Concat(Members("{"), member, []byte("}"))
	} else {
		(*rest)[len(*rest)-1] = ','
		*rest = append(append(*rest, member...), '}')
	}
}

// raw takes any value.
func (c *cursor) raw() []byte {
	first := c.peek()
	start, depth := c.at, 0
	for c.at < len(c.text) {
		switch c.text[c.at] {
		case '"':
			c.skipString()
			if first == '"' {
				return c.text[start:c.at]
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // the end of what the value stands in
				return c.text[start:c.at]
			}
			if depth--; depth == 0 {
				c.at++
				return c.text[start:c.at]
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return c.text[start:c.at]
			}
		}
		c.at++
	}
	return c.text[start:]
}

func (c *cursor) skipString() {
	for c.at++; c.text[c.at] != '"'; c.at++ {
		if c.text[c.at] == '\\' {
			c.at++
		}
	}
	c.at++
}
