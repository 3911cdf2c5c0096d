package keyindex

import (
	"fmt"
	"os"
	"slices"
	"sort"
)

// Truncate removes what names records at or above end, from the files and from what is
// buffered, after the log was cut there. It syncs. Files that begin at or above end are
// removed, from the newest on. The one that crosses it loses its last entries: first the
// header tells so, then the slots, then they become zero, with a sync after each, so that a
// reader, or OpenWriter after a kill, finds one file or the other. Damaged files stay.
//
// After a loss of power it does the same for what may be damaged without a trace, with end
// as the offset up to which everything was synced.
//
// The header's end timestamp is then the last millisecond that the last entry's seconds
// allow, until the next key: the entry does not say it more exactly.
//
// After an error the writer refuses everything but Close; a new one may be opened, and do
// it again.
func (w *Writer) Truncate(end int64) error {
	if w.err != nil {
		return w.err
	}
	if end < 0 {
		return fmt.Errorf("keyindex: a log that ends at %d", end)
	}
	if w.err = w.truncate(end); w.err != nil {
		return w.err
	}
	return nil
}

func (w *Writer) truncate(end int64) error {
	w.buf = w.buf[:sort.Search(len(w.buf), func(i int) bool { return w.buf[i].offset >= end })]
	if err := w.syncFiles(); err != nil {
		return err
	}
	w.closeFiles()
	files, err := w.files()
	if err != nil {
		return err
	}
	for _, f := range slices.Backward(files) {
		if f.Err != nil || f.Layout.Slots == 0 {
			continue
		}
		if err := w.truncateFile(&f, end); err != nil {
			return err
		}
	}
	if err := w.syncFiles(); err != nil {
		return err
	}
	done, last, given := w.end.Load(), min(w.last, end-1), w.given
	if err := w.load(end); err != nil {
		return err
	}
	// What this writer was given below end stays given, and a part of it may be buffered.
	w.last = max(w.last, last)
	if given >= end {
		given = -1
	}
	if n := len(w.buf); n > 0 {
		given = max(given, w.buf[n-1].offset)
	}
	w.given = given
	if done >= end || len(w.buf) > 0 && done >= w.buf[0].offset {
		done = -1
	}
	if found := w.end.Load(); len(w.buf) == 0 || found < w.buf[0].offset {
		done = max(done, found)
	}
	w.end.Store(done)
	return nil
}

// truncateFile removes a file or the end of one, or does nothing.
func (w *Writer) truncateFile(f *File, end int64) error {
	h := f.Header
	if h.Keys() == 0 {
		if h.EndOffset >= end && h.EndOffset > 0 { // it was to follow one that goes now
			return w.remove(f.Path)
		}
		return nil
	}
	if h.BeginOffset >= end {
		return w.remove(f.Path)
	}
	fd, err := os.OpenFile(f.Path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("keyindex: %w", err)
	}
	defer fd.Close()
	open := &file{path: f.Path, at: fd, layout: f.Layout}
	keep := sort.Search(int(h.Keys()), func(i int) bool {
		e, bad := open.entry(int32(i) + 1)
		if bad != nil {
			err = bad
		}
		return bad != nil || e.Offset >= end
	})
	if err != nil || keep == int(h.Keys()) {
		return err
	}
	e, err := open.entry(int32(keep))
	if err != nil {
		return err
	}
	if keep == 0 || e.Offset < h.BeginOffset {
		return open.damage(f.Layout.EntryAt(int32(keep))+4, ErrPlace, "entry %d names %d", keep, e.Offset)
	}
	h.Count = int32(keep) + 1
	h.EndOffset, h.EndTimestamp = e.Offset, cutTime(h.BeginTimestamp, int32(keep), e)
	return w.cut(f, fd, h)
}

// cut makes a smaller header valid.
func (w *Writer) cut(f *File, fd *os.File, h Header) error {
	own := w.layout
	defer func() { w.cur, w.layout, w.dirty = nil, own, false }()
	w.cur, w.path, w.layout = fd, f.Path, f.Layout
	if err := w.settle(h); err != nil {
		return err
	}
	return w.fsync(w.cur)
}

// cutTime returns the end timestamp that a file gets whose last entry becomes entry n: not
// below the store time of its record. That of entry 1 is the begin timestamp.
func cutTime(begin int64, n int32, e Entry) int64 {
	if n == 1 {
		return begin
	}
	return begin + 1000*int64(e.Seconds) + 999
}

// DeleteBelow removes the oldest files, as far as all their records lie below min, and
// returns how many and their sizes (they are sparse, and may have taken less). The last one
// always stays, and so does what was not removed when an error came. A damaged file goes
// when a later one goes.
func (w *Writer) DeleteBelow(min int64) (files int, bytes int64, err error) {
	if w.err != nil {
		return 0, 0, w.err
	}
	all, err := w.files()
	if err != nil || len(all) == 0 {
		return 0, 0, err
	}
	n := 0
	for i, f := range all[:len(all)-1] {
		if !f.usable() {
			continue
		}
		if f.Header.EndOffset >= min || f.Path == w.path && w.cur != nil {
			break
		}
		n = i + 1
	}
	for _, f := range all[:n] {
		if err := w.remove(f.Path); err != nil {
			return files, bytes, err
		}
		files, bytes = files+1, bytes+f.Size
	}
	return files, bytes, nil
}
