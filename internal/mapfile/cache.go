package mapfile

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Cache bounds how many slots have their file open. The zero Cache has no bound.
type Cache struct {
	limit int    // guarded by mu
	watch *watch // nil: nobody knows what is in memory
	kept  [mostKept]atomic.Pointer[kept]

	mu struct {
		sync.Mutex
		open []*Slot // a ring for the second-chance search
		hand int
	}
}

// NewCache makes a cache of at most limit open files, readers of closed ones not counted.
func NewCache(limit int) *Cache { return &Cache{limit: limit} }

// Open returns how many slots are open.
func (c *Cache) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.open)
}

// add accounts for a slot that was just opened and closes one that was not used lately
// when that makes too many.
func (c *Cache) add(s *Slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limit > 0 && len(c.mu.open) >= c.limit {
		c.evictLocked()
	}
	s.ring = len(c.mu.open)
	c.mu.open = append(c.mu.open, s)
}

// SetLimit changes the bound, and closes what is beyond it.
func (c *Cache) SetLimit(limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = limit
	for limit > 0 && len(c.mu.open) > limit {
		c.evictLocked()
	}
}

// Shrink closes a quarter of what is open, at least one file, and reports whether there was one:
// a call that found no descriptor or mapping may then succeed.
func (c *Cache) Shrink() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := (len(c.mu.open) + 3) / 4
	for range n {
		c.evictLocked()
	}
	return n > 0
}

// Sweep closes what was not used since the last sweep.
func (c *Cache) Sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := 0; i < len(c.mu.open); {
		if s := c.mu.open[i]; s.used.Swap(false) {
			i++
		} else {
			c.removeLocked(i)
			s.drop()
		}
	}
}

// evictLocked closes the first slot that was not used since the hand last passed it.
func (c *Cache) evictLocked() {
	for range 2*len(c.mu.open) + 1 {
		if c.mu.hand >= len(c.mu.open) {
			c.mu.hand = 0
		}
		victim := c.mu.open[c.mu.hand]
		if victim.used.Swap(false) {
			c.mu.hand++
			continue
		}
		c.removeLocked(c.mu.hand)
		victim.drop()
		return
	}
}

func (c *Cache) removeLocked(i int) {
	last := len(c.mu.open) - 1
	moved := c.mu.open[last]
	c.mu.open[i], moved.ring = moved, i
	c.mu.open[last] = nil
	c.mu.open = c.mu.open[:last]
}

// remove forgets a slot, if it is open.
func (c *Cache) remove(s *Slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := s.ring; i < len(c.mu.open) && c.mu.open[i] == s {
		c.removeLocked(i)
	}
}

// Slot is a file that is mapped when somebody needs it. Make one with [Cache.Slot].
type Slot struct {
	cache *Cache
	path  string
	size  int64
	mode  Mode

	file atomic.Pointer[File] // nil while not open
	used atomic.Bool          // since the cache's hand last passed
	ring int                  // place in cache.mu.open while open; guarded by cache.mu

	mu     sync.Mutex // held while the file is opened
	closed bool       // guarded by mu
	reads  int        // without the file being open; guarded by mu
}

// mostReads is how often a slot is read before its file is kept open for that: opening and
// mapping costs as much.
const mostReads = 4

// Slot makes a slot for the first size bytes of a file. Nothing is opened yet.
func (c *Cache) Slot(path string, size int64, mode Mode) *Slot {
	return &Slot{cache: c, path: path, size: size, mode: mode}
}

// Path returns the file's name.
func (s *Slot) Path() string { return s.path }

// Size returns the bytes that are mapped.
func (s *Slot) Size() int64 { return s.size }

// Open returns the file while it is open, without a reference; nil else.
func (s *Slot) Open() *File { return s.file.Load() }

// Acquire returns the file with a reference that the caller gives back by Release. Where
// the file is open this costs a few ns; else it is opened and mapped.
func (s *Slot) Acquire() (*File, error) {
	if f := s.file.Load(); f != nil && f.Acquire() {
		// A plain store would take the cache line from the other readers each time.
		if !s.used.Load() {
			s.used.Store(true)
		}
		return f, nil
	}
	return s.open()
}

// ReadAt reads by system call, up to the end of the file, and leaves nothing in memory that was
// not there. A file that is not open and is read a few times only is not mapped for that: the
// pages read then stay.
func (s *Slot) ReadAt(p []byte, off int64) (int, error) {
	if s.file.Load() == nil {
		if n, ok := s.readOnce(p, off); ok {
			if n < len(p) {
				return n, io.EOF
			}
			return n, nil
		}
	}
	f, err := s.Acquire()
	if err != nil {
		return 0, err
	}
	defer f.Release()
	return f.ReadCold(p, off)
}

// readOnce reads a file that is not open. Where that fails, opening it tells why.
func (s *Slot) readOnce(p []byte, off int64) (n int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads++; s.closed || s.reads > mostReads {
		return 0, false
	}
	// Not os.Open: it would offer the file to the poller, which takes none.
	fd, err := unix.Open(s.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	for n < len(p) {
		m, err := unix.Pread(fd, p[n:], off+int64(n))
		if err != nil && err != unix.EINTR {
			return 0, false
		}
		if m == 0 && err == nil {
			break
		}
		n += max(m, 0)
	}
	return n, true
}

func (s *Slot) open() (*File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("open %s: %w", s.path, ErrClosed)
	}
	if f := s.file.Load(); f != nil && f.Acquire() {
		return f, nil
	}
	f, err := Open(s.path, s.size, s.mode)
	if AtLimit(err) && s.cache.Shrink() {
		f, err = Open(s.path, s.size, s.mode)
	}
	if err != nil {
		return nil, err
	}
	f.warmth.watch = s.cache.watch
	f.Acquire() // the caller's; the owner's is the slot's
	// Not used yet in the cache's sense: what is needed once goes before what is needed again.
	s.used.Store(false)
	s.file.Store(f)
	s.cache.add(s)
	return f, nil
}

// drop gives up the slot's own reference.
func (s *Slot) drop() {
	if f := s.file.Swap(nil); f != nil {
		f.Close()
	}
}

// Close gives up the file for good. Readers keep what they hold: the file, if it was open, is
// returned, see [File.Held].
func (s *Slot) Close() *File {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.cache.remove(s)
	f := s.file.Load()
	s.drop()
	return f
}
