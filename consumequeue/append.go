package consumequeue

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/warmlog/warmlog/internal/mapfile"
)

// next is the offset of the queue's next message, for the one who assigns offsets: guarded by
// the appender's lock.
type next struct {
	off   int64
	known atomic.Bool // stays
}

// StartNext sets the offset of the next message, once. The appender's lock is held.
func (q *Queue) StartNext(off int64) {
	if !q.next.known.Load() {
		q.next.off = off
		q.next.known.Store(true)
	}
}

// Numbered reports whether StartNext was called.
func (q *Queue) Numbered() bool { return q.next.known.Load() }

// Next returns where the offset of the next message is kept, once [Queue.Numbered]. The
// appender's lock is held by who uses it.
func (q *Queue) Next() *int64 { return &q.next.off }

// Add takes encoded entries of messages that came into the log: they continue the queue
// from off on. They are kept in memory, where readers see them when Add has returned, until
// [Queue.Flush]. It reports whether the queue had nothing to flush before. Where nobody has
// looked at the queue's files yet, it does so, and the error is from there.
func (q *Queue) Add(ctx context.Context, off int64, entries []byte) (first bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.minMax.Load()
	if b == nil {
		if b, err = q.boundsLocked(ctx); err != nil {
			return false, err
		}
	}
	q.SetExists()
	end := off + int64(len(entries)/EntrySize)
	if q.checked.Load() == math.MaxInt64 || off != q.seenTo {
		q.checked.Store(off)
	}
	q.seenTo = end
	if q.seenFrom < 0 {
		q.seenFrom = off
	}
	q.layLocked(off, entries)
	next := bounds{b.min, end, b.logMin}
	if b.min == b.max {
		next.min = off
	}
	q.minMax.Store(&next)
	first = !q.unflushed
	q.unflushed = true
	return first, nil
}

// Unflushed reports whether there are entries that are only in memory.
func (q *Queue) Unflushed() bool {
	st := q.state.Load()
	return st != nil && len(st.runs) > 0
}

// Flush writes the entries that are only in memory to the queue's files, by pwrite; nothing
// is synced. The files that were written, and the directories that may be new, are appended to
// dirty. After an error the entries are still in memory.
func (q *Queue) Flush(dirty []string) ([]string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unflushed = false
	st, err := q.stateLocked()
	if err != nil || len(st.runs) == 0 {
		return dirty, err
	}
	f, before := st.files, len(dirty)
	var kept []run
	for _, r := range st.runs {
		entries, lost := r.entries, false
		for off := r.first; off < r.end(); {
			n := min(realPrefix(entries), f.per-off%f.per)
			if n == 0 { // its record was lost: only this process knows
				off, entries, lost = off+1, entries[EntrySize:], true
				continue
			}
			if f, err = q.write(f, off, entries[:n*EntrySize]); err != nil {
				q.unflushed = true
				return dirty, err
			}
			path, _ := f.where(off)
			dirty = append(dirty, path)
			off, entries = off+n, entries[n*EntrySize:]
		}
		if lost {
			kept = append(kept, r)
		}
	}
	q.state.Store(&state{f, kept})
	if len(dirty) > before {
		topic := filepath.Dir(q.dir)
		dirty = append(dirty, q.dir, topic, filepath.Dir(topic))
	}
	return dirty, nil
}

// realPrefix returns how many entries at the head are real.
func realPrefix(entries []byte) (n int64) {
	for ; len(entries) >= EntrySize && Decode(entries).Real(); entries = entries[EntrySize:] {
		n++
	}
	return n
}

// write writes entries that lie in one file, which is made if it does not exist. It returns
// the files with it.
func (q *Queue) write(f *files, off int64, entries []byte) (*files, error) {
	path, at := f.where(off)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if os.IsNotExist(err) {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		}
	}
	if err != nil {
		return f, err
	}
	defer file.Close()
	size := f.per * EntrySize
	st, err := file.Stat()
	if err == nil && st.Size() != size {
		if err = file.Truncate(size); err != nil && st.Size() == 0 {
			_ = os.Remove(path) // a file of no size would be named as damage
		}
	}
	if err != nil {
		return f, err
	}
	// A queue whose first message has an offset within a file: RocketMQ fills the head.
	if len(f.slots) == 0 && at > 0 {
		head := bytes.Repeat(Filler.AppendTo(nil), int(at/EntrySize))
		if _, err := file.WriteAt(head, 0); err != nil {
			return f, fmt.Errorf("%s at byte 0: %w", path, err)
		}
	}
	if _, err := file.WriteAt(entries, at); err != nil {
		return f, fmt.Errorf("%s at byte %d: %w", path, at, err)
	}
	return f.with(off-off%f.per, q.cache), nil
}

// with returns the files with the one that begins with an offset.
func (f *files) with(off int64, cache *mapfile.Cache) *files {
	if slot, _ := f.slot(off); slot != nil {
		return f
	}
	next := *f
	if len(f.slots) == 0 {
		next.first = off
	}
	next.slots = slices.Clone(f.slots)
	for ; next.first > off; next.first -= next.per {
		next.slots = slices.Insert(next.slots, 0, (*mapfile.Slot)(nil))
	}
	for next.limit() <= off {
		next.slots = append(next.slots, nil)
	}
	path, _ := next.where(off)
	next.slots[(off-next.first)/next.per] = cache.Slot(path, next.per*EntrySize, mapfile.ReadOnly)
	return &next
}

// Trim zeros what the files have behind the queue's end: entries of records that were cut
// off. A real broker would take them for messages. The bounds must be known.
func (q *Queue) Trim(dirty []string) ([]string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.trimLocked(dirty)
}

// Cut takes away the messages whose records lie at or above a physical offset, where the log
// was cut, and returns where the queue ends now. The files that were written are appended to
// dirty.
func (q *Queue) Cut(ctx context.Context, logEnd int64, dirty []string) (int64, []string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.boundsLocked(ctx)
	if err != nil {
		return 0, dirty, err
	}
	st := q.state.Load()
	end := findMin(q.reader(st), b.min, b.max, logEnd)
	if end == b.max {
		return end, dirty, nil
	}
	q.minMax.Store(&bounds{b.min, end, b.logMin}) // first: a reader that sees it asks for nothing above
	var runs []run
	for _, r := range st.runs {
		if r.end() > end {
			r.entries = r.entries[: max(0, end-r.first)*EntrySize : max(0, end-r.first)*EntrySize]
		}
		if len(r.entries) > 0 {
			runs = append(runs, r)
		}
	}
	q.state.Store(&state{st.files, runs})
	q.seenFrom, q.seenTo, q.expected = min(q.seenFrom, end), min(q.seenTo, end), min(q.expected, end)
	q.checked.Store(min(q.checked.Load(), end))
	dirty, err = q.trimLocked(dirty)
	return end, dirty, err
}

func (q *Queue) trimLocked(dirty []string) ([]string, error) {
	b, st := q.minMax.Load(), q.state.Load()
	f := st.files
	buf := make([]byte, readerBlock*EntrySize)
	for off := max(b.max, f.first); off < f.limit(); {
		first := off - (off-f.first)%f.per
		if at := f.dataFrom(first, off-first); at >= f.per {
			off = first + f.per // never written
			continue
		} else {
			off = max(off, first+at)
		}
		have, err := f.read(off, int64(len(buf)/EntrySize), buf)
		if err != nil {
			return dirty, err
		}
		if len(have) == 0 {
			off = first + f.per // missing
			continue
		}
		if !allZero(have) {
			clear(have)
			path, at := f.where(off)
			if err := writeAt(path, have, at); err != nil {
				return dirty, err
			}
			dirty = append(dirty, path)
		}
		off += int64(len(have) / EntrySize)
		if len(buf) < 4096*EntrySize { // most files have nothing there
			buf = make([]byte, 8*len(buf))
		}
	}
	return dirty, nil
}

func allZero(b []byte) bool {
	return len(bytes.TrimLeft(b, "\x00")) == 0
}

func writeAt(path string, b []byte, at int64) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteAt(b, at)
	return err
}
