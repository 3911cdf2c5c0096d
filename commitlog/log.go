package commitlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/message"
)

// ErrGone says that a physical offset lies below what the log still has, in a hole, or in a
// segment that was deleted.
var ErrGone = errors.New("no longer in the commit log")

// ErrBeyond says that a physical offset or record reaches past the end of the log.
var ErrBeyond = errors.New("beyond the end of the commit log")

// Options are what a log is opened with.
type Options struct {
	// SegmentSize in bytes; 0: found from the files. Another size than the files' is refused.
	SegmentSize int64
	// RefuseHoles makes a missing middle segment an error. Else the log begins above it.
	RefuseHoles bool
	// Cache bounds the segments that are open at once; nil: no bound.
	Cache *mapfile.Cache
}

// Log is a commit log that is read.
type Log struct {
	dir string
	// size of a segment in bytes. It may be read by who has seen a segment in the list:
	// it is set before the first one is published.
	size    int64
	options Options

	// segments is an immutable list, contiguous and by offset. Replaced under mu.
	segments atomic.Pointer[[]*Segment]
	// min is the first segment's beginning, 0 in a log without any. Stored under mu.
	min atomic.Int64
	// max is the visible end: nobody is given bytes from there on.
	max atomic.Int64

	fresh fresh
	pins  pins

	mu    sync.Mutex
	notes []string // guarded by mu
	// unlinked are files of deleted segments that somebody may still hold. Guarded by mu.
	unlinked []*mapfile.File
}

// Segment is one file of the log.
type Segment struct {
	Base int64 // physical offset of its first byte
	Size int64 // bytes of the file: the segment size, less for a last segment that was cut

	// lastTime is the store time of the last record, ms since 1970; 0 where not known.
	lastTime atomic.Int64

	slot  *mapfile.Slot
	fault atomic.Pointer[message.DamageError] // why it is out of service
}

// LastTime returns the store time of the last record of a segment that this process filled,
// ms since 1970; 0 of another.
func (s *Segment) LastTime() int64 { return s.lastTime.Load() }

// Path returns the file's name.
func (s *Segment) Path() string { return s.slot.Path() }

// End returns the physical offset behind the segment's last byte.
func (s *Segment) End() int64 { return s.Base + s.Size }

func (s *Segment) acquire() (*mapfile.File, error) {
	if err := s.fault.Load(); err != nil {
		return nil, err
	}
	return s.slot.Acquire()
}

// OpenReadOnly opens the log in a directory. It lists and checks the files, opens none of
// them, and ends the log at its beginning: see [Log.SetMax]. Files that are no segments are
// noted and ignored.
func OpenReadOnly(dir string, o Options) (*Log, error) {
	if _, err := os.Stat(dir); os.IsNotExist(err) && strings.Contains(dir, ",") {
		return nil, fmt.Errorf("%s: a log over several paths: %w", dir, layout.ErrUnsupported)
	}
	if o.Cache == nil {
		o.Cache = mapfile.NewCache(0)
	}
	files, notes, err := list(dir)
	if err != nil {
		return nil, err
	}
	size, err := segmentSize(files, o.SegmentSize)
	if err != nil {
		return nil, err
	}
	run, more, err := arrange(files, size, o.RefuseHoles)
	if err != nil {
		return nil, err
	}
	l := &Log{dir: dir, size: size, options: o, notes: append(notes, more...)}
	segments := make([]*Segment, 0, len(run))
	for _, f := range run {
		segments = append(segments, l.newSegment(f))
	}
	l.publish(segments)
	l.max.Store(l.Min())
	l.fresh.from.Store(noneFresh)
	return l, nil
}

// publish makes a list of segments the log's.
func (l *Log) publish(segments []*Segment) {
	// First: who does not find a segment in the list asks whether the log begins above it.
	if len(segments) > 0 {
		l.min.Store(segments[0].Base)
	}
	l.segments.Store(&segments)
}

func (l *Log) newSegment(f found) *Segment {
	return &Segment{Base: f.base, Size: f.size, slot: l.options.Cache.Slot(f.path, f.size, mapfile.ReadOnly)}
}

// Close gives the segments up. Mapped bytes that somebody holds stay valid until released.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.Segments() {
		s.slot.Close()
	}
}

// Notes returns what was noticed about the directory's files: one line each.
func (l *Log) Notes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.notes...)
}

// SegmentSize returns the bytes of a segment, 0 in a log without any.
func (l *Log) SegmentSize() int64 {
	if len(l.Segments()) == 0 {
		return l.options.SegmentSize
	}
	return l.size
}

// Segments returns the segments by offset. The list is immutable.
func (l *Log) Segments() []*Segment { return *l.segments.Load() }

// Min returns the physical offset of the oldest byte.
func (l *Log) Min() int64 { return l.min.Load() }

// Bounds returns Min and Max.
func (l *Log) Bounds() (min, max int64) { return l.Min(), l.Max() }

// Max returns the physical offset behind the newest visible byte.
func (l *Log) Max() int64 { return l.max.Load() }

// SetMax moves the visible end. Everything below is whole records and blanks.
func (l *Log) SetMax(max int64) { l.max.Store(max) }

// Limit returns the physical offset behind the last segment: records may lie up to there.
func (l *Log) Limit() int64 {
	if s := l.Segments(); len(s) > 0 {
		return s[len(s)-1].End()
	}
	return 0
}

// Segment returns the segment that holds a physical offset, nil if there is none.
func (l *Log) Segment(off int64) *Segment {
	s := l.Segments()
	if len(s) == 0 || off < s[0].Base {
		return nil
	}
	// Off minus base cannot overflow: both are at least 0 here.
	i := (off - s[0].Base) / l.size
	if i >= int64(len(s)) || off >= s[i].End() {
		return nil
	}
	return s[i]
}

// open returns the segment of a physical offset and its file, with a reference. A segment
// that was deleted since the directory was listed is [ErrGone], with all below it.
func (l *Log) open(off int64) (*Segment, *mapfile.File, error) {
	for listed := false; ; {
		s := l.Segment(off)
		if s == nil {
			return nil, nil, ErrGone
		}
		file, err := s.acquire()
		switch {
		case err == nil:
			return s, file, nil
		case errors.Is(err, mapfile.ErrClosed) && l.Segment(off) != s:
			continue // it left the list, or was replaced in it
		case errors.Is(err, fs.ErrNotExist) && !listed:
			listed = true
			if err := l.Refresh(); err != nil {
				return nil, nil, err
			}
			continue
		}
		return nil, nil, err
	}
}

// Map returns the mapped visible bytes of the segment that holds a physical offset, the
// offset of the first of them, and what keeps them valid until it is released. The error is
// [ErrGone], [ErrBeyond], or what made the segment unusable.
func (l *Log) Map(off int64) (base int64, data []byte, held mapfile.Memory, err error) {
	max := l.Max()
	if off >= max {
		return 0, nil, nil, ErrBeyond
	}
	s, file, err := l.open(off)
	if err != nil {
		return 0, nil, nil, err
	}
	// The end is looked at again: a log that was cut has another file now, with nothing behind it.
	if max = min(max, l.Max()); off >= max {
		file.Release()
		return 0, nil, nil, ErrBeyond
	}
	n := min(s.Size, max-s.Base)
	return s.Base, file.Bytes()[:n:n], file, nil
}

// Reaches reports whether the file of the bytes before a physical offset still has them.
func (l *Log) Reaches(off int64) bool {
	s, file, err := l.open(off - 1)
	if err != nil {
		return false
	}
	defer file.Release()
	st, err := file.File().Stat()
	return err == nil && st.Size() >= off-s.Base
}

// Quarantine puts the segment that a fault happened in out of service: from now on it is
// read as that error. It reports whether the file is one of the log's.
func (l *Log) Quarantine(damage *message.DamageError) bool {
	for _, s := range l.Segments() {
		if s.Path() == damage.File {
			s.fault.CompareAndSwap(nil, damage)
			return true
		}
	}
	return false
}

// Damage makes the error of bytes at a physical offset that are not what they should be.
func (l *Log) Damage(off int64, err error) *message.DamageError {
	if s := l.Segment(off); s != nil {
		return &message.DamageError{File: s.Path(), Offset: off - s.Base, Err: err}
	}
	base := off
	if l.size > 0 && off >= 0 {
		base -= off % l.size
	}
	return &message.DamageError{File: filepath.Join(l.dir, layout.FileName(base)), Offset: off - base, Err: err}
}

// ReadRecord reads the record of a queue entry by system call into buf or a larger buffer,
// which it returns for the next call. It checks the structure and that the record lies
// where it says; size 0 means that the size is not known. The view is of the buffer.
//
// The error is [ErrGone], [ErrBeyond], a damage, or what the system said.
func (l *Log) ReadRecord(off int64, size int32, buf []byte) (message.View, []byte, error) {
	const guess = 4096 // most records are smaller; else there is a second read
	known := size > 0
	if !known {
		size = guess
	}
	b, err := l.read(off, int64(size), buf)
	if err != nil {
		return message.View{}, buf, err
	}
	if !known && len(b) >= message.BlankSize {
		if n, _ := message.Size(b); n > guess {
			// A damaged size must not cost memory: see what the head says first.
			if len(b) < message.HeaderSize || !message.PlausibleHead(b, off) {
				return message.View{}, b, l.Damage(off, message.ErrLengths)
			}
			if b, err = l.read(off, int64(n), b); err != nil {
				return message.View{}, buf, err
			}
		}
	}
	v, err := message.Decode(b)
	switch {
	case err != nil:
	case known && v.Size() != size:
		err = message.ErrOtherEntry
	default:
		err = v.At(off)
	}
	if err != nil {
		return message.View{}, b, l.Damage(off, err)
	}
	return v, b, nil
}

// read reads up to n visible bytes of one segment.
func (l *Log) read(off, n int64, buf []byte) ([]byte, error) {
	return l.readWith((*mapfile.File).ReadAt, off, n, buf)
}

func (l *Log) readWith(readAt func(f *mapfile.File, p []byte, off int64) (int, error), off, n int64, buf []byte) ([]byte, error) {
	max := l.Max()
	if off < l.Min() {
		return nil, ErrGone
	}
	if off >= max || n > math.MaxInt32 {
		return nil, ErrBeyond
	}
	s, file, err := l.open(off)
	if err != nil {
		return nil, err
	}
	defer file.Release()
	if max = min(max, l.Max()); off >= max { // see Map
		return nil, ErrBeyond
	}
	n = min(n, s.End()-off, max-off)
	if int64(cap(buf)) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if read, err := readAt(file, buf, off-s.Base); err != nil {
		if errors.Is(err, io.EOF) { // the file was shortened
			return nil, l.Damage(off+int64(read), message.ErrTruncated)
		}
		return nil, err
	}
	return buf, nil
}
