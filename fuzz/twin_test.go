package fuzz_test

import (
	"hash/crc32"
	"math"
	"strings"
	"unicode/utf16"
)

// twinRecord is a record as the description of the format has it, field by field.
type twinRecord struct {
	size, bodyCRC, queueID, flag    int32
	queueOffset, physOffset         int64
	sysFlag                         int32
	born                            int64
	bornHost                        []byte // address
	bornPort                        uint32
	store                           int64
	storeHost                       []byte
	storePort                       uint32
	reconsume                       int32
	prepared                        int64
	body, topic, props              []byte
	version                         int
	bodyAt, topicAt, propsAt, after int
}

// reader takes fields from the front of bytes; bad once they did not suffice.
type reader struct {
	b   []byte
	at  int
	bad bool
}

func (r *reader) bytes(n int64) []byte {
	if r.bad || n < 0 || n > int64(len(r.b)-r.at) {
		r.bad = true
		return nil
	}
	b := r.b[r.at : r.at+int(n)]
	r.at += int(n)
	return b
}

func (r *reader) uint(n int64) (v uint64) {
	for _, c := range r.bytes(n) {
		v = v*256 + uint64(c)
	}
	return v
}

func (r *reader) i16() int64 { return int64(int16(r.uint(2))) }
func (r *reader) i32() int32 { return int32(r.uint(4)) }
func (r *reader) i64() int64 { return int64(r.uint(8)) }

// twinDecode reads a record by the table in the description of the format.
func twinDecode(b []byte) (rec twinRecord, ok bool) {
	r := &reader{b: b}
	rec.size = r.i32()
	if rec.size < 0 || int64(rec.size) > int64(len(b)) {
		return rec, false
	}
	r.b = b[:rec.size]
	switch uint32(r.uint(4)) {
	case 0xDAA320A7:
		rec.version = 1
	case 0xDAA320AB:
		rec.version = 2
	default:
		return rec, false
	}
	rec.bodyCRC, rec.queueID, rec.flag = r.i32(), r.i32(), r.i32()
	rec.queueOffset, rec.physOffset, rec.sysFlag, rec.born = r.i64(), r.i64(), r.i32(), r.i64()
	address := func(v6 int32) int64 {
		if rec.sysFlag&v6 != 0 {
			return 16
		}
		return 4
	}
	rec.bornHost, rec.bornPort = r.bytes(address(0x10)), uint32(r.uint(4))
	rec.store = r.i64()
	rec.storeHost, rec.storePort = r.bytes(address(0x20)), uint32(r.uint(4))
	rec.reconsume, rec.prepared = r.i32(), r.i64()
	n := int64(r.i32())
	rec.bodyAt = r.at
	rec.body = r.bytes(n)
	if rec.version == 1 {
		n = int64(int8(r.uint(1)))
	} else {
		n = r.i16()
	}
	rec.topicAt = r.at
	rec.topic = r.bytes(n)
	n = r.i16()
	rec.propsAt = r.at
	rec.props = r.bytes(n)
	rec.after = r.at
	return rec, !r.bad && r.at == len(r.b)
}

// queued: prepared and rollback records have no queue entry.
func (rec *twinRecord) queued() bool { return rec.sysFlag&0xC == 0 || rec.sysFlag&0xC == 8 }

// twinCheck says whether the checksums are right: yes, no, or (for a tail of the
// properties that is almost a checksum) not told.
func twinCheck(rec *twinRecord, raw []byte) (right, told bool) {
	if int32(crc32.ChecksumIEEE(rec.body)&0x7FFFFFFF) != rec.bodyCRC {
		return false, true
	}
	const form = "__CRC32#\x01dddddddddd\x02"
	if len(rec.props) < len(form) {
		return true, true
	}
	tail := string(rec.props[len(rec.props)-len(form):])
	differ, sum := 0, uint64(0)
	for i := len(form) - 1; i >= 0; i-- { // the last digit is the most significant
		switch c := tail[i]; {
		case form[i] != 'd' && form[i] != c || form[i] == 'd' && (c < '0' || c > '9'):
			differ++
		case form[i] == 'd':
			sum = sum*10 + uint64(c-'0')
		}
	}
	switch {
	case differ == 0:
		return uint64(crc32.ChecksumIEEE(raw[:len(raw)-len(form)])&0x7FFFFFFF) == sum, true
	case differ > 2:
		return true, true
	}
	return false, false
}

// twinPairs is RocketMQ's MessageDecoder.string2messageProperties, over text.
func twinPairs(text string) (pairs [][2]string) {
	for _, piece := range strings.Split(text, "\x02") {
		if len(piece) < 3 {
			continue
		}
		name, value, found := strings.Cut(piece, "\x01")
		if found && name != "" && value != "" {
			pairs = append(pairs, [2]string{name, value})
		}
	}
	return pairs
}

// twinLast is the value of a name: of several the last.
func twinLast(pairs [][2]string, name string) (value string, ok bool) {
	for _, p := range pairs {
		if p[0] == name {
			value, ok = p[1], true
		}
	}
	return value, ok
}

// twinText is what java.lang.String decodes from UTF-8: U+FFFD once for the longest start of
// a character that could have become one. An encoded surrogate is a character to Java until
// it is whole.
func twinText(b []byte) string {
	var text []rune
	for len(b) > 0 {
		c, need, from, to := b[0], 1, byte(0x80), byte(0xBF)
		switch {
		case c >= 0xC2 && c <= 0xDF:
			need = 2
		case c == 0xE0:
			need, from = 3, 0xA0
		case c >= 0xE1 && c <= 0xEF:
			need = 3
		case c == 0xF0:
			need, from = 4, 0x90
		case c >= 0xF1 && c <= 0xF3:
			need = 4
		case c == 0xF4:
			need, to = 4, 0x8F
		}
		n := 1
		for n < need && n < len(b) && b[n] >= from && b[n] <= to {
			n, from, to = n+1, 0x80, 0xBF
		}
		r := '\uFFFD'
		if c < 0x80 {
			r = rune(c)
		} else if need > 1 && n == need {
			r = rune(c) & (0x7F >> need)
			for _, more := range b[1:n] {
				r = r<<6 | rune(more&0x3F)
			}
			if r >= 0xD800 && r <= 0xDFFF {
				r = '\uFFFD'
			}
		}
		text = append(text, r)
		b = b[n:]
	}
	return string(text)
}

// twinHash is Java's String.hashCode.
func twinHash(text string) int32 {
	h := int32(0)
	for _, unit := range utf16.Encode([]rune(text)) {
		h = 31*h + int32(unit)
	}
	return h
}

// twinKeys are the keys of a record's index entries, by its properties.
func twinKeys(props []byte) (keys []string) {
	pairs := twinPairs(string(props))
	if unique, ok := twinLast(pairs, "UNIQ_KEY"); ok {
		keys = append(keys, unique)
	}
	text, _ := twinLast(pairs, "KEYS")
	for _, key := range strings.Split(text, " ") {
		if key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// twinTagCode is the tag code of a record's queue entry.
func twinTagCode(rec *twinRecord) int64 {
	pairs := twinPairs(string(rec.props))
	if level, ok := twinLast(pairs, "DELAY"); ok && string(rec.topic) == "SCHEDULE_TOPIC_XXXX" {
		if n, ok := decimal(level); ok && n > 0 {
			const s, m, h = 1000, 60 * 1000, 3600 * 1000
			levels := []int64{1 * s, 5 * s, 10 * s, 30 * s, 1 * m, 2 * m, 3 * m, 4 * m, 5 * m, 6 * m, 7 * m, 8 * m, 9 * m, 10 * m, 20 * m, 30 * m, 1 * h, 2 * h}
			return rec.store + levels[min(n, 18)-1]
		}
	}
	tags, _ := twinLast(pairs, "TAGS")
	return int64(twinHash(twinText([]byte(tags))))
}

// decimal is Java's Integer.parseInt for ASCII.
func decimal(text string) (n int64, ok bool) {
	sign := int64(1)
	if text != "" && (text[0] == '-' || text[0] == '+') {
		if text[0] == '-' {
			sign = -1
		}
		text = text[1:]
	}
	if text == "" {
		return 0, false
	}
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = n*10 + int64(c-'0'); n > math.MaxInt32+1 {
			return 0, false
		}
	}
	n *= sign
	return n, n >= math.MinInt32 && n <= math.MaxInt32
}
