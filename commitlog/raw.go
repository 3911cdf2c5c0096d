package commitlog

import (
	"errors"
	"fmt"
	"io"

	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/message"
)

// ErrDiscontinuous says that bytes do not continue the log: they belong before its end, or
// something is missing between.
var ErrDiscontinuous = errors.New("the bytes do not continue the log")

// Raw returns a part of the log as it is written, visible or not: up to len(b) bytes from a
// physical offset on, of one segment, read by system call. It returns 0 at the end of what
// is written. The error is [ErrGone] or [ErrBeyond], a damage, or what the system said.
func (a *Appender) Raw(off int64, b []byte) (int, error) {
	written := a.Written()
	switch {
	case off < a.log.Min():
		return 0, ErrGone
	case off > written:
		return 0, ErrBeyond
	case off == written:
		return 0, nil
	}
	seg, file, err := a.log.open(off)
	if err != nil {
		return 0, err
	}
	defer file.Release()
	b = b[:min(int64(len(b)), written-off, seg.End()-off)]
	n, err := file.ReadAt(b, off-seg.Base)
	if errors.Is(err, io.EOF) { // the file was shortened
		return n, a.log.Damage(off+int64(n), message.ErrTruncated)
	}
	return n, err
}

// AppendRaw appends a part of another log of the same segment size, byte for byte: whole
// records and whole blanks that continue this log at a physical offset. A log without any
// segment begins where the first bytes belong, at the beginning of a segment. Nothing is
// written unless all of it is sound: see [CheckRaw].
//
// In Written mode it is written and visible when AppendRaw returns, in Flushed mode once it
// is committed. Where space ends in between, a part may have been appended: see
// [Appender.End]. It is called by one goroutine at a time, and not together with Append.
func (a *Appender) AppendRaw(off int64, b []byte) error {
	newest, err := CheckRaw(off, b, a.log.size)
	if err != nil {
		return err
	}
	defer func() {
		if a.pos.Load() > a.show.limit.Load() {
			a.showMore() // some of the records may lie below
		}
		a.moved.Changed()
	}()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.Failed(); err != nil {
		return err
	}
	if a.mu.cur == nil && len(a.log.Segments()) == 0 && off%a.log.size == 0 {
		a.beginLocked(off)
	}
	if off != a.mu.pos {
		return fmt.Errorf("%w: they belong at %d, it ends at %d", ErrDiscontinuous, off, a.mu.pos)
	}
	a.ahead.written.Store(true)
	for len(b) > 0 {
		w, err := a.rawRoomLocked(int64(len(b)))
		if err != nil {
			return a.failDisk(err)
		}
		n := min(int64(len(b)), w.base+w.size-a.mu.pos)
		if err := a.ahead.write(chunk{seg: w, at: a.mu.pos - w.base, data: b[:n]}); err != nil {
			return a.fail(err)
		}
		// Records do not cross segments, so that each part ends with a record or blank.
		a.mu.time = max(a.mu.time, newest)
		a.movedLocked(n)
		b = b[n:]
	}
	if a.o.Mode == layout.Flushed {
		raise(&a.sync.written, a.mu.pos)
	}
	return nil
}

// beginLocked makes a log without segments one that begins at a physical offset.
func (a *Appender) beginLocked(off int64) {
	a.mu.pos = off
	a.pos.Store(off)
	a.sync.durable.Store(off)
	a.sync.written.Store(off)
}

// rawRoomLocked returns the segment of pos with room for n bytes, or for those that it still
// takes.
func (a *Appender) rawRoomLocked(n int64) (*writing, error) {
	if w := a.mu.cur; w != nil && a.mu.pos < w.base+w.size {
		return w, w.reserve(a.mu.pos - w.base + n)
	}
	next := a.mu.next
	if next == nil {
		var err error
		if next, err = a.nextSegment(a.mu.pos, min(n, a.log.size)); err != nil {
			return nil, err
		}
	}
	a.enterLocked(next)
	return next, next.reserve(n)
}

// WholeRaw returns how many bytes of a part of a log with segments of a size are whole records
// and blanks, by their heads alone: the rest is to be completed before [CheckRaw] takes it. A
// head that no record has counts, as one byte: CheckRaw says what is wrong.
func WholeRaw(off int64, b []byte, size int64) int {
	whole := int64(0)
	for int64(len(b))-whole >= message.BlankSize {
		n, _, err := extent(b[whole:], size-(off+whole)%size)
		if err != nil {
			return int(whole) + 1
		}
		if n > int64(len(b))-whole {
			break
		}
		whole += n
	}
	return int(whole)
}

// CheckRaw checks a part of a log with segments of a size: whole records, each sound and at
// its place, with room for a blank behind it, and whole blanks up to the end of their
// segments. It returns the highest store time. The error is a damage that names the physical
// offset.
func CheckRaw(off int64, b []byte, size int64) (newest int64, err error) {
	if off < 0 || off+int64(len(b)) < off {
		return 0, fmt.Errorf("%w: physical offset %d", ErrDiscontinuous, off)
	}
	for pos := off; len(b) > 0; {
		n, stored, err := checkOne(pos, b, size-pos%size)
		if err != nil {
			return 0, fmt.Errorf("log bytes at physical offset %d: %w", pos, err)
		}
		newest = max(newest, stored)
		pos, b = pos+n, b[n:]
	}
	return newest, nil
}

// checkOne checks one record or blank in a segment that has so many bytes left.
func checkOne(pos int64, b []byte, left int64) (n, stored int64, err error) {
	if len(b) < message.BlankSize {
		return 0, 0, message.ErrTruncated
	}
	n, blank, err := extent(b, left)
	switch {
	case err != nil:
		return 0, 0, err
	case n > int64(len(b)):
		return 0, 0, message.ErrTruncated
	case blank:
		return n, 0, nil
	}
	v, err := message.Decode(b)
	if err == nil {
		err = v.CheckAt(pos)
	}
	if err != nil {
		return 0, 0, err
	}
	return n, v.StoreTimestamp(), nil
}
