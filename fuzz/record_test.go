package fuzz_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/message"
)

// FuzzRecord gives any bytes to the decoder. What it accepts is what the twin reads, and
// encoding the fields gives the bytes back. Then the bytes are changed under the view, as
// those of a mapped file may be.
func FuzzRecord(f *testing.F) {
	for _, rec := range seedRecords(f) {
		f.Add(rec, []byte{})
		f.Add(rec, []byte{0, 36, 0, 0, 0, 0x30})
		f.Add(rec, []byte{0, 84, 0xFF, 0xFF, 0xFF, 0xFF})
	}
	for _, rec := range append(madeRecords(), edgeRecords()...) {
		f.Add(rec, []byte{0, 39, 0x30})
	}
	f.Fuzz(func(t *testing.T, b, patch []byte) {
		original := bytes.Clone(b)
		v, err := message.Decode(b)
		want, ok := twinDecode(b)
		if ok != (err == nil) {
			t.Fatalf("the twin says %v, Decode says %v", ok, err)
		}
		if err != nil {
			if !errors.Is(err, message.ErrDamaged) || message.KindName(err) == "unknown" {
				t.Fatalf("not an error of the class: %v", err)
			}
			refused(t, b)
			return
		}
		sameRecord(t, &v, &want)
		raw := b[:want.size:want.size]
		checkRecord(t, &v, &want, raw)
		pullRecord(t, &v, &want, raw)
		encodeAgain(t, &v, &want, raw)
		if !bytes.Equal(b, original) {
			t.Fatal("reading changed the record")
		}

		// Change the bytes under the view: from an offset on, by xor.
		if len(patch) < 2 {
			return
		}
		at := int(binary.BigEndian.Uint16(patch))
		for i, c := range patch[2:] {
			raw[(at+i)%len(raw)] ^= c
		}
		within(t, &v, raw)
	})
}

// madeRecords are shapes that no fixture may have.
func madeRecords() (all [][]byte) {
	v4, v6 := netip.MustParseAddrPort("10.0.0.1:50000"), netip.MustParseAddrPort("[2001:db8::7]:10911")
	add := func(m message.Message, store netip.AddrPort, crc bool) {
		b := message.AppendRecord(nil, &m, store, crc)
		message.Stamp(b, 42, 1000, 1700000000123, crc)
		all = append(all, b)
	}
	for _, born := range []netip.AddrPort{v4, v6} {
		for _, store := range []netip.AddrPort{v4, v6} {
			add(message.Message{Topic: "T", BornHost: born}, store, false)
			add(message.Message{Topic: strings.Repeat("%RETRY%", 20), Body: []byte("body"), Tags: "a", BornHost: born, BornTimestamp: 1}, store, true)
		}
	}
	add(message.Message{Topic: message.ScheduleTopic, QueueID: 3, Properties: []message.Property{{Name: "DELAY", Value: "4"}}}, v4, false)
	add(message.Message{Topic: "T", Keys: "a b  c", Properties: []message.Property{{Name: "UNIQ_KEY", Value: "u"},
		{Name: "INNER_MULTI_DISPATCH", Value: "%LMQ%a,b"}, {Name: "INNER_MULTI_QUEUE_OFFSET", Value: "7,8"}}}, v4, true)
	for _, kind := range []int32{0, message.SysFlagZlib, message.SysFlagLZ4, message.SysFlagZstd, 0x400} {
		body := []byte("\x78\x9c\x4b\x04\x00\x00\x62\x00\x62") // zlib of "a"
		switch kind {
		case message.SysFlagLZ4:
			body = []byte("\x04\x22\x4d\x18\x64\x40\xa7\x01\x00\x00\x80\x61\x00\x00\x00\x00\xcc\xe1\xa9\x55")
		case message.SysFlagZstd:
			body = []byte("\x28\xb5\x2f\xfd\x04\x00\x09\x00\x00\x61\x22\x56\xa4\x1a")
		}
		add(message.Message{Topic: "T", Body: body, SysFlag: message.SysFlagCompressed | kind}, v4, false)
	}
	return all
}

// edgeRecords are records at and over the edges of what lengths can be.
func edgeRecords() (all [][]byte) {
	be := binary.BigEndian
	for _, n := range []int{126, 127, 128, 255, 32766, 32767, 32768, 65535} {
		for _, version := range []byte{0xA7, 0xAB} {
			for _, inTopic := range []bool{true, false} {
				b := make([]byte, 88) // no body
				copy(b[4:], []byte{0xDA, 0xA3, 0x20, version})
				long := bytes.Repeat([]byte{'t'}, n)
				topic, props := long, []byte{}
				if !inTopic {
					topic, props = []byte("T"), long
				}
				if version == 0xA7 {
					b = append(b, byte(len(topic)))
					topic = topic[:byte(len(topic))] // as its length says
				} else {
					b = be.AppendUint16(b, uint16(len(topic)))
				}
				b = append(b, topic...)
				b = append(be.AppendUint16(b, uint16(len(props))), props...)
				be.PutUint32(b, uint32(len(b)))
				all = append(all, b)
			}
		}
	}
	for n := range 3 {
		m := message.Message{Topic: strings.Repeat("t", 126+n), BornHost: seedHost}
		all = append(all, message.AppendRecord(nil, &m, seedHost, false))
	}
	return all
}

func hostOf(address []byte, port uint32) netip.AddrPort {
	a, _ := netip.AddrFromSlice(address)
	return netip.AddrPortFrom(a, uint16(port))
}

// sameRecord compares the view's fields with the twin's.
func sameRecord(t *testing.T, v *message.View, want *twinRecord) {
	t.Helper()
	type fields struct {
		size, version            int32
		bodyCRC                  uint32
		queueID, flag            int32
		queueOffset, physOffset  int64
		sysFlag                  int32
		born                     int64
		bornHost                 netip.AddrPort
		store                    int64
		storeHost                netip.AddrPort
		reconsume                int32
		prepared                 int64
		body, topic, props       string
		transaction              int32
		queued                   bool
		delayed                  bool
		bodyCap, topicCap, inRaw int
	}
	got := fields{v.Size(), int32(v.Version()), v.BodyCRC(), v.QueueID(), v.Flag(), v.QueueOffset(), v.PhysicalOffset(), v.SysFlag(), v.BornTimestamp(),
		v.BornHost(), v.StoreTimestamp(), v.StoreHost(), v.ReconsumeTimes(), v.PreparedTransactionOffset(), string(v.Body()), string(v.Topic()),
		string(v.Properties()), v.Transaction(), v.Queued(), false, cap(v.Body()), cap(v.Topic()), cap(v.Raw())}
	expected := fields{want.size, int32(want.version), uint32(want.bodyCRC), want.queueID, want.flag, want.queueOffset, want.physOffset, want.sysFlag, want.born,
		hostOf(want.bornHost, want.bornPort), want.store, hostOf(want.storeHost, want.storePort), want.reconsume, want.prepared, string(want.body), string(want.topic),
		string(want.props), want.sysFlag & 0xC, want.queued(), false, len(want.body), len(want.topic), int(want.size)}
	if got != expected {
		t.Fatalf("\ngot  %+v\nwant %+v", got, expected)
	}
	if sum := 91 + len(want.bornHost) + len(want.storeHost) - 8 + want.version - 1 + len(want.body) + len(want.topic) + len(want.props); sum != int(want.size) {
		t.Fatalf("the lengths add up to %d of %d", sum, want.size)
	}
	id := ""
	for _, c := range slices.Concat(want.storeHost, binary.BigEndian.AppendUint32(nil, want.storePort), binary.BigEndian.AppendUint64(nil, uint64(want.physOffset))) {
		id += string("0123456789ABCDEF"[c>>4]) + string("0123456789ABCDEF"[c&15])
	}
	if v.ID() != id {
		t.Fatalf("id %s, want %s", v.ID(), id)
	}
	var keys []string
	for key := range v.IndexKeys() {
		keys = append(keys, string(key))
	}
	wantKeys := twinKeys(want.props)
	if want.sysFlag&0xC == 0xC {
		wantKeys = nil
	}
	if !slices.Equal(keys, wantKeys) {
		t.Fatalf("keys %q, want %q", keys, wantKeys)
	}
	// What Java takes for an integer and Go does not, or the other way round, is not compared.
	if delay := v.Property(message.PropDelay); len(delay) < 10 && v.TagCode() != twinTagCode(want) {
		t.Fatalf("tag code %d, want %d", v.TagCode(), twinTagCode(want))
	}
}

// checkRecord compares the checks of checksums and position.
func checkRecord(t *testing.T, v *message.View, want *twinRecord, raw []byte) {
	t.Helper()
	right, told := twinCheck(want, raw)
	err := v.Check()
	if told && right != (err == nil) || !told && err == nil {
		t.Fatalf("Check: %v; the twin: right %v, told %v", err, right, told)
	}
	if err != nil && err != error(message.ErrBodyCRC) && err != error(message.ErrPropCRC) {
		t.Fatalf("Check: %v", err)
	}
	if at := v.CheckAt(want.physOffset); at != err {
		t.Fatalf("Check says %v, CheckAt says %v", err, at)
	}
	if at := v.CheckAt(want.physOffset + 1); !errors.Is(at, message.ErrMisplaced) {
		t.Fatalf("CheckAt another place: %v", at)
	}
	if len(raw) >= message.HeaderSize && !message.PlausibleHead(raw[:message.HeaderSize], want.physOffset) {
		t.Fatal("the head of a record is not plausible")
	}
	if body, err := v.DecodedBody(nil, 1<<16); err == nil {
		if want.sysFlag&1 == 0 && !bytes.Equal(body, want.body) || len(body) > 1<<16 && want.sysFlag&1 != 0 {
			t.Fatalf("decoded %d bytes of %d", len(body), len(want.body))
		}
	} else if want.sysFlag&1 == 0 || !errors.Is(err, message.ErrDamaged) && !errors.Is(err, message.ErrBodyTooLarge) && !errors.Is(err, message.ErrCompression) {
		t.Fatalf("DecodedBody: %v", err)
	}
}

// identity names a message.
type identity struct {
	topic string
	queue int32
	off   int64
}

// pullRecord checks that a record is what it says it is, to a pull that has not seen it
// before and to one that has.
func pullRecord(t *testing.T, v *message.View, want *twinRecord, raw []byte) {
	t.Helper()
	id := identity{string(want.topic), want.queueID, want.queueOffset}
	if v.Is(id.topic, id.queue, id.off) != want.queued() {
		t.Fatal("the record is not itself, or is queued and should not be")
	}
	for _, other := range []identity{{id.topic + "x", id.queue, id.off}, {id.topic, id.queue ^ 1, id.off}, {id.topic, id.queue, id.off ^ 1}, {"%LMQ%a", 0, 7}} {
		if other != id && v.Is(other.topic, other.queue, other.off) != twinDispatched(want, &other) {
			t.Fatalf("is said to be %+v: %v", other, !twinDispatched(want, &other))
		}
	}
	entry := [12]byte(consumequeue.EntryOf(v, want.physOffset).AppendTo(nil))
	head := (*message.Head)(raw)
	if head.Names(&entry, want.queueID, want.queueOffset) != want.queued() {
		t.Fatalf("its head is another: %x", *head)
	}
	if head.Names(&entry, want.queueID^1, want.queueOffset) || head.Names(&entry, want.queueID, want.queueOffset^1<<40) {
		t.Fatal("its head is also another's")
	}
	for i := range entry {
		if entry[i] ^= 4; head.Names(&entry, want.queueID, want.queueOffset) {
			t.Fatalf("byte %d of an entry does not matter", i)
		}
		entry[i] ^= 4
	}
	again := message.ViewOf(raw)
	sameRecord(t, &again, want)
}

// twinDispatched reports whether the properties name a further place of the record.
func twinDispatched(rec *twinRecord, id *identity) bool {
	pairs := twinPairs(string(rec.props))
	names, ok1 := twinLast(pairs, "INNER_MULTI_DISPATCH")
	offsets, ok2 := twinLast(pairs, "INNER_MULTI_QUEUE_OFFSET")
	queue := rec.queueID
	if strings.HasPrefix(id.topic, "%LMQ%") {
		queue = 0
	}
	if !ok1 || !ok2 || queue != id.queue || !rec.queued() {
		return false
	}
	list := strings.Split(offsets, ",")
	for i, name := range strings.Split(names, ",") {
		if i < len(list) && name == id.topic && name != "" {
			if n, err := strconv.ParseInt(list[i], 10, 64); err == nil {
				return n == id.off
			}
		}
	}
	return false
}

// refused makes a view of bytes that are no record, as those of a record that was sound once
// may be. It shows nothing that is not there.
func refused(t *testing.T, b []byte) {
	t.Helper()
	if len(b) >= message.MinSize {
		b = b[:len(b):len(b)]
		v := message.ViewOf(b)
		within(t, &v, b)
	}
}

var checksum = regexp.MustCompile(`^__CRC32#\x01[0-9]{10}\x02$`)

// encodeAgain encodes the fields of a record that a producer could have sent.
func encodeAgain(t *testing.T, v *message.View, want *twinRecord, raw []byte) {
	t.Helper()
	m := message.Message{
		Topic: string(want.topic), QueueID: want.queueID, Body: want.body, Flag: want.flag, SysFlag: want.sysFlag, BornTimestamp: want.born,
		BornHost: v.BornHost(), ReconsumeTimes: want.reconsume, PreparedTransactionOffset: want.prepared,
	}
	props := want.props
	const crcSize = 20
	crc := len(props) >= crcSize && checksum.Match(props[len(props)-crcSize:])
	if crc {
		props = props[:len(props)-crcSize]
	}
	rebuilt := []byte{}
	for name, value := range message.Properties(props).All() {
		m.Properties = append(m.Properties, message.Property{Name: string(name), Value: string(value)})
		rebuilt = message.AppendProperty(rebuilt, string(name), string(value))
	}
	representable := bytes.Equal(rebuilt, props) && v.Check() == nil && want.bornPort <= math.MaxUint16 && want.storePort <= math.MaxUint16 &&
		(want.version == 2) == (len(want.topic) > message.MaxTopicV1)
	if !representable || m.Validate(crc) != nil {
		return
	}
	again := message.AppendRecord([]byte("before"), &m, v.StoreHost(), crc)
	message.Stamp(again[6:], want.queueOffset, want.physOffset, want.store, crc)
	if string(again[:6]) != "before" || !bytes.Equal(again[6:], raw) {
		t.Fatalf("encoded again\ngot  %x\nwant %x", again[6:], raw)
	}
}

// within calls every accessor and checks that what it returns lies in the record.
func within(t *testing.T, v *message.View, raw []byte) {
	t.Helper()
	start := uintptr(unsafe.Pointer(unsafe.SliceData(raw)))
	inside := func(what string, b []byte) {
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - start; len(b) > 0 && (at > uintptr(len(raw)) || uintptr(len(b)) > uintptr(len(raw))-at) {
			t.Fatalf("%s lies outside of the record", what)
		}
	}
	inside("raw", v.Raw())
	inside("body", v.Body())
	inside("topic", v.Topic())
	inside("properties", v.Properties())
	for name, value := range v.Properties().All() {
		inside("name", name)
		inside("value", value)
	}
	for key := range v.IndexKeys() {
		inside("key", key)
	}
	_ = v.Properties().Map()
	_, _, _, _, _, _ = v.Size(), v.Version(), v.BodyCRC(), v.QueueID(), v.Flag(), v.QueueOffset()
	_, _, _, _, _ = v.PhysicalOffset(), v.SysFlag(), v.BornTimestamp(), v.StoreTimestamp(), v.ReconsumeTimes()
	_, _, _, _ = v.PreparedTransactionOffset(), v.Transaction(), v.Queued(), v.ID()
	_, _ = message.HostString(v.BornHost()), message.HostString(v.StoreHost())
	_, _ = v.TagCode(), v.Delayed()
	_ = v.Check()
	_ = v.CheckAt(v.PhysicalOffset())
	_ = v.Is(string(v.Topic()), v.QueueID(), v.QueueOffset())
	_ = v.Is("%LMQ%a", 0, 7)
	if len(raw) >= message.HeaderSize {
		_ = message.PlausibleHead(raw[:message.HeaderSize], 1000)
	}
	if b, err := v.DecodedBody(nil, 1<<16); err == nil && v.SysFlag()&message.SysFlagCompressed == 0 {
		inside("decoded body", b)
	}
}

// A small record cannot fill the memory: what is allocated to decode its body is bounded by
// the limit, whatever a frame says of itself.
func TestBodyMemory(t *testing.T) {
	for _, c := range []struct {
		kind int32
		body string
	}{
		{message.SysFlagZstd, "\x28\xb5\x2f\xfd\x00\x98\x09\x00\x00a"},                             // a window of 512 MiB
		{message.SysFlagZstd, "\x28\xb5\x2f\xfd\xe0\x00\x00\x00\x20\x00\x00\x00\x00\x09\x00\x00a"}, // a content of 512 MiB
		{message.SysFlagLZ4, "\x04\x22\x4d\x18\x68\x70\x00\x00\x00\x20\x00\x00\x00\x00\x00a"},      // a content of 512 MiB in blocks of 4
	} {
		m := message.Message{Topic: "T", Body: []byte(c.body), SysFlag: message.SysFlagCompressed | c.kind}
		v, err := message.Decode(message.AppendRecord(nil, &m, seedHost, false))
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = v.DecodedBody(nil, 1024)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
			t.Errorf("%x: %d MiB, %v", c.body, took>>20, err)
		}
	}
}
