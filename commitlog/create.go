package commitlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/message"
)

// ErrNoSpace says that the disk has no room for a record. Nothing was written; a later
// append may succeed.
var ErrNoSpace = errors.New("no space for the record")

// reserveStep is how much of a segment is reserved on disk at once: a store into a mapping
// without space behind it would kill the process.
const reserveStep = 32 << 20

// keptShare is the part of a segment's size that a new segment leaves on the disk, for what is
// written about the records: no checkpoint without it, and nothing expires without a checkpoint.
const keptShare = 16

// writing is a segment that is being written.
type writing struct {
	base int64
	size int64
	seg  *Segment
	file *os.File // for pwrite, fallocate and sync
	// zeros is the same file, opened once more in Flushed mode for the zeros that are written
	// ahead: the kernel tells a failed sync once to each who has the file open, and what is
	// told there must not be missing here.
	zeros *os.File
	// mapped is writable in Written mode, nil in Flushed mode.
	mapped *mapfile.File
	// reserved is the byte of the segment up to which the disk has space for it. Stored
	// under reserveMu.
	reserved  atomic.Int64
	reserveMu sync.Mutex
	// laid is the physical offset up to which bytes were written, zeros or records. Stored under
	// ahead.writeMu.
	laid  atomic.Int64
	named bool   // its name is durable; for the leader of a round
	temp  string // its name as long as it has no other
}

// nextSegment returns the segment that begins at base, under its name, with room for n bytes:
// the one that was made in advance, or a new one.
func (a *Appender) nextSegment(base, n int64) (*writing, error) {
	w := a.ahead.take(base)
	if w == nil {
		var err error
		if w, err = a.createSegment(base); err != nil {
			return nil, err
		}
	}
	if err := w.reserve(n); err != nil {
		w.discard()
		return nil, err
	}
	path := filepath.Join(a.log.dir, layout.FileName(base))
	if err := os.Rename(w.temp, path); err != nil {
		w.discard()
		return nil, fmt.Errorf("next segment: %w", err)
	}
	w.temp = ""
	w.seg = a.log.newSegment(found{base, a.log.size, path})
	return w, nil
}

// createSegment makes a segment under a temporary name, with space for a step, or all of it:
// nobody sees one that is not whole. Where there is no descriptor or mapping left, files that
// are only read give theirs.
func (a *Appender) createSegment(base int64) (*writing, error) {
	w, err := a.tryCreate(base)
	if mapfile.AtLimit(err) && a.log.options.Cache.Shrink() {
		w, err = a.tryCreate(base)
	}
	return w, err
}

func (a *Appender) tryCreate(base int64) (*writing, error) {
	f, err := os.CreateTemp(a.o.Temp, layout.FileName(base)+"-*")
	if err != nil {
		return nil, fmt.Errorf("make segment: %w", err)
	}
	w := &writing{base: base, size: a.log.size, file: f, temp: f.Name()}
	w.laid.Store(base)
	err = f.Chmod(0o644)
	if err == nil {
		err = f.Truncate(a.log.size)
	}
	if err == nil {
		err = w.reserve(reserveStep)
	}
	if left, known := free(f); err == nil && known && left < a.log.size/keptShare {
		err = fmt.Errorf("%w: beside %s %d bytes would be left: %w", ErrNoSpace, w.name(), left, syscall.ENOSPC)
	}
	if err == nil {
		err = a.openFor(w, w.temp)
	}
	if err != nil {
		w.discard()
		return nil, fmt.Errorf("make segment: %w", err)
	}
	return w, nil
}

// continueSegment opens the last segment of the log for writing, from a physical offset on.
func (a *Appender) continueSegment(s *Segment, from int64) (*writing, error) {
	if s.Size != a.log.size {
		return nil, &message.DamageError{File: s.Path(), Offset: s.Size, Err: layout.ErrFileSize}
	}
	f, err := os.OpenFile(s.Path(), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	w := &writing{base: s.Base, size: s.Size, seg: s, file: f, named: true}
	w.laid.Store(from)
	if err := a.openFor(w, s.Path()); err != nil {
		f.Close()
		return nil, err
	}
	return w, nil
}

// openFor opens a segment once more, as its mode needs it.
func (a *Appender) openFor(w *writing, path string) (err error) {
	if a.o.Mode == layout.Written {
		w.mapped, err = mapfile.Open(path, w.size, mapfile.ReadWrite)
	} else {
		w.zeros, err = os.OpenFile(path, os.O_WRONLY, 0)
	}
	return err
}

// reserve makes sure that the disk has space for the first n bytes of the segment: for whole
// pages, of which a store into any byte takes all blocks (ext4 has some of 1 KiB).
func (w *writing) reserve(n int64) error {
	page := int64(os.Getpagesize())
	n = min((n+page-1)/page*page, w.size) // allocating more would make the file longer
	if n <= w.reserved.Load() {
		return nil
	}
	w.reserveMu.Lock()
	defer w.reserveMu.Unlock()
	from := w.reserved.Load()
	if n <= from {
		return nil
	}
	to := min(w.size, max(n, from+reserveStep))
	if err := allocate(w.file, from, to-from); err != nil {
		if !layout.NoRoom(err) {
			return fmt.Errorf("reserve %s to byte %d: %w", w.name(), to, err)
		}
		// Less than a step may still be there.
		if to = n; allocate(w.file, from, to-from) != nil {
			return fmt.Errorf("%w: reserve %s to byte %d: %w", ErrNoSpace, w.name(), to, err)
		}
	}
	w.reserved.Store(to)
	return nil
}

// Room makes room on the disk for a record of n bytes, as [Appender.Append] does before it, and
// says why there is none.
func (a *Appender) Room(n int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.Failed(); err != nil {
		return err
	}
	return a.planLocked([]Placed{{Record: make([]byte, n)}}, false)
}

// name returns the segment's file: it is opened under another name than it gets.
func (w *writing) name() string {
	if w.temp == "" && w.seg != nil {
		return w.seg.Path()
	}
	return w.file.Name()
}

// discard removes a segment that got no name.
func (w *writing) discard() {
	_ = w.close()
	if w.temp != "" {
		_ = os.Remove(w.temp)
	}
}

func (w *writing) close() error {
	if w.mapped != nil {
		w.mapped.Close()
		w.mapped = nil
	}
	if w.zeros != nil {
		_ = w.zeros.Close()
	}
	return w.file.Close()
}

// add appends a segment to the log's list.
func (l *Log) add(s *Segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.Segments()
	if last := len(known) - 1; last >= 0 && known[last].Base == s.Base {
		// Its file has its name since before, and somebody has listed the directory meanwhile.
		next := slices.Clone(known)
		next[last] = s
		l.publish(next)
		known[last].slot.Close()
		return
	}
	// Who has the list of before does not see what lies behind its end: nothing is copied for
	// each segment. Nobody else appends to this array: other lists are made anew, or end with it.
	l.publish(append(known, s))
}
