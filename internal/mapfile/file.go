package mapfile

import (
	"fmt"
	"os"
	"sync/atomic"

	mmap "github.com/edsrzf/mmap-go"
	_ "github.com/warmlog/warmlog/internal/only64" // a mapping's length is an int
	"github.com/warmlog/warmlog/message"
)

// ErrClosed says that a file was closed by its owner.
var ErrClosed = os.ErrClosed

// ErrNotFile is the damage of something else in a file's place.
var ErrNotFile = message.NewKind("not-a-file", "there is something else in the file's place")

// Mode says what the mapping may be used for.
type Mode int

const (
	ReadOnly  Mode = mmap.RDONLY
	ReadWrite Mode = mmap.RDWR
)

// File is a mapped file. All methods may be called concurrently.
type File struct {
	file *os.File
	data mmap.MMap // the whole mapping; fixed until the last reference goes
	size int64     // its bytes
	refs atomic.Int64
	// closed makes Close give back the owner's reference once.
	closed atomic.Bool
	warmth warmth
}

// Open maps the first size bytes of a file. A file that is shorter is refused, with a
// *message.DamageError: mapping more than there is succeeds and faults later.
func Open(path string, size int64, mode Mode) (*File, error) {
	flag := os.O_RDONLY
	if mode == ReadWrite {
		flag = os.O_RDWR
	}
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, err
	}
	mapped, err := mapFile(f, size, mode)
	if err != nil {
		f.Close()
		return nil, err
	}
	return mapped, nil
}

func mapFile(f *os.File, size int64, mode Mode) (*File, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &message.DamageError{File: f.Name(), Err: ErrNotFile}
	}
	if size <= 0 {
		return nil, fmt.Errorf("map %s: %d bytes", f.Name(), size)
	}
	if st.Size() < size {
		return nil, &message.DamageError{File: f.Name(), Offset: st.Size(), Err: message.ErrTruncated}
	}
	data, err := mmap.MapRegion(f, int(size), int(mode), 0, 0)
	if err != nil {
		return nil, fmt.Errorf("%w %s, %d bytes: %w", errMapping, f.Name(), size, err)
	}
	adviseRandom(data)
	m := &File{file: f, data: data, size: size}
	m.refs.Store(1)
	register(m)
	return m, nil
}

// Path returns the name under which the file was opened.
func (m *File) Path() string { return m.file.Name() }

// Bytes returns the mapping. It is valid while the caller holds a reference; its pages may
// not be in memory, and touching them may fault (see [Guard]).
func (m *File) Bytes() []byte { return m.data }

// Size returns the bytes that are mapped, or were.
func (m *File) Size() int64 { return m.size }

// ReadAt reads by system call, which needs no page of the mapping.
func (m *File) ReadAt(p []byte, off int64) (int, error) { return m.file.ReadAt(p, off) }

// DataFrom is [DataFrom] of the file.
func (m *File) DataFrom(off int64) int64 { return DataFrom(m.file, off) }

// File returns the open file, for system calls on its descriptor. It is valid while the
// caller holds a reference.
func (m *File) File() *os.File { return m.file }

// Acquire takes a reference. It reports false when the last one is gone: look the file up
// again.
func (m *File) Acquire() bool {
	for {
		n := m.refs.Load()
		if n == 0 {
			return false
		}
		if m.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Held reports whether somebody has a reference: the bytes are still mapped.
func (m *File) Held() bool { return m.refs.Load() > 0 }

// Release gives a reference back. The last one unmaps the file.
func (m *File) Release() {
	switch n := m.refs.Add(-1); {
	case n == 0:
		m.unmap()
	case n < 0:
		panic("mapfile: released more often than acquired")
	}
}

// Close gives back the owner's reference; more calls do nothing. Readers keep theirs.
func (m *File) Close() {
	if m.closed.CompareAndSwap(false, true) {
		m.Release()
	}
}

func (m *File) unmap() {
	unregister(m) // before the addresses can be given to another mapping
	// Neither can fail in a way that somebody could act on: the mapping and the
	// descriptor are ours, and nothing was written through the descriptor's buffer.
	_ = m.data.Unmap()
	_ = m.file.Close()
}
