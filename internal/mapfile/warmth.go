package mapfile

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmlog/warmlog/pagecache"
)

// A file is remembered by regions: it is known of each whether all of it was in memory when
// somebody last looked, and when that was. What is known holds for a short while only, since
// the kernel takes pages away without a word.
const (
	regionBits = 16
	regionSize = 1 << regionBits

	// StepInterval is how often [Cache.Watch] looks again.
	StepInterval = 100 * time.Millisecond
	// WarmSteps is for how many steps it is believed that a region is in memory, or that
	// nothing of it is.
	WarmSteps = 5
	// A file of which nobody has asked for so many steps is not looked at again by itself.
	restSteps = 50
)

// watch is what the files of a cache have in common for knowing what is in memory.
type watch struct {
	prober func() *pagecache.Prober
	// step counts how often Watch has looked.
	step atomic.Uint32
}

// newWatch begins so late that a stamp of 0, of what was never looked at, is out of date.
func newWatch(prober func() *pagecache.Prober) *watch {
	w := &watch{prober: sync.OnceValue(prober)}
	w.step.Store(WarmSteps + 1)
	return w
}

// Presence is what is known of where a range is.
type Presence uint8

const (
	Unknown Presence = iota
	// InMemory: all of it is.
	InMemory
	// OnDisk: a part of it, at least, is not in memory.
	OnDisk
)

// warmth is what is remembered of a file.
type warmth struct {
	watch *watch // nil: nothing is
	// stamps has a region's step, times two, when all of it was in memory, with the lowest bit
	// set when nothing of it was. Made with the first answer.
	stamps atomic.Pointer[[]atomic.Uint32]
	// part is the last range that was found in memory of regions of which not all is: of a file
	// that is not written to its end, for example.
	part atomic.Pointer[part]
	// asked is the step in which somebody last wanted to know.
	asked atomic.Uint32
}

type part struct {
	from, to int64
	step     atomic.Uint32
}

const onDisk = 1 // the lowest bit of a stamp

// PageDown returns the offset of the page that holds a byte.
func PageDown(off int64) int64 { return off &^ (int64(os.Getpagesize()) - 1) }

// RegionEnd returns the offset behind the region that holds a byte.
func RegionEnd(off int64) int64 { return (off>>regionBits + 1) << regionBits }

// Known returns what is remembered of n bytes at off, and how many steps ago the oldest of that
// was seen. It makes no system call and takes no lock. The caller holds a reference.
func (m *File) Known(off, n int64) (r Presence, steps uint32) {
	w := &m.warmth
	if w.watch == nil || off < 0 || n <= 0 || off > m.size-n {
		return Unknown, 0
	}
	now := w.watch.step.Load()
	if w.asked.Load() != now { // a store would take the cache line from other readers each time
		w.asked.Store(now)
	}
	stamps := w.stamps.Load()
	if stamps == nil {
		return w.knownPart(off, n, now)
	}
	r = InMemory
	for i := off >> regionBits; i <= (off+n-1)>>regionBits; i++ {
		s := (*stamps)[i].Load()
		age := now - s>>1
		if age > WarmSteps {
			return w.knownPart(off, n, now)
		}
		steps = max(steps, age)
		if s&onDisk != 0 {
			r = OnDisk // whatever the others are
		}
	}
	return r, steps
}

func (w *warmth) knownPart(off, n int64, now uint32) (Presence, uint32) {
	p := w.part.Load()
	if p == nil || off < p.from || off+n > p.to {
		return Unknown, 0
	}
	if age := now - p.step.Load(); age <= WarmSteps {
		return InMemory, age
	}
	return Unknown, 0
}

// Answer is what the kernel said of a range.
type Answer struct {
	Presence
	Calls           int   // that were made to ask
	Pages, Resident int64 // of the range, as the last of them said
}

// Ask asks the kernel about n bytes at off, and remembers what it says of whole regions. The
// answer is Unknown where the kernel cannot be believed, or does not say. The caller holds a
// reference.
func (m *File) Ask(off, n int64) (a Answer) {
	w := &m.warmth
	if w.watch == nil || off < 0 || n <= 0 || off > m.size-n || w.watch.prober().Method() == 0 {
		return a
	}
	from, to := off&^(regionSize-1), min((off+n+regionSize-1)&^(regionSize-1), m.size)
	now := w.watch.step.Load()
	c, err := w.watch.prober().Resident(m.file, m.data, from, to-from)
	a.Calls++
	if err != nil || !c.Known() {
		return a
	}
	switch {
	case c.All():
		m.stamp(from, to, now<<1)
	case c.Resident == 0:
		m.stamp(from, to, now<<1|onDisk)
	case from < off || to > off+n: // a part of the regions is, perhaps all that was asked about
		c, err = w.watch.prober().Resident(m.file, m.data, off, n)
		a.Calls++
		if err != nil || !c.Known() {
			return a
		}
		if c.All() {
			p := &part{from: off, to: off + n}
			p.step.Store(now)
			w.part.Store(p)
		}
	}
	a.Pages, a.Resident = c.Pages, c.Resident
	a.Presence = OnDisk
	if c.All() {
		a.Presence = InMemory
	}
	return a
}

// stamp remembers something of the regions from one offset to another, both at a boundary or
// the file's end.
func (m *File) stamp(from, to int64, s uint32) {
	stamps := m.warmth.stamps.Load()
	if stamps == nil {
		all := make([]atomic.Uint32, (m.size+regionSize-1)>>regionBits)
		if !m.warmth.stamps.CompareAndSwap(nil, &all) {
			m.stamp(from, to, s)
			return
		}
		stamps = &all
	}
	for i := from >> regionBits; i < (to+regionSize-1)>>regionBits; i++ {
		(*stamps)[i].Store(s)
	}
}

// refresh looks again at what was in memory.
func (m *File) refresh() {
	w := &m.warmth
	stamps, now := w.stamps.Load(), w.watch.step.Load()
	if p := w.part.Load(); p != nil && now-p.step.Load() <= WarmSteps {
		if c, err := w.watch.prober().Resident(m.file, m.data, p.from, p.to-p.from); err == nil && c.Known() && c.All() {
			p.step.Store(now)
		} else {
			w.part.CompareAndSwap(p, nil)
		}
	}
	if stamps == nil {
		return
	}
	warm := func(i int) bool {
		s := (*stamps)[i].Load()
		return s&onDisk == 0 && now-s>>1 <= WarmSteps
	}
	for i := 0; i < len(*stamps); i++ {
		first := i
		for i < len(*stamps) && warm(i) {
			i++
		}
		if i > first {
			m.again(int64(first)<<regionBits, min(int64(i)<<regionBits, m.size), now)
		}
	}
}

// again looks at regions of which all were in memory: at all of them at once, and where that is
// not so any more, at each half.
func (m *File) again(from, to int64, now uint32) {
	c, err := m.warmth.watch.prober().Resident(m.file, m.data, from, to-from)
	switch {
	case err != nil || !c.Known():
		m.stamp(from, to, 0)
	case c.All():
		m.stamp(from, to, now<<1)
	case c.Resident == 0:
		m.stamp(from, to, now<<1|onDisk)
	case to-from <= regionSize:
		m.stamp(from, to, 0)
	default:
		middle := from + (to-from)/2&^(regionSize-1)
		m.again(from, middle, now)
		m.again(middle, to, now)
	}
}

// ReadCold reads by system call and leaves no page in memory that was not there before.
func (m *File) ReadCold(p []byte, off int64) (int, error) {
	if m.warmth.watch == nil {
		return m.file.ReadAt(p, off)
	}
	return m.warmth.watch.prober().ReadUncached(m.file, m.data, p, off)
}

// Prefetch asks the kernel to read what is absent of a range, and returns that. It is a hint, and
// does nothing where nobody knows what is absent.
func (m *File) Prefetch(off, n int64) (absent [][2]int64) {
	if m.warmth.watch == nil {
		return nil
	}
	absent, known, err := m.warmth.watch.prober().Absent(nil, m.file, m.data, off, n)
	if err != nil || !known {
		return nil
	}
	for _, r := range absent {
		_ = pagecache.Prefetch(m.file, r[0], r[1]-r[0])
	}
	return absent
}

// Forget takes ranges out of memory.
func (m *File) Forget(ranges [][2]int64) { pagecache.Drop(m.file, ranges) }

// Memory is mapped bytes that somebody holds, and what is known of where they are: see
// [File.Known] and [File.Ask].
type Memory = interface {
	Release()
	Known(off, n int64) (r Presence, steps uint32)
	Ask(off, n int64) Answer
}
