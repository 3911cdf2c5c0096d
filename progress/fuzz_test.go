package progress

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/warmlog/warmlog/message"
)

// FuzzParse gives any bytes to all four readers, past the files, which would make it slow.
func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob("testdata/*/*.json")
	if err != nil || len(paths) < 16 {
		f.Fatal(paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"offsetTable":{"T@g":{0:1,-1:2}},"x":[{"a\"":"\\"}],"y":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if o := fuzzOne(t, text, parseOffsets); o != nil {
			fuzzRest(t, o.Rest)
			for key, queues := range o.Table {
				topic, group := key.Split()
				for queue, offset := range queues {
					if queue < 0 || offset < 0 || KeyOf(topic, group) != key {
						t.Fatalf("%s: %d: %d", key, queue, offset)
					}
				}
			}
		}
		if d := fuzzOne(t, text, parseDelay); d != nil {
			fuzzRest(t, d.Rest)
		}
		if ts := fuzzOne(t, text, parseTopics); ts != nil {
			fuzzRest(t, ts.Rest)
			for _, topic := range ts.Table {
				fuzzRest(t, topic.Rest)
			}
		}
		if gs := fuzzOne(t, text, parseGroups); gs != nil {
			fuzzRest(t, gs.Rest)
			for _, group := range gs.Table {
				fuzzRest(t, group.Rest)
			}
		}
	})
}

func fuzzOne[T any](t *testing.T, text []byte, parse func(*cursor) (*T, error)) *T {
	c, err := newCursor("f", text)
	if err == nil {
		var v *T
		if v, err = parse(c); err == nil {
			if rest := c.peek(); rest != 0 || c.leftOutAt < 0 || c.leftOutAt >= int64(len(text)) {
				t.Fatalf("%q: stopped at %d of %q, left out %d", text, c.at, c.text, c.leftOutAt)
			}
			return v
		}
	}
	var damage *message.DamageError
	if !errors.As(err, &damage) || damage.Offset < 0 || damage.Offset > int64(len(text)) {
		t.Fatalf("%q: %v", text, err)
	}
	return nil
}

func fuzzRest(t *testing.T, rest Members) {
	var v map[string]json.RawMessage
	if rest != nil && (json.Unmarshal(rest, &v) != nil || len(v) == 0) {
		t.Fatalf("no object: %q", rest)
	}
}
