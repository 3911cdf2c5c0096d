package commitlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/warmlog/warmlog/internal/layout"
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

	// syncing is held while zeros are synced. Of several syncs that are under way some disks tell
	// one only that they failed: see [Appender.lead].
	syncing sync.Mutex

	// writeMu is held while bytes are written to a segment by pwrite: zeros must not follow
	// records.
	writeMu sync.Mutex
	// written says that the last bytes did not come by stores to the mapping: nothing need be
	// laid for the next ones.
	written atomic.Bool
	piece   atomic.Int64 // bytes that are laid at once
	synced  atomic.Bool  // a sync has ended since pages were touched
}

// How far ahead. Zeros that are laid and then synced, before a record comes to them, have been
// written in vain, and their pages are as dear as new ones: what comes in within a few
// milliseconds is enough. Each sync writes the whole piece in which a record lies, so that pieces
// are small where little comes in.
const (
	leastPiece   = 16 << 10
	mostPiece    = 1 << 20
	pieceShare   = 512 // of what comes in within a second
	distShare    = 64  // likewise
	mostDist     = 8 << 20
	leastSpace   = reserveStep / 2
	segmentShare = 8 // of a segment: the next one is made when so much is left
	zeroAhead    = 16 << 20
	zeroPiece    = 256 << 10
	pageSize     = 4096
	restPeriod   = 2 * time.Millisecond
	restsToIdle  = 50
)

// zeros is what is laid. Nobody writes to it.
var zeros [mostPiece]byte

func (h *ahead) start(a *Appender) {
	h.a = a
	h.piece.Store(leastPiece)
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
		h.prepare(end, rate)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// prepare makes ready what comes behind end, at a rate of bytes a second. What fails will fail
// again, and be told, when an append comes to it.
func (h *ahead) prepare(end, rate int64) {
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
	limit := cur.base + cur.size
	if mapped != nil {
		// Reserving can take long on a disk that is nearly full: it begins a second before.
		_ = cur.reserve(end - cur.base + max(rate, leastSpace))
		if !h.written.Load() {
			piece := int64(leastPiece)
			for piece < min(rate/pieceShare, mostPiece) {
				piece *= 2
			}
			h.piece.Store(piece)
			to := min(end+min(max(2*piece, rate/distShare), mostDist), limit)
			// A page that cannot be touched: the append that comes to it says so.
			_ = mapfile.Guard(func() {
				if h.synced.Swap(false) || planted.PlainToucher {
					touch(cur, mapped, end, cur.laid.Load())
				}
				for cur.laid.Load() < to && h.lay(cur, mapped, to) == nil {
				}
			})
		}
		mapped.Release()
	} else {
		h.zero(cur, end, min(end+zeroAhead, limit))
	}
	if end+max(rate/distShare, cur.size/segmentShare) > limit {
		h.makeNext(limit)
	}
}

// ready makes sure that a segment can be stored into up to a physical offset: its pages are
// there. The appender's lock is held.
func (h *ahead) ready(w *writing, to int64) error {
	for w.laid.Load() < to {
		if err := h.lay(w, nil, to); err != nil {
			return err
		}
	}
	return nil
}

// lay writes one more piece of zeros where no record is yet: pages that come by one large write
// cost a tenth of those that come by faults. With a mapping, they are made writable, too.
//
// Records are stored below laid only, and zeros come above it only: neither meets the other.
func (h *ahead) lay(w *writing, mapped *mapfile.File, to int64) error {
	h.writeMu.Lock()
	defer h.writeMu.Unlock()
	from := w.laid.Load()
	if from >= to {
		return nil // somebody else did
	}
	at, piece := from-w.base, h.piece.Load()
	n := min(piece-at%piece, w.size-at)
	err := w.reserve(at + n)
	if errors.Is(err, ErrNoSpace) && n > to-from { // less may still be there
		n = to - from
		err = w.reserve(at + n)
	}
	if err != nil {
		return err
	}
	if _, err := w.file.WriteAt(zeros[:n], at); err != nil {
		if layout.NoRoom(err) {
			return fmt.Errorf("%w: %w", ErrNoSpace, err)
		}
		return err
	}
	if mapped != nil {
		touch(w, mapped, from, from+n)
	}
	w.laid.Store(from + n)
	return nil
}

// touch makes pages of a mapping writable: the first store to a page, and the first one after a
// sync, enters the kernel. It stores nothing of its own (an atomic OR of zero), so that a record
// which comes in between stays what it is.
func touch(w *writing, mapped *mapfile.File, from, to int64) {
	b := mapped.Bytes()
	from = max(from, w.base) // the log may have come to another segment meanwhile
	for at := (from - w.base + pageSize - 1) / pageSize * pageSize; at < to-w.base; at += pageSize {
		word := (*uint32)(unsafe.Pointer(&b[at])) // a page's beginning is aligned
		if planted.PlainToucher {
			*word = 0
			continue
		}
		atomic.OrUint32(word, 0)
	}
}

// zero writes zeros and syncs them, so that the sync of records that come there later has
// no change of the file's extents to write.
func (h *ahead) zero(w *writing, end, to int64) {
	wrote := false
	for {
		h.writeMu.Lock()
		from := max(w.laid.Load(), end)
		n := min(zeroPiece, to-from)
		if n <= 0 || from > end && to-from < zeroAhead/2 && !wrote {
			h.writeMu.Unlock()
			break
		}
		_, err := w.zeros.WriteAt(zeros[:n], from-w.base)
		if err == nil {
			w.laid.Store(from + n)
		}
		h.writeMu.Unlock()
		if err != nil {
			return
		}
		wrote = true
		// The sync of records waits for all that is dirty in the file: never much.
		writeBack(w.zeros, from-w.base, n)
	}
	if wrote {
		h.syncing.Lock()
		defer h.syncing.Unlock()
		// A failure may concern records that came in meanwhile.
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
	raise(&c.seg.laid, c.seg.base+c.at+int64(len(c.data)))
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
	w, err := h.a.createSegment(base)
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
