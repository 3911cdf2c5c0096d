package getmessage

import (
	"container/heap"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// granularity is the step in which deadlines are kept: a timer at most every 10 ms, however
// many there are. Consumers wait for seconds.
const granularity = 10 * time.Millisecond

// clock is the one timer of all waiters. It is set for the earliest deadline; that it has no
// waiter any more is found when it fires.
type clock struct {
	start time.Time
	fire  func()
	armed atomic.Int64 // tick for which the timer is set; never if it is not. Stored under mu

	mu     sync.Mutex // held with no other lock
	timer  *time.Timer
	closed bool // guarded by mu
}

// tick returns the step at which a deadline has passed, 0 for one before the clock's start, never
// for one that no clock will show.
func (c *clock) tick(t time.Time) int64 {
	d := t.Sub(c.start) // saturates
	if d > math.MaxInt64-granularity {
		return never
	}
	tick := int64(d / granularity)
	if d%granularity > 0 {
		tick++
	}
	return max(0, tick)
}

// now returns the last step that has passed.
func (c *clock) now() int64 { return int64(time.Since(c.start) / granularity) }

// arm lets the timer fire at a tick at the latest.
func (c *clock) arm(tick int64) {
	if tick >= c.armed.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || tick >= c.armed.Load() {
		return
	}
	c.armed.Store(tick)
	wait := time.Until(c.start.Add(time.Duration(tick) * granularity))
	if c.timer == nil {
		c.timer = time.AfterFunc(wait, c.fired)
	} else {
		c.timer.Reset(wait)
	}
}

// fired makes room for another setting first: a waiter that comes in meanwhile is seen by fire,
// or sets the timer.
func (c *clock) fired() {
	c.mu.Lock()
	c.armed.Store(never)
	c.mu.Unlock()
	c.fire()
}

func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
}

// deadlines are the deadlines of a shard, guarded by its mu. Waiters with the same one are in a
// list: any of them leaves it at the cost of a few stores.
type deadlines struct {
	at    map[int64]*moment // by tick
	order []*moment         // a heap
	spare *moment
}

// moment is when some deadlines pass. It has a waiter at least.
type moment struct {
	tick  int64
	index int
	first *waiter
	last  *waiter
}

func (d *deadlines) add(w *waiter, tick int64) {
	m := d.at[tick]
	if m == nil {
		if m = d.spare; m == nil {
			m = &moment{}
		}
		d.spare = nil
		m.tick = tick
		d.at[tick] = m
		heap.Push((*byTick)(&d.order), m)
	}
	w.moment, w.earlier = m, m.last
	if m.last != nil {
		m.last.later = w
	} else {
		m.first = w
	}
	m.last = w
}

// remove takes a waiter's deadline away, if it is still there.
func (d *deadlines) remove(w *waiter) {
	m := w.moment
	if m == nil {
		return
	}
	if w.later != nil {
		w.later.earlier = w.earlier
	} else {
		m.last = w.earlier
	}
	if w.earlier != nil {
		w.earlier.later = w.later
	} else {
		m.first = w.later
	}
	w.moment, w.earlier, w.later = nil, nil, nil
	if m.last == nil {
		heap.Remove((*byTick)(&d.order), m.index)
		delete(d.at, m.tick)
		d.spare = m
	}
}

// due returns a waiter with the earliest deadline, nil if that is after a tick.
func (d *deadlines) due(tick int64) *waiter {
	if d.next() > tick {
		return nil
	}
	return d.order[0].first
}

// next returns the tick of the earliest deadline, never if there is none.
func (d *deadlines) next() int64 {
	if len(d.order) == 0 {
		return never
	}
	return d.order[0].tick
}

type byTick []*moment

func (h byTick) Len() int           { return len(h) }
func (h byTick) Less(i, j int) bool { return h[i].tick < h[j].tick }
func (h byTick) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *byTick) Push(m any) {
	m.(*moment).index = len(*h)
	*h = append(*h, m.(*moment))
}

func (h *byTick) Pop() any {
	n := len(*h) - 1
	m := (*h)[n]
	(*h)[n] = nil
	*h = (*h)[:n]
	return m
}
