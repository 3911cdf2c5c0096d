package keyindex

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/warmlog/warmlog/message"
)

// file is one index file that is open for reading.
type file struct {
	path   string
	at     io.ReaderAt
	layout Layout
}

// damage makes the error that names a place in the file.
func (x *file) damage(offset int64, kind *message.Kind, format string, args ...any) error {
	return &message.DamageError{File: x.path, Offset: offset, Err: fmt.Errorf("%w: "+format, append([]any{kind}, args...)...)}
}

// read fills b from an offset of the file.
func (x *file) read(b []byte, offset int64) error {
	n, err := x.at.ReadAt(b, offset)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return &message.DamageError{File: x.path, Offset: offset + int64(n), Err: ErrShort}
	}
	return &message.DamageError{File: x.path, Offset: offset + int64(n), Err: err}
}

func (x *file) header() (Header, error) {
	var b [HeaderSize]byte
	if err := x.read(b[:], 0); err != nil {
		return Header{}, err
	}
	return ParseHeader(b[:]), nil
}

func (x *file) slot(i int32) (int32, error) {
	var b [SlotSize]byte
	err := x.read(b[:], x.layout.SlotAt(i))
	return int32(be.Uint32(b[:])), err
}

func (x *file) entry(n int32) (Entry, error) {
	var b [EntrySize]byte
	err := x.read(b[:], x.layout.EntryAt(n))
	return ParseEntry(b[:]), err
}

// fits compares a header that counts keys with the first and the last entry and with their
// slots: the error is an [ErrHeader] or that of reading. It costs five small reads and is
// what stands between a damaged header and ranges that are thought to be covered.
//
// A writer stores entry, slot, begin values, used slots, count, end offset and end time in
// this order. Whoever reads in between, or after a kill in between, finds end values that
// are those of the entry before the last: that is accepted, and the range that the header
// tells is the smaller one.
func (x *file) fits(h *Header) error {
	l, last := x.layout, h.Keys()
	switch {
	case h.Count > l.Entries:
		return x.damage(36, ErrHeader, "count %d of %d entries", h.Count, l.Entries)
	case h.SlotsUsed < 1 || h.SlotsUsed > min(l.Slots, h.Count):
		return x.damage(32, ErrHeader, "%d of %d slots used by %d keys", h.SlotsUsed, l.Slots, last)
	case h.BeginOffset < 0:
		return x.damage(16, ErrHeader, "begin offset %d", h.BeginOffset)
	}
	one, err := x.linked(1)
	if err != nil {
		return err
	}
	if one.Offset != h.BeginOffset || one.Prev != 0 {
		return x.damage(16, ErrHeader, "begin offset %d, but entry 1 names %d", h.BeginOffset, one.Offset)
	}
	if last == 1 {
		// End values still of the file before, or none.
		if h.EndOffset < 0 || h.EndOffset > one.Offset {
			return x.damage(24, ErrHeader, "end offset %d, but the only entry names %d", h.EndOffset, one.Offset)
		}
		return nil
	}
	end, err := x.linked(last)
	if err != nil {
		return err
	}
	before, err := x.entry(last - 1)
	if err != nil {
		return err
	}
	if end.Offset < before.Offset || before.Offset < one.Offset || h.EndOffset != end.Offset && h.EndOffset != before.Offset {
		return x.damage(24, ErrHeader, "end offset %d, but the last entry names %d", h.EndOffset, end.Offset)
	}
	timely := Seconds(h.BeginTimestamp, h.EndTimestamp) == end.Seconds
	if last == 2 { // the seconds of entry 1 prove nothing; its time is the begin timestamp
		timely = timely || h.EndTimestamp == h.BeginTimestamp
	} else {
		timely = timely || Seconds(h.BeginTimestamp, h.EndTimestamp) == before.Seconds
	}
	if !timely {
		return x.damage(8, ErrHeader, "from %d to %d ms, but the last entry says %d s", h.BeginTimestamp, h.EndTimestamp, end.Seconds)
	}
	return nil
}

// linked returns an entry whose slot must lead to it or to a later one.
func (x *file) linked(n int32) (Entry, error) {
	e, err := x.entry(n)
	if err != nil {
		return e, err
	}
	if e.Hash < 0 || e.Prev < 0 || e.Prev >= n {
		return e, x.damage(x.layout.EntryAt(n), ErrHeader, "number %d is no entry", n)
	}
	i := e.Hash % x.layout.Slots
	s, err := x.slot(i)
	if err == nil && (s < n || s >= x.layout.Entries) {
		err = x.damage(x.layout.SlotAt(i), ErrHeader, "entry %d is counted, but its slot holds %d", n, s)
	}
	return e, err
}

// openFile opens a regular file for reading; it does not wait for anything else, such as a
// pipe of that name, to answer.
func openFile(path string) (*os.File, os.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}
