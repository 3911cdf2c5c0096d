package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/warmlog/warmlog/message"
)

// errStopped is what reading ends with when nobody wants more.
var errStopped = errors.New("stopped")

// feed is an input that can be left while it has nothing to give: a read of a terminal or a
// pipe cannot be interrupted, so that a goroutine does it, which is left behind.
type feed struct {
	ctx    context.Context
	chunks chan chunk
	rest   chunk // received, and not yet given
}

type chunk struct {
	data []byte
	err  error // behind data
}

const chunkSize = 64 << 10

func newFeed(ctx context.Context, in io.Reader) *feed {
	f := &feed{ctx: ctx, chunks: make(chan chunk)}
	go f.pump(in)
	return f
}

// pump reads. It has two buffers: one is being filled while the other one is taken, and
// nothing is received before that was taken whole.
func (f *feed) pump(in io.Reader) {
	var bufs [2][chunkSize]byte
	for i := 0; f.ctx.Err() == nil; i = 1 - i {
		n, err := in.Read(bufs[i][:])
		select {
		case f.chunks <- chunk{bufs[i][:n], err}:
		case <-f.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// Read is that of an [io.Reader]; its error is errStopped when ctx has ended.
func (f *feed) Read(p []byte) (int, error) {
	for len(f.rest.data) == 0 {
		if f.rest.err != nil {
			return 0, f.rest.err
		}
		select {
		case f.rest = <-f.chunks:
		case <-f.ctx.Done():
			return 0, errStopped
		}
	}
	n := copy(p, f.rest.data)
	f.rest.data = f.rest.data[n:]
	return n, nil
}

// splitter splits an input into lines.
type splitter struct {
	r      *bufio.Reader
	most   int    // bytes of a line
	long   []byte // a line that is longer than the reader's buffer
	length int64  // of the line that was read last or begun, with its newline
}

func newSplitter(ctx context.Context, in io.Reader, most int) *splitter {
	return &splitter{r: bufio.NewReaderSize(newFeed(ctx, in), chunkSize), most: most}
}

// next returns the next line without its newline, valid until the following call. A line that
// is too long is refused. Other errors are [io.EOF], when no byte is left, errStopped
// and those of the input; what was begun of a line is then not one.
func (l *splitter) next() ([]byte, error) {
	l.long, l.length = l.long[:0], 0
	for {
		part, err := l.r.ReadSlice('\n')
		l.length += int64(len(part))
		whole := err == nil || errors.Is(err, io.EOF) && l.length > 0
		if !whole && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		line := part
		if l.length > int64(len(part)) || !whole {
			if len(l.long) <= l.most {
				l.long = append(l.long, part...)
			}
			line = l.long
		}
		if !whole {
			continue
		}
		n := l.length
		if err == nil {
			n--
		}
		if n > int64(l.most) {
			l.long = nil
			return nil, refused{fmt.Errorf("the line has %d bytes, limit %d", n, l.most)}
		}
		return line[:n], nil
	}
}

// parseMessage fills m in with the members of a JSON object. What the object leaves out stays
// as it is, but for the body.
func parseMessage(m *message.Message, line []byte) error {
	m.Body = nil
	if !utf8.Valid(line) {
		return refused{errors.New("the line is not UTF-8; other bytes go into bodyBase64")}
	}
	var members map[string]json.RawMessage
	err := json.Unmarshal(line, &members)
	var other *json.UnmarshalTypeError
	switch {
	case errors.As(err, &other) || err == nil && members == nil:
		return refused{errors.New("no JSON object")}
	case err != nil:
		return refused{err}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if err := parseMember(m, name, members); err != nil {
			return refused{fmt.Errorf("%s: %w", name, err)}
		}
	}
	return nil
}

func parseMember(m *message.Message, name string, members map[string]json.RawMessage) error {
	raw := members[name]
	switch name {
	case "topic":
		return parseText(raw, &m.Topic)
	case "queue":
		return json.Unmarshal(raw, &m.QueueID)
	case "tags":
		return parseText(raw, &m.Tags)
	case "keys":
		return parseText(raw, &m.Keys)
	case "properties":
		return parseProperties(m, members)
	case "body":
		var body string
		err := parseText(raw, &body)
		m.Body = []byte(body)
		return err
	case "bodyBase64":
		if members["body"] != nil {
			return errors.New("there is a body, too")
		}
		return json.Unmarshal(raw, &m.Body)
	}
	return errors.New("unknown member")
}

// parseProperties takes the properties by name. KEYS and TAGS are the members keys and tags.
func parseProperties(m *message.Message, members map[string]json.RawMessage) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(members["properties"], &all); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := message.Property{Name: name}
		if string(all[name]) == "null" {
			return fmt.Errorf("%q is no string", name)
		}
		if err := parseText(all[name], &p.Value); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		switch {
		case name == message.PropKeys && members["keys"] == nil:
			m.Keys = p.Value
		case name == message.PropTags && members["tags"] == nil:
			m.Tags = p.Value
		case name == message.PropKeys || name == message.PropTags:
			return fmt.Errorf("%q is given twice", name)
		default:
			m.Properties = append(m.Properties, p)
		}
	}
	return nil
}

// parseText takes a string as it was meant: half of a surrogate pair, which Go would replace,
// is refused.
func parseText(raw json.RawMessage, to *string) error {
	if err := json.Unmarshal(raw, to); err != nil {
		return err
	}
	const replaced = "\uFFFD"
	if n := strings.Count(*to, replaced); n > 0 && n > bytes.Count(raw, []byte(replaced))+bytes.Count(bytes.ToLower(raw), []byte(`\ufffd`)) {
		return errors.New("half of a surrogate pair")
	}
	return nil
}
