package fastjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmlog/warmlog/internal/fastjson"
	"pgregory.net/rapid"
)

func TestStandard(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{0:10,1:20}`, `{"0":10,"1":20}`},
		{`{-1:1, 9223372036854775808:2}`, `{"-1":1, "9223372036854775808":2}`},
		{"{\n\t\"offsetTable\":{1:2,2:2,3:3\n\t}\n}", "{\n\t\"offsetTable\":{\"1\":2,\"2\":2,\"3\":3\n\t}\n}"},
		{"{ 0\t:\r\n{1:[2,{3 :4}]},5:-6}", "{ \"0\"\t:\r\n{\"1\":[2,{\"3\" :4}]},\"5\":-6}"},
		{`{"0":1,1:2}`, `{"0":1,"1":2}`},
		{`{007:1}`, `{"007":1}`},
		// In strings nothing is a key, and no byte changes.
		{`{"{0:1}":"{2:3}","a\",4:\\":"\"5:","\\":6}`, `{"{0:1}":"{2:3}","a\",4:\\":"\"5:","\\":6}`},
		{"{\"\xff\xfe\u2028\\u0000\\ud800\":\"\xc3\"}", "{\"\xff\xfe\u2028\\u0000\\ud800\":\"\xc3\"}"},
		{`-1`, `-1`},
		{` [1,-2,3.5e-7,"4:"] `, ` [1,-2,3.5e-7,"4:"] `},
	} {
		got, err := fastjson.Standard([]byte("before "), []byte(c.in))
		if err != nil || string(got) != "before "+c.want {
			t.Errorf("%s\ngot  %s %v\nwant %s", c.in, got, err, c.want)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for _, c := range []struct {
		in string
		at int64
	}{
		{``, 0}, {" \t", 2}, {`{`, 1}, {`{0`, 1}, {`{0:`, 3}, {`{0:1`, 4}, {`{0:1,`, 5}, {`{"a`, 3}, {`{"a\`, 4}, {`{0:1}x`, 5},
		{`{0:1}}`, 5}, {`{0:1,2:3}]`, 9}, {"{0:1}\x00", 5}, {"\x00\x00", 0}, {`{0:1,}`, 5}, {`[0:1]`, 2},
		{`{a:1}`, 1}, {`{'a':1}`, 1}, {`{1.5:1}`, 1}, {`{1e5:1}`, 1}, {`{-:1}`, 1}, {`{--1:1}`, 1}, {`{+1:1}`, 1}, {`{0:1 2:3}`, 5},
		{`{12 34:5}`, 1}, {`{"a"5:1}`, 4}, {`{a5:1}`, 1}, {`{true:1}`, 1}, {"\ufeff{}", 0}, {`{/**/}`, 1}, {`{0:01}`, 4}, {`{0:-}`, 4},
		{`{0:1,1:2,2:x}`, 11}, {`{{"a":1}:2}`, 1}, {`{0:.5}`, 3},
	} {
		dst := []byte("kept")
		got, err := fastjson.Standard(dst, []byte(c.in))
		var syntax *fastjson.SyntaxError
		if !errors.As(err, &syntax) || syntax.Offset != c.at || string(got) != "kept" {
			t.Errorf("%q: %q, %v, want byte %d", c.in, got, err, c.at)
		}
		var v any
		if err := fastjson.Unmarshal([]byte(c.in), &v); !errors.As(err, &syntax) || syntax.Offset != c.at {
			t.Errorf("%q: Unmarshal: %v, want byte %d", c.in, err, c.at)
		}
	}
}

func TestUnmarshal(t *testing.T) {
	var got map[string]map[int32]int64
	err := fastjson.Unmarshal([]byte(`{"T@g":{0:10,-1:20},"{0:1}":{2147483647:9223372036854775807}}`), &got)
	want := "map[T@g:map[-1:20 0:10] {0:1}:map[2147483647:9223372036854775807]]"
	if err != nil || fmt.Sprint(got) != want {
		t.Errorf("got %v %v", got, err)
	}
	// Values that do not fit: the offset counts the bytes of the source, and lies where
	// encoding/json puts it, at the end of a value and in a key.
	for _, c := range []struct {
		in string
		at int64
	}{
		{`{"a":{0:1,1:2,2:"x"}}`, 19}, {`{"a":{0:1,1:2,2:9223372036854775808}}`, 35}, {`{"a":{0:1,1:2,2:1.5}}`, 19}, {`{"a":{0:1,1:2,2147483648:2}}`, 14},
	} {
		var v map[string]map[int32]int64
		err := fastjson.Unmarshal([]byte(c.in), &v)
		var value *json.UnmarshalTypeError
		if !errors.As(err, &value) || value.Offset != c.at {
			t.Errorf("%s: %v, want byte %d", c.in, err, c.at)
		}
	}
	if err := fastjson.Unmarshal([]byte(`{}`), nil); err == nil {
		t.Error("nil target: no error")
	}
}

func TestSourceOffset(t *testing.T) {
	const src = `{0:1,-2:[3],"4":{5:6}}` // {"0":1,"-2":[3],"4":{"5":6}}
	want := []int64{
		0, 1, 1, 2, 2, 3, 4, // {"0":1,
		5, 5, 6, 7, 7, 8, 9, 10, 11, // "-2":[3],
		12, 13, 14, 15, 16, // "4":{
		17, 17, 18, 18, 19, 20, 21, 22, // "5":6}} and the end
	}
	for n, at := range want {
		if got := fastjson.SourceOffset([]byte(src), int64(n)); got != at {
			t.Errorf("byte %d: %d, want %d", n, got, at)
		}
	}
}

// TestHostile feeds texts that are built to cost: each must be refused or read in time that
// grows with its length.
func TestHostile(t *testing.T) {
	const n = 1 << 19
	for name, unit := range map[string]string{
		"open braces": `{0:`, "open brackets": `[`, "keys": `0:`, "minus": `-`, "digits": `1`, "spaces": ` `, "quotes": `"`,
		"backslashes": `\`, "number and space": `1 `, "zeros": "\x00", "colons": `:`,
	} {
		for _, head := range []string{"", "{", `{"a":1`, `"`} {
			began := time.Now()
			text := append([]byte(head), bytes.Repeat([]byte(unit), n/len(unit))...)
			if _, err := fastjson.Standard(nil, text); err == nil && !json.Valid(text) {
				t.Errorf("%s after %q: accepted", name, head)
			}
			if d := time.Since(began); d > 20*time.Second {
				t.Errorf("%s after %q: %d bytes took %v", name, head, len(text), d)
			}
		}
	}
	// One number, then white space for ever, many times over.
	text := []byte("[" + strings.Repeat("1"+strings.Repeat(" ", 1000)+",", n/1000) + "1]")
	if out, err := fastjson.Standard(nil, text); err != nil || !bytes.Equal(out, text) {
		t.Error("spaces after numbers:", err)
	}
	deep := func(levels int) []byte {
		return []byte(strings.Repeat(`{0:`, levels) + "1" + strings.Repeat("}", levels))
	}
	if _, err := fastjson.Standard(nil, deep(10000)); err != nil {
		t.Error("10,000 levels:", err)
	}
	var v any
	if err := fastjson.Unmarshal(deep(10001), &v); err == nil || !strings.Contains(err.Error(), "depth") {
		t.Error("10,001 levels:", err)
	}
}

// document draws a standard JSON text with awkward strings, integer names and spaces.
func document(t *rapid.T) []byte {
	text := rapid.Custom(func(t *rapid.T) string {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"0", "-1", "12", ":", ",", "{", "}", "[", "]", `\"`, `\\`, `\/`, `\n`, `\u0000`, `\ud83d`, " ",
			"é", "\u2028", "\xff", "'", "true", "a"}), 0, 8).Draw(t, "pieces")
		return `"` + strings.Join(pieces, "") + `"`
	})
	space := func() string { return rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r\n"}).Draw(t, "space") }
	key := func(i int) string {
		if rapid.Bool().Draw(t, "integer key") {
			return strconv.Quote(strconv.FormatInt(rapid.Int64().Draw(t, "key"), 10))
		}
		return text.Draw(t, "name")
	}
	var value func(depth int) string
	list := func(open, end string, item func(i int) string) string {
		var sb strings.Builder
		sb.WriteString(open)
		for i := range rapid.IntRange(0, 4).Draw(t, "items") {
			if i > 0 {
				sb.WriteString(space() + ",")
			}
			sb.WriteString(space() + item(i))
		}
		sb.WriteString(space() + end)
		return sb.String()
	}
	value = func(depth int) string {
		kinds := 6
		if depth == 0 {
			kinds = 4
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return text.Draw(t, "string")
		case 1:
			return strconv.FormatInt(rapid.Int64().Draw(t, "integer"), 10)
		case 2:
			f := rapid.Float64().Filter(func(f float64) bool { return !math.IsInf(f, 0) && !math.IsNaN(f) }).Draw(t, "float")
			b, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		case 3:
			return rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "word")
		case 4:
			return list("[", "]", func(int) string { return value(depth - 1) })
		}
		return list("{", "}", func(i int) string { return key(i) + space() + ":" + space() + value(depth-1) })
	}
	return []byte(space() + value(5) + space())
}

// unquote takes the quotes off integer names, as fastjson writes them. It is the dumb twin
// of Standard: it knows from encoding/json's tokens, not from the bytes, what is a name.
func unquote(t *rapid.T, doc []byte) []byte {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var names [][2]int64 // [start, end) of each name, quotes included
	type level struct {
		object bool
		items  int
	}
	stack := []level{{}}
	for {
		before := dec.InputOffset()
		tok, err := dec.Token()
		if err != nil {
			break
		}
		end := dec.InputOffset()
		top := &stack[len(stack)-1]
		if d, ok := tok.(json.Delim); ok && (d == '}' || d == ']') {
			stack = stack[:len(stack)-1]
			continue
		}
		if top.object && top.items%2 == 0 {
			names = append(names, [2]int64{before + int64(bytes.IndexByte(doc[before:], '"')), end})
		}
		top.items++
		if d, ok := tok.(json.Delim); ok {
			stack = append(stack, level{object: d == '{'})
		}
	}
	out := bytes.Clone(doc)
	for _, n := range slices.Backward(names) {
		name := string(doc[n[0]+1 : n[1]-1])
		if digits := strings.TrimPrefix(name, "-"); digits != "" && strings.Trim(digits, "0123456789") == "" {
			out = slices.Replace(out, int(n[0]), int(n[1]), []byte(name)...)
		}
	}
	return out
}

func TestProperties(t *testing.T) {
	quoted := 0
	rapid.Check(t, func(t *rapid.T) {
		doc := document(t)
		if !json.Valid(doc) {
			t.Fatalf("the test made %q", doc)
		}
		if got, err := fastjson.Standard(nil, doc); err != nil || !bytes.Equal(got, doc) {
			t.Fatalf("standard JSON is not left alone: %v\nin  %q\nout %q", err, doc, got)
		}
		dialect := unquote(t, doc)
		got, err := fastjson.Standard(nil, dialect)
		if err != nil || !bytes.Equal(got, doc) {
			t.Fatalf("quotes are not put back: %v\nin   %q\nout  %q\nwant %q", err, dialect, got, doc)
		}
		quoted += len(doc) - len(dialect)
		// Every byte is found where it came from; a quote that was added, at its key.
		for i := range got {
			at := fastjson.SourceOffset(dialect, int64(i))
			if at < 0 || at > int64(len(dialect)) || got[i] != '"' && dialect[at] != got[i] {
				t.Fatalf("byte %d of %q is said to be byte %d of %q", i, got, at, dialect)
			}
		}
	})
	if quoted == 0 {
		t.Error("no document had an integer key")
	}
}

func FuzzStandard(f *testing.F) {
	for _, s := range []string{`{0:10,1:20}`, `{"a\":0:":{-1 :[1,"2:"]}}`, `{`, `"\`, `1:`, "{0:1}\x00", `{"0":1,0:{}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := fastjson.Standard(nil, src)
		var syntax *fastjson.SyntaxError
		switch {
		case err == nil && !json.Valid(got):
			t.Fatalf("%q became %q", src, got)
		case json.Valid(src) && !bytes.Equal(got, src):
			t.Fatalf("standard %q became %q, %v", src, got, err)
		case err != nil && (!errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > int64(len(src))):
			t.Fatalf("%q: %v", src, err)
		}
		if err == nil {
			if again, err := fastjson.Standard(nil, got); err != nil || !bytes.Equal(again, got) {
				t.Fatalf("%q is not stable: %q %v", got, again, err)
			}
			if last := fastjson.SourceOffset(src, int64(len(got))); last != int64(len(src)) {
				t.Fatalf("the end of %q is said to be byte %d", src, last)
			}
		}
		var v json.RawMessage // takes every value, numbers of any size too
		if err2 := fastjson.Unmarshal(src, &v); (err == nil) != (err2 == nil) {
			t.Fatalf("%q: %v, but %v", src, err, err2)
		}
	})
}

func BenchmarkStandard(b *testing.B) {
	src := []byte("{" + strings.Repeat(`"TopicA@GroupA":{0:123456,1:123457,2:1,3:99},`, 20000) + `"x":{}}`)
	var dst []byte
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		dst, _ = fastjson.Standard(dst[:0], src)
	}
}
