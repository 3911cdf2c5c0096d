package getmessage

import (
	"hash/maphash"
	"sync"
)

const (
	firstWindow   = 64 << 10 // bytes that a sequential reader's second read has at least
	defaultWindow = 1 << 20
	windowSets    = 256
	windowWays    = 4
)

// windows say how much a cold read should take at once: a reader that goes on where its last
// read ended gets twice as much each time, all others what they ask for. So random reads read
// no byte too much, and a reader of history, after a few reads, as much as the device takes
// at once.
//
// It remembers the last read of 1,024 readers, in sets of four as a processor's cache does;
// who is forgotten begins anew. Two readers with the same hash (64 bits, seeded) get each
// other's windows, which costs speed and nothing else.
type windows struct {
	most int64 // bytes

	mu    sync.Mutex // guards what follows; held with no other lock. Only cold reads come here
	clock uint64     // counts calls
	sets  [windowSets][windowWays]window
}

// window is a reader's last cold read: the physical offsets [from, to).
type window struct {
	reader   uint64 // hash; with used 0: nobody's
	used     uint64 // clock of the last use
	from, to int64
}

// newWindows makes windows that grow to most bytes; 0 or less: 1 MiB. It should be what the
// device takes up of a prefetch, or reads at once.
func newWindows(most int64) *windows {
	if most <= 0 {
		most = defaultWindow
	}
	return &windows{most: most}
}

// next returns how many bytes to read at once from a physical offset on, where n are asked for:
// at least n, and more than the bound only if n is. It takes for granted that they are read and
// kept for the reader's next pulls; the log's or segment's end may cut them short.
//
//	begins                                 window
//	near where the last read ended         twice the last one, 64 KiB at least
//	further inside of the last read        as the last one: it reads again what it had
//	anywhere else                          n
//
// Near is within a quarter of the last window, before, for a record that was cut, and behind,
// where other queues' records lie between. A reader whose messages lie further apart stays with
// what it asks for: more would be read than used.
func (w *windows) next(group, topic string, queueID int32, off, n int64) int64 {
	n = max(0, n)
	hash := readerHash(group, topic, queueID)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock++
	set := &w.sets[hash%windowSets]
	last := &set[0]
	for i := range set {
		if set[i].used != 0 && set[i].reader == hash {
			last = &set[i]
			break
		}
		if set[i].used < last.used {
			last = &set[i]
		}
	}
	size := n
	if last.used != 0 && last.reader == hash {
		size = last.grow(off, n, w.most)
	}
	*last = window{reader: hash, used: w.clock, from: off, to: off + size}
	return size
}

// grow returns the size of a reader's next window.
func (l *window) grow(off, n, most int64) int64 {
	size := l.to - l.from
	near := size / 4
	switch {
	case off < l.from, off-l.to > near:
		return n
	case off-l.to >= -near:
		size = max(2*size, firstWindow)
	}
	return max(n, min(size, most))
}

// readerHash tells readers apart.
func readerHash(group, topic string, queueID int32) uint64 {
	h := maphash.String(seed, group)
	h = h*0x9E3779B97F4A7C15 + maphash.String(seed, topic)
	h = h*0x9E3779B97F4A7C15 + uint64(uint32(queueID))
	return h ^ h>>32
}
