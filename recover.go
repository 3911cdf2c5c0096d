package warmlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/warmlog/warmlog/commitlog"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/internal/planted"
)

// recoverEnd makes the log end where its last record does: what lies behind is set aside,
// and its place is zero.
func (s *Store) recoverEnd(ctx context.Context) error {
	end, changed := s.log.Max(), s.abort.Exists
	// The highest first: whoever comes after a kill in between must not find records behind
	// a place that is zero.
	for _, seg := range slices.Backward(s.log.Segments()) {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch {
		case seg.End() <= end:
			continue
		case seg.Base >= end && seg.Base > s.log.Min():
			if err := s.removeSegment(seg, end); err != nil {
				return err
			}
			changed = true
		default:
			if err := s.cutSegment(seg, end); err != nil {
				return err
			}
		}
	}
	s.log.DropAbove(end)
	if err := s.log.Refresh(); err != nil { // a short last segment has its full size now
		return err
	}
	s.w.left = s.abort.Exists
	switch last := s.w.state.Last(); {
	case !s.abort.Exists:
	case s.w.known && last.Mode == layout.Flushed:
		return s.rewriteTail(ctx, last.Durable, end)
	case s.w.stateLost: // nobody knows which mode it was, and from where on
		return s.rewriteTail(ctx, s.scanned, end)
	}
	if !changed {
		return nil
	}
	return layout.SyncDir(s.paths.CommitLog())
}

// leftPaths returns what the last run may have left in memory only: queue and index files. The
// log's segments are the appender's to sync.
func (s *Store) leftPaths() (paths []string, err error) {
	for _, dir := range []string{s.paths.ConsumeQueue(), s.paths.Index()} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				paths = append(paths, path)
			} else if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// removeSegment removes a segment in which no record begins: one that was made in advance,
// or what was cut off with the end of the one before.
func (s *Store) removeSegment(seg *commitlog.Segment, end int64) error {
	n, err := used(seg.Path(), 0, seg.Size)
	if err != nil {
		return err
	}
	if n == 0 {
		return os.Remove(seg.Path())
	}
	s.w.cut = true
	s.note("%s: %d bytes behind the end of the log, at %d, set aside", seg.Path(), n, end)
	aside, err := s.asideName(seg.Base)
	if err != nil {
		return err
	}
	return os.Rename(seg.Path(), aside)
}

// cutSegment sets the bytes of a segment behind the end of the log aside and zeros them.
func (s *Store) cutSegment(seg *commitlog.Segment, end int64) error {
	at := max(0, end-seg.Base)
	n, err := used(seg.Path(), at, seg.Size)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(seg.Path(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if n > at {
		s.w.cut = true
		s.note("%s: bytes %d to %d, behind the end of the log, set aside", seg.Path(), at, n)
		if err := s.copyAside(f, seg.Base+at, at, n-at); err != nil {
			return err
		}
		if !planted.NoTailCut {
			if err := zero(f, at, n-at); err != nil {
				return err
			}
		}
	}
	if seg.Size < s.log.SegmentSize() {
		if err := f.Truncate(s.log.SegmentSize()); err != nil {
			return err
		}
	} else if n <= at {
		return nil // it is as it was
	}
	return f.Sync()
}

// asideName returns a name for bytes that lay at a physical offset.
func (s *Store) asideName(off int64) (string, error) {
	return freeName(s.paths.Aside(), fmt.Sprintf("%s-%d", layout.FileName(off), s.options.Clock().UnixMilli()))
}

// copyAside keeps bytes of a file that will be overwritten.
func (s *Store) copyAside(f *os.File, off, at, n int64) error {
	name, err := s.asideName(off)
	if err != nil {
		return err
	}
	to, err := os.Create(name)
	if err != nil {
		return err
	}
	defer to.Close()
	if _, err := io.Copy(to, io.NewSectionReader(f, at, n)); err != nil {
		return err
	}
	if err := to.Sync(); err != nil {
		return err
	}
	return layout.SyncDir(s.paths.Aside())
}

const piece = 1 << 20

// zeros is to be compared with, and nobody writes to it.
var zeros [piece]byte

// used returns the byte behind the last one of a file's range that is not 0; at if none is.
func used(path string, at, to int64) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	last := at
	buf := make([]byte, piece)
	for at < to {
		if at = mapfile.DataFrom(f, at); at >= to {
			break
		}
		n, err := f.ReadAt(buf[:min(piece, to-at)], at)
		if !bytes.Equal(buf[:n], zeros[:n]) { // many times as fast as looking for the last byte
			last = at + int64(len(bytes.TrimRight(buf[:n], "\x00")))
		}
		at += int64(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	return last, nil
}

// zero writes zeros.
func zero(f *os.File, at, n int64) error {
	for n > 0 {
		wrote, err := f.WriteAt(zeros[:min(n, piece)], at)
		if err != nil {
			return err
		}
		at, n = at+int64(wrote), n-int64(wrote)
	}
	return nil
}

// rewriteTail writes the log above the durable position again, into new files, and syncs
// them. After a sync that failed the kernel may hold pages for clean that are not on disk, and
// a file system may know extents as never written that were: neither another sync nor writing
// the same place again would prove anything. Each segment that is done raises the durable
// position: the next start does not do it again where a watchdog kills this one.
func (s *Store) rewriteTail(ctx context.Context, from, end int64) error {
	begin := int64(-1)
	for _, seg := range s.log.Segments() {
		if planted.NoTailRewrite || seg.End() <= from || seg.Base >= end {
			continue
		}
		if begin < 0 {
			begin = seg.Base
		}
		n := min(seg.Size, end-seg.Base)
		err := s.rewriteSegment(seg, n, func(done int64) error {
			s.report("writing the end of the log again", seg.Base+done-begin, end-begin)
			return ctx.Err()
		})
		switch {
		case err == nil:
			s.log.Replaced(seg)
		case layout.NoRoom(err) && onDisk(seg.Path(), n):
			s.note("%s: not written again, the disk is full and has all of it", seg.Path())
		default:
			return err
		}
		if err := s.raiseDurable(seg.Base + n); err != nil {
			return err
		}
	}
	return layout.SyncDir(s.paths.CommitLog())
}

// raiseDurable notes that the log is on disk up to a physical offset. What else the state says
// stays as it is, and so does a state that was lost: the next checkpoint makes another.
func (s *Store) raiseDurable(to int64) error {
	st := s.w.state.Last()
	if !s.w.known || to <= st.Durable {
		return nil
	}
	st.Durable = to
	return s.w.state.Write(st)
}

// rewriteSegment replaces a segment by a file with the same first n bytes and zeros behind. It
// tells each piece, and goes on while that is no error.
func (s *Store) rewriteSegment(seg *commitlog.Segment, n int64, told func(done int64) error) error {
	from, err := os.Open(seg.Path())
	if err != nil {
		return err
	}
	defer from.Close()
	return replaceFile(seg.Path(), s.paths.Temp(), func(to *os.File) error {
		for at := int64(0); at < n; {
			more, err := io.Copy(to, io.NewSectionReader(from, at, min(piece, n-at)))
			if at += more; err == nil && more == 0 {
				err = io.ErrUnexpectedEOF
			}
			if err == nil {
				err = told(at)
			}
			if err != nil {
				return err
			}
		}
		return to.Truncate(seg.Size)
	})
}
