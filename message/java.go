package message

import (
	"strings"
	"unicode/utf8"
)

// JavaString returns the text that Java decodes from UTF-8 bytes: U+FFFD stands for what is
// malformed, as often as Java puts it.
func JavaString(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var sb strings.Builder
	for len(b) > 0 {
		r, n := javaRune(b)
		sb.WriteRune(r)
		b = b[n:]
	}
	return sb.String()
}

// JavaHash returns String.hashCode of the text that Java decodes from UTF-8 bytes:
// h = 31·h + c over UTF-16 code units, in 32 bits.
func JavaHash(b []byte) int32 {
	h := int32(0)
	for i := 0; i < len(b); {
		if c := b[i]; c < utf8.RuneSelf {
			h = 31*h + int32(c)
			i++
			continue
		}
		r, n := javaRune(b[i:])
		i += n
		if r >= 0x10000 {
			r -= 0x10000
			h = 31*h + (0xD800 + r>>10)
			h = 31*h + (0xDC00 + r&0x3FF)
			continue
		}
		h = 31*h + r
	}
	return h
}

// javaRune decodes one character as java.lang.String does, with U+FFFD for what is
// malformed. Go and Java agree on what is well-formed; they differ in how many bytes one
// replacement stands for: Go takes one byte, Java the longest start of a character that
// could have become one, and the three bytes of an encoded surrogate together.
func javaRune(b []byte) (rune, int) {
	if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
		return r, n
	}
	const bad = utf8.RuneError
	cont := func(i int) bool { return i < len(b) && b[i]&0xC0 == 0x80 }
	switch c := b[0]; {
	case c >= 0xE0 && c <= 0xEF:
		if !cont(1) || c == 0xE0 && b[1] < 0xA0 {
			return bad, 1
		}
		if !cont(2) {
			return bad, 2
		}
		return bad, 3 // well-formed but for its value: a surrogate
	case c >= 0xF0 && c <= 0xF4:
		if !cont(1) || c == 0xF0 && b[1] < 0x90 || c == 0xF4 && b[1] > 0x8F {
			return bad, 1
		}
		if !cont(2) {
			return bad, 2
		}
		return bad, 3
	}
	return bad, 1
}
