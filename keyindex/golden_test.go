package keyindex_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
	"pgregory.net/rapid"
)

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Three keys that RocketMQ's own IndexFile put into a file of ten slots. minKey is one of
// those whose hash is the minimum int.
const minKey = "jllgvmc"

func TestGoldenFile(t *testing.T) {
	b := keyindex.NewBuilder(keyindex.Layout{Slots: 10, Entries: 40}, nil)
	if !bytes.Equal(b.Bytes(), make([]byte, 40+40+800)) {
		t.Error("a new file is not all zero")
	}
	b.Add(keyindex.Hash("T", "k1"), 1000, 1700000000123)
	b.Add(keyindex.Hash("T", "k1"), 2000, 1700000005999)
	b.Add(keyindex.Hash("T", minKey), 3000, 1700000006000)
	image := b.Bytes()
	for at, want := range map[int64]string{
		0:   "0000018bcfe5687b 0000018bcfe57f70 00000000000003e8 0000000000000bb8 00000002 00000004",
		40:  "00000003 00000000 00000000 00000000 00000000 00000002 00000000",
		80:  "00000000 00000000 00000000 00000000 00000000",
		100: "0026bfb5 00000000000003e8 00000000 00000000",
		120: "0026bfb5 00000000000007d0 00000005 00000001",
		140: "00000000 0000000000000bb8 00000005 00000000",
	} {
		w := unhex(t, want)
		if got := image[at : at+int64(len(w))]; !bytes.Equal(got, w) {
			t.Errorf("at %d: got %x, want %x", at, got, w)
		}
	}
	h := keyindex.ParseHeader(image)
	if h != b.Header() || h.Keys() != 3 {
		t.Errorf("header %+v, %d keys", h, h.Keys())
	}
	if e := keyindex.ParseEntry(image[120:]); e != (keyindex.Entry{Hash: 0x26bfb5, Offset: 2000, Seconds: 5, Prev: 1}) {
		t.Errorf("entry %+v", e)
	}
}

func TestHash(t *testing.T) {
	smile := int32('T')
	for _, unit := range []int32{'#', 0xD83D, 0xDE00} { // UTF-16
		smile = 31*smile + unit
	}
	for _, c := range []struct {
		topic, key string
		want       int32
	}{
		{"T", "k1", 0x26bfb5},
		{"T", minKey, 0},
		{"T", "😀", max(smile, -smile)},
	} {
		got := keyindex.Hash(c.topic, c.key)
		if got != c.want || keyindex.Hash([]byte(c.topic), []byte(c.key)) != got {
			t.Errorf("%s#%s: %d, want %d", c.topic, c.key, got, c.want)
		}
	}
	if keyindex.Hash("T", "Aa") != keyindex.Hash("T", "BB") {
		t.Error("Aa and BB do not collide")
	}
	rapid.Check(t, func(t *rapid.T) {
		topic, key := rapid.String().Draw(t, "topic"), rapid.StringN(0, 700, -1).Draw(t, "key")
		h := keyindex.Hash(topic, key)
		if want := message.JavaHash([]byte(topic + "#" + key)); h < 0 || h != want && h != -want && want != math.MinInt32 {
			t.Fatalf("%d, Java has %d", h, want)
		}
	})
	topic, key := []byte("orders"), []byte(strings.Repeat("k", 400))
	if n := testing.AllocsPerRun(100, func() { keyindex.Hash(topic, key) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSeconds(t *testing.T) {
	for _, c := range []struct {
		begin, store int64
		want         int32
	}{
		{1000, 1000, 0}, {1000, 1999, 0}, {1000, 2000, 1}, {1000, 5, 0}, {0, 1 << 50, 0}, {-5, 1 << 50, 0},
		{1, math.MaxInt64, math.MaxInt32}, {1000, 1000 + 1000*math.MaxInt32, math.MaxInt32},
	} {
		if got := keyindex.Seconds(c.begin, c.store); got != c.want {
			t.Errorf("from %d to %d: %d, want %d", c.begin, c.store, got, c.want)
		}
	}
}

// A follow-up file begins with the end values of the full one; the seconds of its first key
// are computed from those.
func TestFollowUp(t *testing.T) {
	l := keyindex.Layout{Slots: 1, Entries: 3}
	a := keyindex.NewBuilder(l, nil)
	if !a.Add(7, 100, 50_000) || !a.Add(8, 200, 60_000) || a.Add(9, 300, 90_000) {
		t.Error("a file of three entries holds two keys")
	}
	full := a.Header()
	b := keyindex.NewBuilder(l, &full)
	if got, want := b.Header(), (keyindex.Header{BeginTimestamp: 60_000, EndTimestamp: 60_000, BeginOffset: 200, EndOffset: 200}); got != want {
		t.Errorf("new: %+v, want %+v", got, want)
	}
	b.Add(9, 300, 90_000)
	b.Add(9, 400, 100_000)
	if got, want := b.Header(), (keyindex.Header{BeginTimestamp: 90_000, EndTimestamp: 100_000, BeginOffset: 300, EndOffset: 400, SlotsUsed: 1, Count: 3}); got != want {
		t.Errorf("filled: %+v, want %+v", got, want)
	}
	one, two := keyindex.ParseEntry(b.Bytes()[l.EntryAt(1):]), keyindex.ParseEntry(b.Bytes()[l.EntryAt(2):])
	if one.Seconds != 30 || two.Seconds != 10 || two.Prev != 1 {
		t.Errorf("entries %+v and %+v", one, two)
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 40, 40).Draw(t, "bytes")
		if got := keyindex.ParseHeader(b).Append(nil); !bytes.Equal(got, b) {
			t.Fatalf("header %x became %x", b, got)
		}
		if got := keyindex.ParseEntry(b).Append(nil); !bytes.Equal(got, b[:20]) {
			t.Fatalf("entry %x became %x", b[:20], got)
		}
	})
	if l := (keyindex.Layout{Slots: keyindex.DefaultSlots, Entries: keyindex.DefaultEntries}); l.Size() != 420000040 {
		t.Errorf("a default file has %d bytes", l.Size())
	}
}

func TestFileName(t *testing.T) {
	at := time.UnixMilli(1700000480123)
	if got, want := keyindex.FileName(at), at.Format("20060102150405")+"123"; got != want || !keyindex.IsFileName(got) {
		t.Errorf("%s, want %s", got, want)
	}
	for _, s := range []string{"", "2023111422132012", "202311142213201234", "2023111422132012x", "２0231114221320123"} {
		if keyindex.IsFileName(s) {
			t.Errorf("%q is taken for an index file", s)
		}
	}
}
