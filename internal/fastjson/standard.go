package fastjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// SyntaxError says where a text is no JSON, not even with integer keys.
type SyntaxError struct {
	// Offset is the byte, from 0, where the text goes wrong; its length, if it ends too
	// early.
	Offset int64

	Cause string // what is wrong there
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("at byte %d: %s", e.Offset, e.Cause) }

// Standard appends to dst the text in src as standard JSON: integer keys get quotes, every
// other byte stays as it is, those of strings included, even where they are not UTF-8. A
// text that is standard JSON comes out unchanged. dst and src must not overlap.
//
// The error is a [*SyntaxError], and dst is then returned as it was. Without an error what
// was appended is one valid JSON value, with white space around it if src has it.
func Standard(dst, src []byte) ([]byte, error) {
	out := quoteKeys(dst, src)
	if err := json.Unmarshal(out[len(dst):], new(syntaxOnly)); err != nil {
		return dst, inSource(src, err)
	}
	return out[:len(out)-1], nil
}

// Unmarshal reads a text in fastjson's dialect into v as [json.Unmarshal] does, with that
// function's rules and errors: a [*SyntaxError] for a text that is no JSON, a
// [*json.UnmarshalTypeError] for a value that does not fit, its Offset counted in data.
func Unmarshal(data []byte, v any) error {
	return inSource(data, json.Unmarshal(quoteKeys(nil, data), v))
}

// SourceOffset returns where in src the byte stands that Standard has put at offset n of
// what it appended. A quote that it has added stands where its key begins or ends.
func SourceOffset(src []byte, n int64) int64 {
	added := int64(0) // quotes before n
	for start, end := range keys(src) {
		if n <= int64(start)+added { // before the key, or its first quote
			break
		}
		if n <= int64(end)+added+1 { // in the key, or its second quote
			return n - added - 1
		}
		added += 2
	}
	return n - added
}

// quoteKeys appends src with quotes around the integer keys, and a line feed. That byte is
// white space to a text that is whole; in one that is cut short it is the byte that is
// wrong, so that encoding/json's offsets mean the same for both.
func quoteKeys(dst, src []byte) []byte {
	dst = slices.Grow(dst, len(src)+1)
	done := 0
	for start, end := range keys(src) {
		dst = append(dst, src[done:start]...)
		dst = append(dst, '"')
		dst = append(dst, src[start:end]...)
		dst = append(dst, '"')
		done = end
	}
	dst = append(dst, src[done:]...)
	return append(dst, '\n')
}

// syntaxOnly takes any value and looks at none: encoding/json checks the syntax of the
// whole text before it asks.
type syntaxOnly struct{}

func (*syntaxOnly) UnmarshalJSON([]byte) error { return nil }

// inSource makes an error about what quoteKeys has made one about src.
func inSource(src []byte, err error) error {
	var syntax *json.SyntaxError
	var value *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at := SourceOffset(src, syntax.Offset-1) // it counts the wrong byte too
		if at >= int64(len(src)) {
			return &SyntaxError{int64(len(src)), "the text ends too early"}
		}
		return &SyntaxError{at, syntax.Error()}
	case errors.As(err, &value):
		moved := *value
		moved.Offset = SourceOffset(src, value.Offset)
		return &moved
	}
	return err
}
