package fuzz_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/warmlog/warmlog/message"
)

// FuzzProperties compares the reading of any bytes as properties with RocketMQ's reader, and
// reads back what was encoded of pairs.
func FuzzProperties(f *testing.F) {
	seen := map[string]bool{}
	for _, rec := range seedRecords(f) {
		v, err := message.Decode(rec)
		if err != nil {
			f.Fatal(err)
		}
		if !seen[string(v.Properties())] {
			seen[string(v.Properties())] = true
			f.Add([]byte(v.Properties()), "KEYS", "a b\x00c")
		}
	}
	for _, s := range []string{"", "\x01", "\x02", "a\x01b", "a\x01b\x02", "\x01b\x02", "a\x01\x02", "a\x01\x01\x02", "a\x01b\x01c\x02a\x01d", "\x02\x02a\x01b\x02\x02",
		"a\xed\xa0\x80\x01\xff\x02", "\xf0\x9f\x98\x80\x01\xe0\x80\x02", "\xe2\x82\x01x\x02"} {
		f.Add([]byte(s), s, "TAGS")
	}
	f.Fuzz(func(t *testing.T, b []byte, name, value string) {
		p := message.Properties(b)
		before := bytes.Clone(b)
		want := twinPairs(string(b))
		if got := pairsOf(p); !slices.Equal(got, want) {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
		for _, pair := range append(want, [2]string{name}, [2]string{value}) {
			text, ok := twinLast(want, pair[0])
			if got := p.Get(pair[0]); string(got) != text || (got != nil) != ok {
				t.Fatalf("%q is %q, want %q, %v", pair[0], got, text, ok)
			}
		}
		// As Java sees it: the whole text is decoded first and then split.
		asText := map[string]string{}
		for _, pair := range twinPairs(twinText(b)) {
			asText[pair[0]] = pair[1]
		}
		if got := p.Map(); len(got) != len(asText) {
			t.Fatalf("got  %q\nwant %q", got, asText)
		} else {
			for name, text := range got {
				if other, ok := asText[name]; !ok || other != text {
					t.Fatalf("%q is %q, want %q, %v", name, text, other, ok)
				}
			}
		}
		text := twinText(b)
		if got := message.JavaString(b); got != text || utf8.Valid(b) && text != string(b) {
			t.Fatalf("%q decodes to %q, want %q", b, got, text)
		}
		if message.JavaHash(b) != twinHash(text) {
			t.Fatalf("hash of %q: %d, want %d", b, message.JavaHash(b), twinHash(text))
		}
		encodeProperties(t, name, value)
		if !bytes.Equal(b, before) {
			t.Fatal("reading changed the properties")
		}
	})
}

func pairsOf(p message.Properties) (pairs [][2]string) {
	for name, value := range p.All() {
		pairs = append(pairs, [2]string{string(name), string(value)})
	}
	return pairs
}

// encodeProperties makes pairs of a name and pieces of a value and reads them back.
func encodeProperties(t *testing.T, name, value string) {
	t.Helper()
	m := message.Message{Topic: "T"}
	var want [][2]string
	var encoded []byte
	for i, piece := range strings.Split(value, "\x00") {
		pair := message.Property{Name: name + strings.Repeat("'", i), Value: piece}
		if pair.Name == "" || piece == "" || strings.ContainsAny(pair.Name+piece, "\x01\x02") {
			continue
		}
		want = append(want, [2]string{pair.Name, pair.Value})
		m.Properties = append(m.Properties, pair)
		encoded = message.AppendProperty(encoded, pair.Name, pair.Value)
	}
	if got := pairsOf(encoded); !slices.Equal(got, want) {
		t.Fatalf("encoded %q\ngot  %q\nwant %q", encoded, got, want)
	}
	// 4.9.1 to 5.1 leave the last end out.
	if got := pairsOf(bytes.TrimSuffix(encoded, []byte{2})); !slices.Equal(got, want) {
		t.Fatalf("encoded %q without its end\ngot  %q\nwant %q", encoded, got, want)
	}
	// What the format can say, and a store does not take: zero bytes, and names that it assigns.
	refused := len(encoded)+20 > message.MaxProperties || slices.ContainsFunc(want, func(pair [2]string) bool {
		return strings.Contains(pair[0], "\x00") || pair[0] == "__CRC32#" || pair[0] == "INNER_MULTI_QUEUE_OFFSET"
	})
	if err := m.Validate(true); (err != nil) != refused {
		t.Fatalf("%q: %v, refused should be %v", want, err, refused)
	}
	if refused {
		return
	}
	for _, crc := range []bool{false, true} {
		rec := message.AppendRecord(nil, &m, seedHost, crc)
		message.Stamp(rec, 1, 2, 3, crc)
		v, err := message.Decode(rec)
		if err != nil || v.CheckAt(2) != nil {
			t.Fatalf("%q: %v, %v", want, err, v.CheckAt(2))
		}
		got := pairsOf(v.Properties())
		if crc {
			if len(got) == 0 || got[len(got)-1][0] != message.PropCRC {
				t.Fatalf("%q ends without a checksum", got)
			}
			got = got[:len(got)-1]
		}
		if !slices.Equal(got, want) {
			t.Fatalf("in a record\ngot  %q\nwant %q", got, want)
		}
	}
}
