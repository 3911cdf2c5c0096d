package commitlog

import (
	"sync"
	"sync/atomic"

	"github.com/warmlog/warmlog/internal/layout"
)

// show is how far readers may see.
type show struct {
	// limit is the physical offset that the visible end does not pass; math.MaxInt64: none.
	limit atomic.Int64
	// mu is held while the visible end moves below the limit; it is taken before the log's.
	mu sync.Mutex
}

// SetLimit says up to which physical offset readers may see at the most: what enough
// replicas have. It may lie within a record, which then is not visible. What was visible
// stays so.
func (a *Appender) SetLimit(off int64) {
	a.show.limit.Store(off)
	a.showMore()
	a.moved.Changed()
}

// showMore moves the visible end to where the limit allows it. Who moves an end of the log
// looks at the limit after that, and who moves the limit looks at the ends after that: one
// of them sees both.
func (a *Appender) showMore() {
	a.show.mu.Lock()
	defer a.show.mu.Unlock()
	to := a.pos.Load()
	if a.o.Mode == layout.Flushed {
		to = a.sync.durable.Load()
	}
	if limit := a.show.limit.Load(); limit < to {
		to = a.log.boundary(a.log.Max(), limit)
	}
	raise(&a.log.max, to)
}

// boundary returns the highest end of a record or blank at or below a physical offset, from
// one such end on.
func (l *Log) boundary(from, to int64) int64 {
	scan := l.Scan(from, to, false)
	defer scan.Close()
	for scan.Next() {
		if scan.Offset() > to {
			return scan.Pos()
		}
		from = scan.Offset()
	}
	if scan.Offset() <= to { // else a blank reaches beyond
		return scan.Offset()
	}
	return from
}

// raise makes a number at least to.
func raise(n *atomic.Int64, to int64) {
	for {
		is := n.Load()
		if to <= is || n.CompareAndSwap(is, to) {
			return
		}
	}
}
