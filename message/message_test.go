package message_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

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

// golden is a record that RocketMQ's own encoder wrote.
const golden = `0000007b daa320a7 3610a686 00000003 00000000 000000000000002a 00000000000003e8 00000000
	0000018bcfe56800 0a000001 0000c350 0000018bcfe5687b 0a000002 00002a9f 00000000 0000000000000000
	00000005 68656c6c6f 09 546f70696354657374 0012 54414753 01 54616741 02 4b455953 01 6b31 02`

func TestDecodeGolden(t *testing.T) {
	v, err := message.Decode(append(unhex(t, golden), "what follows"...))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.CheckAt(1000); err != nil {
		t.Error(err)
	}
	if err := v.CheckAt(1001); !errors.Is(err, message.ErrMisplaced) {
		t.Errorf("at another position: %v", err)
	}
	got := fmt.Sprintln(v.Size(), v.Version(), v.QueueID(), v.Flag(), v.QueueOffset(), v.PhysicalOffset(), v.SysFlag(),
		v.BornTimestamp(), v.BornHost(), v.StoreTimestamp(), v.StoreHost(), v.ReconsumeTimes(), v.PreparedTransactionOffset(),
		string(v.Body()), string(v.Topic()), v.Properties().Map(), v.ID(), v.TagCode(), v.Queued())
	want := "123 1 3 0 42 1000 0 1700000000000 10.0.0.1:50000 1700000000123 10.0.0.2:10911 0 0 " +
		"hello TopicTest map[KEYS:k1 TAGS:TagA] 0A00000200002A9F00000000000003E8 2598919 true\n"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func goldenMessage() *message.Message {
	return &message.Message{
		Topic: "TopicTest", QueueID: 3, Body: []byte("hello"),
		Properties:    []message.Property{{Name: "TAGS", Value: "TagA"}, {Name: "KEYS", Value: "k1"}},
		BornTimestamp: 1700000000000, BornHost: netip.MustParseAddrPort("10.0.0.1:50000"),
	}
}

func TestEncodeGolden(t *testing.T) {
	store := netip.MustParseAddrPort("10.0.0.2:10911")
	rec := message.AppendRecord(nil, goldenMessage(), store, false)
	message.Stamp(rec, 42, 1000, 1700000000123, false)
	if want := unhex(t, golden); !bytes.Equal(rec, want) {
		t.Errorf("got  %x\nwant %x", rec, want)
	}
	// The same with the whole-record checksum: crc 755651038, its digits backwards.
	rec = message.AppendRecord(nil, goldenMessage(), store, true)
	message.Stamp(rec, 42, 1000, 1700000000123, true)
	if len(rec) != 143 || !bytes.HasSuffix(rec, []byte("__CRC32#\x018301565570\x02")) {
		t.Errorf("with checksum: %d bytes, %q", len(rec), rec[len(rec)-20:])
	}
	v, err := message.Decode(rec)
	if err != nil || v.Check() != nil {
		t.Fatal(err, v.Check())
	}
	rec[41] ^= 4 // the born time: only the whole-record checksum covers it
	if err := v.Check(); err != message.ErrPropCRC {
		t.Errorf("a flipped bit outside the body: %v", err)
	}
}

// Every combination of versions and address families survives encoding and decoding, and
// any flipped bit of the body is seen.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		host := func(name string) netip.AddrPort {
			n := rapid.SampledFrom([]int{4, 16}).Draw(t, name+" bytes")
			a, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, name))
			return netip.AddrPortFrom(a, rapid.Uint16().Draw(t, name+" port"))
		}
		text := rapid.StringMatching(`[a-z日😀%=, ]{1,12}`)
		m := &message.Message{
			Topic:   strings.Repeat(rapid.StringMatching(`[a-z]{1,3}`).Draw(t, "topic"), rapid.IntRange(1, 85).Draw(t, "times")),
			QueueID: rapid.Int32Range(0, message.MaxQueueID).Draw(t, "queue"),
			Body:    rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
			Tags:    rapid.OneOf(rapid.Just(""), text).Draw(t, "tags"),
			Flag:    rapid.Int32().Draw(t, "flag"), SysFlag: rapid.Int32().Draw(t, "sysFlag"),
			BornTimestamp: rapid.Int64().Draw(t, "born"), BornHost: host("born host"),
			ReconsumeTimes:            rapid.Int32().Draw(t, "times"),
			PreparedTransactionOffset: rapid.Int64().Draw(t, "prepared"),
		}
		want := map[string]string{}
		for range rapid.IntRange(0, 4).Draw(t, "properties") {
			p := message.Property{Name: "p" + text.Draw(t, "name"), Value: text.Draw(t, "value")}
			m.Properties = append(m.Properties, p)
			want[p.Name] = p.Value
		}
		if m.Tags != "" {
			want["TAGS"] = m.Tags
		}
		withCRC := rapid.Bool().Draw(t, "crc")
		if err := m.Validate(withCRC); err != nil {
			t.Fatal(err)
		}
		store := host("store host")
		rec := message.AppendRecord(nil, m, store, withCRC)
		message.Stamp(rec, 7, 8, 9, withCRC)
		v, err := message.Decode(rec)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.CheckAt(8); err != nil {
			t.Fatal(err)
		}
		got := v.Properties().Map()
		delete(got, message.PropCRC)
		const hosts = message.SysFlagBornHostV6 | message.SysFlagStoreHostV6
		if string(v.Topic()) != m.Topic || v.QueueID() != m.QueueID || !bytes.Equal(v.Body(), m.Body) || v.Flag() != m.Flag ||
			v.SysFlag()&^hosts != m.SysFlag&^hosts || v.BornTimestamp() != m.BornTimestamp || v.BornHost() != m.BornHost ||
			v.StoreHost() != store || v.ReconsumeTimes() != m.ReconsumeTimes || v.QueueOffset() != 7 || v.StoreTimestamp() != 9 ||
			v.PreparedTransactionOffset() != m.PreparedTransactionOffset || !maps.Equal(got, want) {
			t.Fatalf("got %+v of %+v", v, m)
		}
		if n := len(m.Body); n > 0 {
			v.Body()[rapid.IntRange(0, n-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			if err := v.Check(); err != message.ErrBodyCRC {
				t.Fatalf("flipped bit: %v", err)
			}
		}
	})
}

func TestDecodeDamage(t *testing.T) {
	change := func(at int, b ...byte) func([]byte) []byte {
		return func(rec []byte) []byte { copy(rec[at:], b); return rec }
	}
	for name, c := range map[string]struct {
		do   func([]byte) []byte
		want error
	}{
		"seven bytes":           {func(b []byte) []byte { return b[:7] }, message.ErrTruncated},
		"cut":                   {func(b []byte) []byte { return b[:len(b)-1] }, message.ErrTruncated},
		"all zero":              {func(b []byte) []byte { clear(b); return b }, message.ErrMagic},
		"blank":                 {change(4, 0xCB, 0xD4, 0x31, 0x94), message.ErrMagic},
		"size negative":         {change(0, 0xFF), message.ErrSize},
		"size small":            {change(0, 0, 0, 0, 90), message.ErrSize},
		"size one less":         {change(0, 0, 0, 0, 122), message.ErrLengths},
		"long hosts":            {change(36, 0, 0, 0, 0x30), message.ErrLengths},
		"body negative":         {change(84, 0x80), message.ErrLengths},
		"body huge":             {change(84, 0x7F, 0xFF, 0xFF, 0xFF), message.ErrLengths},
		"body one more":         {change(84, 0, 0, 0, 6), message.ErrLengths},
		"topic negative":        {change(93, 0x80), message.ErrLengths},
		"topic past the end":    {change(93, 0x7F), message.ErrLengths},
		"properties negative":   {change(103, 0xFF, 0xFF), message.ErrLengths},
		"properties one less":   {change(103, 0, 17), message.ErrLengths},
		"version two of one":    {change(4, 0xDA, 0xA3, 0x20, 0xAB), message.ErrLengths},
		"smallest, long hosts":  {func([]byte) []byte { return smallest(0x30) }, message.ErrLengths},
		"smallest, no topic":    {func([]byte) []byte { return smallest(0) }, nil},
		"version two, one byte": {func([]byte) []byte { b := smallest(0); b[7] = 0xAB; return b }, message.ErrLengths},
	} {
		_, err := message.Decode(c.do(unhex(t, golden)))
		if err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if c.want != nil && !errors.Is(err, message.ErrDamaged) {
			t.Errorf("%s: %v is no ErrDamaged", name, err)
		}
	}
}

func smallest(sysFlag byte) []byte {
	b := make([]byte, message.MinSize)
	copy(b, []byte{0, 0, 0, message.MinSize, 0xDA, 0xA3, 0x20, 0xA7})
	b[39] = sysFlag
	return b
}

// Whatever happens to the bytes after the check, an accessor returns something and does
// not panic: a mapped file can change underneath.
func TestViewOfChangingBytes(t *testing.T) {
	rec := unhex(t, golden)
	v, err := message.Decode(rec)
	if err != nil {
		t.Fatal(err)
	}
	for _, fill := range []byte{0, 0xFF, 0x10, 0x20, 0x30, 1, 2} {
		for i := range rec {
			rec[i] = fill
		}
		use(&v)
	}
}

// use calls every accessor.
func use(v *message.View) {
	_ = fmt.Sprint(v.Raw(), v.Size(), v.Version(), v.BodyCRC(), v.QueueID(), v.Flag(), v.QueueOffset(), v.PhysicalOffset(), v.SysFlag(),
		v.BornTimestamp(), v.StoreTimestamp(), v.BornHost(), v.StoreHost(), v.ReconsumeTimes(), v.PreparedTransactionOffset(),
		v.Body(), v.Topic(), v.Properties().Map(), v.Property("KEYS"), v.Transaction(), v.Queued(), v.ID(), v.TagCode(),
		v.Delayed(), v.Check(), slices.Collect(v.IndexKeys()))
	_, _ = v.DecodedBody(nil, 1<<16)
}

func TestProperties(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "map[]",
		"a\x01b\x02":                     "map[a:b]",
		"a\x01b":                         "map[a:b]",
		"a\x01b\x02c\x01d":               "map[a:b c:d]",
		"a\x01b\x02a\x01c\x02":           "map[a:c]",
		"\x01b\x02a\x01\x02c\x02\x02":    "map[]",
		"a\x01b\x01c\x02":                "map[a:b\x01c]",
		"x\x02a\x01b":                    "map[a:b]",
		"日\x01本\x02😀\x01=, }\x02":        "map[日:本 😀:=, }]",
		"\x02\x02\x01\x02a\x01b\x02\x01": "map[a:b]",
	} {
		if got := fmt.Sprint(message.Properties(in).Map()); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	p := message.Properties("KEYS\x01a\x02TAGS\x01t\x02KEYS\x01b\x02")
	if got := string(p.Get("KEYS")); got != "b" {
		t.Errorf("of two values %q, want the later", got)
	}
	if p.Get("KEY") != nil || p.Get("") != nil {
		t.Error("found a property that is not there")
	}
}

func TestIndexKeys(t *testing.T) {
	for props, want := range map[string]string{
		"":                                       "[]",
		"UNIQ_KEY\x01u\x02KEYS\x01a b  a c\x02":  "[u a b a c]",
		"KEYS\x01 a \x02":                        "[a]",
		"KEYS\x01   \x02TAGS\x01x\x02":           "[]",
		"UNIQ_KEY\x01u 1\x02UNIQ_KEY\x01u 2\x02": "[u 2]",
	} {
		rec := withProperties(props)
		v, err := message.Decode(rec)
		if err != nil {
			t.Fatal(err)
		}
		got := "[" + string(bytes.Join(slices.Collect(v.IndexKeys()), []byte(" "))) + "]"
		if got != want {
			t.Errorf("%q: %s, want %s", props, got, want)
		}
		rec[39] |= 0xC // a rollback record is not indexed
		if n := len(slices.Collect(v.IndexKeys())); n != 0 || v.Queued() {
			t.Errorf("%q: %d keys of a rollback record, queued %v", props, n, v.Queued())
		}
	}
}

func withProperties(props string) []byte {
	rec := smallest(0)
	rec[3] += byte(len(props))
	rec[len(rec)-1] = byte(len(props))
	return append(rec, props...)
}

func TestTagCode(t *testing.T) {
	for tag, want := range map[string]int64{
		"":                   0,
		"TagA":               2598919,
		"TagZZZZZZ":          -367331910,
		"Aa":                 2112,
		"BB":                 2112,
		"polygenelubricants": math.MinInt32,
		"退款":                 1170238,
		"😀":                  1772899,
	} {
		if got := message.TagCode([]byte(tag)); got != want {
			t.Errorf("%q: %d, want %d", tag, got, want)
		}
	}
}

// javahash.txt: random bytes and what Java made of them, decoding included.
func TestJavaHash(t *testing.T) {
	f, err := os.Open("testdata/javahash.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for s := bufio.NewScanner(f); s.Scan(); n++ {
		var b []byte
		var want int32
		if _, err := fmt.Sscanf(s.Text(), "%x %d", &b, &want); err != nil {
			t.Fatal(err)
		}
		if got := message.JavaHash(b); got != want {
			t.Errorf("%x: %d, want %d", b, got, want)
		}
		if text := message.JavaString(b); message.JavaHash([]byte(text)) != want {
			t.Errorf("%x: %q has another hash", b, text)
		}
	}
	if n < 400 {
		t.Errorf("only %d lines", n)
	}
}

func TestTagCodeOfDelayed(t *testing.T) {
	for level, want := range map[string]int64{"1": 1000, "18": 7200000, "19": 7200000, "3": 10000} {
		m := &message.Message{Topic: message.ScheduleTopic, Tags: "TagA", Properties: []message.Property{{Name: "DELAY", Value: level}}}
		rec := message.AppendRecord(nil, m, netip.AddrPort{}, false)
		message.Stamp(rec, 0, 0, 5_000_000, false)
		v, _ := message.Decode(rec)
		if got := v.TagCode(); got != 5_000_000+want || !v.Delayed() {
			t.Errorf("level %s: %d", level, got)
		}
		m.Topic = "other" // elsewhere the property means nothing
		v, _ = message.Decode(message.AppendRecord(nil, m, netip.AddrPort{}, false))
		if got := v.TagCode(); got != 2598919 || v.Delayed() {
			t.Errorf("level %s in another topic: %d", level, got)
		}
	}
	for _, level := range []string{"0", "-1", "x", ""} {
		m := &message.Message{Topic: message.ScheduleTopic, Tags: "TagA", Properties: []message.Property{{Name: "DELAY", Value: level}}}
		v, _ := message.Decode(message.AppendRecord(nil, m, netip.AddrPort{}, false))
		if got := v.TagCode(); got != 2598919 {
			t.Errorf("level %q: %d", level, got)
		}
	}
}

func TestHostString(t *testing.T) {
	for host, want := range map[string]string{
		"127.0.0.1:54321":                   "/127.0.0.1:54321",
		"[::1]:10911":                       "/[0:0:0:0:0:0:0:1]:10911",
		"[1050::5:600:300c:326b]:10911":     "/[1050:0:0:0:5:600:300c:326b]:10911",
		"[::ffff:10.1.2.3]:1":               "/10.1.2.3:1",
		"[2001:db8:0:1234:abcd::ff]:65535":  "/[2001:db8:0:1234:abcd:0:0:ff]:65535",
		"[fe80:0:0:0:204:61ff:fe9d:f156]:0": "/[fe80:0:0:0:204:61ff:fe9d:f156]:0",
	} {
		if got := message.HostString(netip.MustParseAddrPort(host)); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	long := strings.Repeat("x", 40000)
	for name, c := range map[string]struct {
		change func(*message.Message)
		says   string // empty: accepted
	}{
		"good":                 {func(*message.Message) {}, ""},
		"nil body":             {func(m *message.Message) { m.Body = nil }, ""},
		"255 bytes of topic":   {func(m *message.Message) { m.Topic = long[:255] }, ""},
		"a dot in the topic":   {func(m *message.Message) { m.Topic = "a.b\\c" }, ""},
		"empty value":          {func(m *message.Message) { m.Properties = []message.Property{{Name: "a"}} }, ""},
		"properties just fit":  {func(m *message.Message) { m.Properties = []message.Property{{Name: "a", Value: long[:32767-3]}} }, ""},
		"one byte too many":    {func(m *message.Message) { m.Properties = []message.Property{{Name: "a", Value: long[:32767-2]}} }, "32768"},
		"no topic":             {func(m *message.Message) { m.Topic = "" }, "empty"},
		"256 bytes of topic":   {func(m *message.Message) { m.Topic = long[:256] }, "256"},
		"not UTF-8":            {func(m *message.Message) { m.Topic = "a\xff" }, "UTF-8"},
		"a path":               {func(m *message.Message) { m.Topic = "../../x" }, "directory"},
		"parent":               {func(m *message.Message) { m.Topic = ".." }, "directory"},
		"a zero byte":          {func(m *message.Message) { m.Topic = "a\x00" }, "directory"},
		"queue below 0":        {func(m *message.Message) { m.QueueID = -1 }, "-1"},
		"absurd queue":         {func(m *message.Message) { m.QueueID = math.MaxInt32 }, "2147483647"},
		"separator in a value": {func(m *message.Message) { m.Tags = "a\x02b" }, "separator"},
		"zero in a value":      {func(m *message.Message) { m.Properties = []message.Property{{Name: "a", Value: "b\x00c"}} }, "zero"},
		"separator in a name":  {func(m *message.Message) { m.Properties = []message.Property{{Name: "a\x01", Value: "b"}} }, "separator"},
		"no name":              {func(m *message.Message) { m.Properties = []message.Property{{Value: "b"}} }, "no name"},
		"the store's checksum": {func(m *message.Message) {
			m.Properties = []message.Property{{Name: message.PropCRC, Value: "0000000123"}}
		}, "assign"},
		"further offsets": {func(m *message.Message) {
			m.Properties = []message.Property{{Name: message.PropMultiQueueOffs, Value: "2"}}
		}, "assign"},
		"two faults": {func(m *message.Message) { m.Topic, m.QueueID = "", -7 }, "-7"},
	} {
		m := goldenMessage()
		m.Properties = nil
		c.change(m)
		err := m.Validate(false)
		if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, message.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q in it", name, err, c.says)
		}
	}
	m := goldenMessage()
	m.Properties = []message.Property{{Name: "a", Value: long[:32767-3]}}
	if err := m.Validate(true); !errors.Is(err, message.ErrInvalid) {
		t.Errorf("no room for the checksum: %v", err)
	}
}

func TestKindName(t *testing.T) {
	err := fmt.Errorf("opening: %w", &message.DamageError{File: "f", Offset: 9, Err: message.ErrBodyCRC})
	if !errors.Is(err, message.ErrDamaged) || !errors.Is(err, message.ErrBodyCRC) || message.KindName(err) != "bad-body-crc" {
		t.Errorf("%v: %s", err, message.KindName(err))
	}
	if !strings.Contains(err.Error(), "f at byte 9: ") {
		t.Error(err)
	}
	if message.KindName(errors.New("x")) != "unknown" {
		t.Error("named what is no damage")
	}
}

func BenchmarkDecodeAndCheck(b *testing.B) {
	m := goldenMessage()
	m.Body = bytes.Repeat([]byte("0123456789abcdef"), 64)
	rec := message.AppendRecord(nil, m, netip.AddrPort{}, false)
	b.SetBytes(int64(len(rec)))
	b.ReportAllocs()
	for b.Loop() {
		v, err := message.Decode(rec)
		if err != nil || v.Check() != nil {
			b.Fatal(err)
		}
	}
}
