package commitlog

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/internal/planted"
)

// ahead prepares, in the background, what the appender comes to next: space on disk, pages
// that can be stored into without a fault, zeros that are on disk, the next segment. Whatever
// is not ready is done by the append itself.
type ahead struct {
	a    *Appender
	quit context.CancelFunc
	done sync.WaitGroup

	mu   sync.Mutex
	next *writing // guarded by mu

	// writeMu is held while bytes are written to a segment by pwrite: zeros must not follow
	// records.
	writeMu sync.Mutex
	// written says that the last bytes did not come by stores to the mapping: no page need be
	// touched for the next ones.
	written atomic.Bool
}

// How far ahead: what comes in within a sixteenth of a second, at the current rate. A sync
// makes pages that were touched and not stored into as dear as new ones, so that more would
// be touched in vain.
const (
	leastAhead  = 1 << 20
	mostAhead   = 64 << 20
	aheadShare  = 16 // of a second
	zeroAhead   = 16 << 20
	zeroPiece   = 256 << 10
	pageSize    = 4096
	restPeriod  = 2 * time.Millisecond
	restsToIdle = 50
)

func (h *ahead) start(a *Appender) {
	h.a = a
	ctx, quit := context.WithCancel(context.Background())
	h.quit = quit
	h.done.Go(func() { h.run(ctx) })
}

// stop ends the goroutine. The appender's lock must not be held.
func (h *ahead) stop() {
	h.quit()
	h.done.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next != nil {
		h.next.discard()
		h.next = nil
	}
}

// run prepares as long as the log grows, and then waits for the next append.
func (h *ahead) run(ctx context.Context) {
	tick := time.NewTicker(restPeriod)
	defer tick.Stop()
	last, rests := h.a.End(), 0
	rate, began := int64(0), time.Now() // bytes a second
	for {
		end := h.a.End()
		if end != last {
			rests = 0
		} else if rests++; rests > restsToIdle {
			tick.Stop()
			if h.a.Wait(ctx, func() bool { return h.a.End() != end }) != nil {
				return
			}
			rests = 0
			tick.Reset(restPeriod)
		}
		if d := time.Since(began); d >= 10*restPeriod {
			rate = max(0, (rate+int64(float64(end-last)/d.Seconds()))/2)
			last, began = end, time.Now()
		}
		h.prepare(end, min(max(rate/aheadShare, leastAhead), mostAhead))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// prepare makes the next n bytes behind end ready. What fails will fail again, and be told,
// when an append comes to it.
func (h *ahead) prepare(end, n int64) {
	h.a.mu.Lock()
	cur := h.a.mu.cur
	var mapped *mapfile.File
	if cur != nil && cur.mapped != nil {
		mapped = cur.mapped
		mapped.Acquire() // its segment may be full, synced and given up meanwhile
	}
	h.a.mu.Unlock()
	if cur == nil {
		return
	}
	to := min(end+n, cur.base+cur.size)
	if mapped != nil {
		_ = cur.reserve(to - cur.base)
		if !h.written.Load() {
			// A page that cannot be read: the append that comes to it says so.
			_ = mapfile.Guard(func() { h.touch(cur, mapped, end, to) })
		}
		mapped.Release()
	} else {
		h.zero(cur, end, min(end+zeroAhead, cur.base+cur.size))
	}
	if end+max(n, cur.size/8) > cur.base+cur.size {
		h.makeNext(cur.base + cur.size)
	}
}

// touch makes pages of a mapping writable: the first store to a page enters the kernel. It
// stores nothing of its own (an atomic OR of zero), so that a record which comes in between
// stays what it is. Only what has space on disk is touched.
func (h *ahead) touch(w *writing, mapped *mapfile.File, end, to int64) {
	to = min(to, w.base+w.reserved.Load())
	from := max(end, w.touched, w.base)
	b := mapped.Bytes()
	for at := (from + pageSize - 1) / pageSize * pageSize; at < to; at += pageSize {
		word := (*uint32)(unsafe.Pointer(&b[at-w.base])) // a page's beginning is aligned
		if planted.PlainToucher {
			*word = 0
			continue
		}
		atomic.OrUint32(word, 0)
	}
	w.touched = max(w.touched, to)
}

// zero writes zeros and syncs them, so that the sync of records that come there later has
// no change of the file's extents to write.
func (h *ahead) zero(w *writing, end, to int64) {
	zeros := make([]byte, zeroPiece)
	wrote := false
	for {
		h.writeMu.Lock()
		from := max(w.zeroed, end, w.base)
		n := min(int64(len(zeros)), to-from)
		if n <= 0 || from > end && to-from < zeroAhead/2 && !wrote {
			h.writeMu.Unlock()
			break
		}
		_, err := w.zeros.WriteAt(zeros[:n], from-w.base)
		if err == nil {
			w.zeroed = from + n
		}
		h.writeMu.Unlock()
		if err != nil {
			return
		}
		wrote = true
	}
	if wrote {
		// A failure may concern records that came in meanwhile; the leader is told, too.
		if err := syncData(w.zeros); err != nil && !errors.Is(err, os.ErrClosed) {
			_ = h.a.fail(err)
		}
	}
}

// write writes records to their segment.
func (h *ahead) write(c chunk) error {
	h.writeMu.Lock()
	defer h.writeMu.Unlock()
	if _, err := c.seg.file.WriteAt(c.data, c.at); err != nil {
		return err
	}
	c.seg.zeroed = max(c.seg.zeroed, c.seg.base+c.at+int64(len(c.data)))
	return nil
}

// makeNext makes the next segment, without its name, if it is not there.
func (h *ahead) makeNext(base int64) {
	h.mu.Lock()
	have := h.next != nil
	h.mu.Unlock()
	if have {
		return
	}
	w, err := h.a.createSegment(base, reserveStep)
	if err != nil {
		return // the append that needs it says why
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = w
}

// take returns the segment that was made in advance, nil if there is none.
func (h *ahead) take(base int64) *writing {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.next
	h.next = nil
	if w != nil && w.base != base {
		w.discard()
		return nil
	}
	return w
}
