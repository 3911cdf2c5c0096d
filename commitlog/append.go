package commitlog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/internal/planted"
	"github.com/warmlog/warmlog/internal/wake"
	"github.com/warmlog/warmlog/message"
)

// ErrTooLarge says that a record does not fit into a segment.
var ErrTooLarge = errors.New("the record does not fit into a segment")

// ErrFailed says that the log takes no more appends until it is opened again, because a
// write or sync failed. What made it so is wrapped beside it.
var ErrFailed = errors.New("the log takes no more appends")

// AppendOptions are what a log is written with.
type AppendOptions struct {
	// Mode is how records come to the disk.
	Mode layout.Mode
	// Temp is a directory of the same file system for segments that are being made.
	Temp string
	// WithCRC fills in the checksum over the whole record; records reserve the place for it.
	WithCRC bool
	// Failed, if not nil, is called once, with why no more appends are taken, by the goroutine
	// that met it, which may hold the appender's locks.
	Failed func(error)
}

// Appender is the writer of a log: there is one. All methods may be called concurrently.
type Appender struct {
	log *Log
	o   AppendOptions
	dir *os.File // open to be synced, for which there must not be a descriptor too few

	mu struct {
		sync.Mutex
		pos    int64    // physical offset of the next record or blank
		cur    *writing // the segment of pos; nil before the first, or at the beginning of one
		time   int64    // store time of the newest record
		chunks []chunk  // Flushed: what is not yet written, in order
		// dirty are the segments that were written since they were synced, cur included.
		dirty []*writing
		// next is the segment behind cur, if a batch needed one before it was placed.
		next *writing
	}
	// pos is mu.pos for who does not hold mu.
	pos atomic.Int64
	// moved is told when pos, the written, the durable or the visible end has moved.
	moved wake.Point

	show  show
	sync  syncer
	ahead ahead
	// failed is why no more appends are taken. It stays.
	failed atomic.Pointer[error]
}

// chunk is a stretch of the log that waits to be written to its segment.
type chunk struct {
	seg  *writing
	at   int64 // byte of the segment
	data []byte
}

// Placed is one record to append. Append fills in what is not given.
type Placed struct {
	// Record is as message.AppendRecord made it, and is stamped in place. Those that lie in one
	// buffer, one behind the other, are written at once where that is cheaper.
	Record []byte
	// Next is the next offset of the record's queue, guarded by the appender's lock: Append
	// assigns it and adds 1. Nil for a record that has no place in a queue.
	Next *int64

	Offset      int64 // physical
	QueueOffset int64
	StoreTime   int64 // ms since 1970
}

// End returns the physical offset behind the record.
func (p *Placed) End() int64 { return p.Offset + int64(len(p.Record)) }

// OpenAppender makes the writer of a log that ends at a physical offset, behind which its
// last segment has only zeros; up to durable it is known to be on disk. newest is the highest
// store time in it.
func (l *Log) OpenAppender(end, durable, newest int64, o AppendOptions) (*Appender, error) {
	if l.size == 0 {
		l.size = l.options.SegmentSize
	}
	if l.size < message.MinSize+message.BlankSize || l.size > math.MaxInt32 {
		return nil, fmt.Errorf("segments of %d bytes: %w", l.size, layout.ErrFileSize)
	}
	a := &Appender{log: l, o: o}
	a.mu.pos, a.mu.time = end, newest
	a.pos.Store(end)
	a.sync.durable.Store(durable)
	a.sync.written.Store(end)
	a.show.limit.Store(math.MaxInt64)
	a.sync.round = make(chan struct{})
	for _, s := range l.Segments() {
		if s.End() > durable && s.End() <= end { // to be synced, and no more
			f, err := os.OpenFile(s.Path(), os.O_RDWR, 0)
			if err != nil {
				return nil, errors.Join(err, a.closeDirty())
			}
			a.mu.dirty = append(a.mu.dirty, &writing{base: s.Base, size: s.Size, seg: s, file: f})
		}
	}
	if s := l.Segment(end); s != nil {
		var err error
		if a.mu.cur, err = a.continueSegment(s, end); err != nil {
			return nil, errors.Join(err, a.closeDirty())
		}
		a.mu.cur.named = durable == end // else by the next round: its maker may have died before
		a.mu.dirty = append(a.mu.dirty, a.mu.cur)
	} else if end%l.size != 0 {
		return nil, fmt.Errorf("append at %d: no segment there", end)
	}
	var err error
	if a.dir, err = os.Open(l.dir); err != nil {
		return nil, errors.Join(err, a.closeDirty())
	}
	a.ahead.start(a)
	return a, nil
}

// End returns the physical offset behind the newest record, visible or not.
func (a *Appender) End() int64 { return a.pos.Load() }

// Wait returns when come reports true, or with the error of ctx. come is asked again whenever
// an end of the log has moved, and after [Appender.Wake].
func (a *Appender) Wait(ctx context.Context, come func() bool) error { return a.moved.Wait(ctx, come) }

// Wake lets those who wait look again.
func (a *Appender) Wake() { a.moved.Changed() }

// Lock is held while n records or queue offsets are looked at that only Append changes.
func (a *Appender) Lock()   { a.mu.Lock() }
func (a *Appender) Unlock() { a.mu.Unlock() }

// Append gives records the next places of the log, in order. In Written mode they are stored
// and visible when it returns; in Flushed mode they are neither before [Appender.Commit] has
// come to their end. All are placed or none: an error uses up nothing, but for a fault of the
// disk in between, after which nothing is appended any more. now, ms since 1970, is their
// store time, unless that of the log is higher.
func (a *Appender) Append(records []Placed, now int64) (err error) {
	old := debug.SetPanicOnFault(true)
	a.mu.Lock()
	defer func() { // also while another panic than a fault passes through
		a.mu.Unlock()
		debug.SetPanicOnFault(old)
		a.moved.Changed()
	}()
	defer func() {
		if fault := recover(); fault != nil {
			err = mapfile.FaultError(fault)
			if d, ok := err.(*message.DamageError); ok && a.mu.cur != nil && d.File == a.mu.cur.file.Name() {
				d.File = a.mu.cur.name()
			}
			err = a.fail(err)
		}
	}()
	if err := a.Failed(); err != nil {
		return err
	}
	batch := a.o.Mode == layout.Written && oneBuffer(records) >= writeFrom
	if err := a.planLocked(records, a.o.Mode == layout.Written && !batch); err != nil {
		return a.failDisk(err)
	}
	a.mu.time = max(a.mu.time, now)
	if batch {
		if err := a.writeLocked(records); err != nil {
			return a.fail(err)
		}
		return nil
	}
	if a.ahead.written.Load() {
		a.ahead.written.Store(false)
	}
	for i := range records {
		if err := a.placeLocked(&records[i]); err != nil {
			return a.fail(err)
		}
	}
	return nil
}

// planLocked does beforehand what can fail in placing records: it makes room for all of them,
// in this segment and the next. stored says that they are stored into mappings.
func (a *Appender) planLocked(records []Placed, stored bool) error {
	room := int64(0) // of cur
	if a.mu.cur != nil {
		room = a.mu.cur.base + a.log.size - a.mu.pos
	}
	here, total := int64(0), int64(0)
	for i := range records {
		n := int64(len(records[i].Record))
		if total += n; total+message.BlankSize > a.log.size {
			return fmt.Errorf("%w: %d bytes in %d records, segments of %d", ErrTooLarge, total, i+1, a.log.size)
		}
		if total+message.BlankSize <= room {
			here = total
		}
	}
	if room > 0 { // also for the blank that ends the segment
		if err := a.haveLocked(a.mu.cur, a.mu.pos-a.mu.cur.base+here+message.BlankSize, stored); err != nil {
			return err
		}
	}
	if here == total {
		return nil
	}
	n := total - here + message.BlankSize
	if a.mu.next == nil {
		base := a.mu.pos
		if a.mu.cur != nil {
			base = a.mu.cur.base + a.log.size
		}
		var err error
		if a.mu.next, err = a.nextSegment(base, n); err != nil {
			return err
		}
	}
	return a.haveLocked(a.mu.next, n, stored)
}

// haveLocked makes room for the first n bytes of a segment.
func (a *Appender) haveLocked(w *writing, n int64, stored bool) error {
	if stored {
		return a.ahead.ready(w, w.base+min(n, w.size))
	}
	return w.reserve(n)
}

func (a *Appender) placeLocked(p *Placed) error {
	size := int64(len(p.Record))
	if err := a.roomLocked(size); err != nil {
		return err
	}
	a.stampLocked(p, a.mu.pos)
	if err := a.storeLocked(p.Record); err != nil {
		return err
	}
	a.movedLocked(size)
	return nil
}

// storeLocked puts bytes at pos. They fit into cur, and room was made for them.
func (a *Appender) storeLocked(b []byte) error {
	at := a.mu.pos - a.mu.cur.base
	if a.o.Mode == layout.Written {
		if err := a.ahead.ready(a.mu.cur, a.mu.pos+int64(len(b))); err != nil {
			return err // a blank behind a batch that was written
		}
		if planted.AckBeforeWrite {
			storeLate(a.mu.cur.mapped, at, b)
			return nil
		}
		if planted.PublishEarly {
			a.log.SetMax(a.mu.pos + int64(len(b)))
		}
		copy(a.mu.cur.mapped.Bytes()[at:], b)
		return nil
	}
	last := len(a.mu.chunks) - 1
	if last < 0 || a.mu.chunks[last].seg != a.mu.cur {
		a.mu.chunks = append(a.mu.chunks, chunk{seg: a.mu.cur, at: at, data: a.sync.buffer()})
		last++
	}
	a.mu.chunks[last].data = append(a.mu.chunks[last].data, b...)
	return nil
}

// movedLocked moves the end past a whole record or blank.
func (a *Appender) movedLocked(n int64) {
	a.mu.pos += n
	a.pos.Store(a.mu.pos)
	if a.o.Mode == layout.Written && a.mu.pos <= a.show.limit.Load() {
		a.log.SetMax(a.mu.pos) // publishes the record: its bytes were stored before
	}
}

// roomLocked makes cur the segment in which a record of n bytes and a blank behind it have
// room: that is planned.
func (a *Appender) roomLocked(n int64) error {
	if a.mu.cur != nil {
		left := a.mu.cur.base + a.log.size - a.mu.pos
		if n+message.BlankSize <= left {
			return nil
		}
	}
	base := a.mu.pos
	if a.mu.cur != nil {
		base = a.mu.cur.base + a.log.size
	}
	next := a.mu.next // planned
	if left := base - a.mu.pos; left > 0 {
		var blank [message.BlankSize]byte
		message.PutBlank(blank[:], int32(left))
		if err := a.storeLocked(blank[:]); err != nil {
			return err
		}
		a.movedLocked(left)
	}
	a.enterLocked(next)
	return nil
}

// enterLocked makes the next segment the one that is written.
func (a *Appender) enterLocked(next *writing) {
	if a.mu.cur != nil {
		a.mu.cur.seg.lastTime.Store(a.mu.time)
	}
	a.log.add(next.seg)
	a.mu.cur, a.mu.next = next, nil
	a.mu.dirty = append(a.mu.dirty, next)
}

// Failed returns why the log takes no more appends, nil if it does.
func (a *Appender) Failed() error {
	if err := a.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// fail latches an error: bytes that were to be on disk may not be, whatever succeeds later.
func (a *Appender) fail(cause error) error {
	err := fmt.Errorf("%w: %w", ErrFailed, cause)
	if a.failed.CompareAndSwap(nil, &err) && a.o.Failed != nil {
		a.o.Failed(err)
	}
	return *a.failed.Load()
}

// failDisk latches an error that says that the disk or its file system is out of service, and
// returns any other as it is.
func (a *Appender) failDisk(err error) error {
	if errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EIO) {
		return a.fail(err)
	}
	return err
}

// Close stops the goroutines of the appender and gives its files up. It syncs nothing: see
// [Appender.Commit].
func (a *Appender) Close() error {
	closed := fmt.Errorf("%w: closed", ErrFailed)
	a.failed.CompareAndSwap(nil, &closed)
	a.ahead.stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	if a.mu.next != nil { // empty, under its name: the next run uses or removes it
		errs = append(errs, a.mu.next.close())
	}
	return errors.Join(append(errs, a.closeDirty(), a.dir.Close())...)
}

// closeDirty gives up the segments that were not synced.
func (a *Appender) closeDirty() error {
	var errs []error
	for _, w := range a.mu.dirty {
		errs = append(errs, w.close())
	}
	a.mu.dirty, a.mu.cur = nil, nil
	return errors.Join(errs...)
}
