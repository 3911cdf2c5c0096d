package getmessage

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/warmlog/warmlog/commitlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/message"
)

// ErrRemoved says that a physical offset is no longer in the log.
var ErrRemoved = commitlog.ErrGone

// ErrUnavailable says that a queue's entries cannot be had for now.
var ErrUnavailable = errors.New("queue entries are not available")

// Ref keeps memory valid until it is released. An alias, so that logs and queues need not
// import this package.
type Ref = interface{ Release() }

// Memory is mapped bytes that are held, and says which of them are in memory, of ranges that
// are counted from the first byte. Known says what it remembers, without a system call, and how
// many tenths of a second ago it was seen. Ask asks the kernel. Two values are compared, and are
// equal for one mapping of one file.
type Memory = mapfile.Memory

// Presence is what is known of where a range of bytes is.
type Presence = mapfile.Presence

// What a [Memory] says of a range: nothing, all of it is in memory, or not all of it is.
const (
	Unknown  = mapfile.Unknown
	InMemory = mapfile.InMemory
	OnDisk   = mapfile.OnDisk
)

// Answer is what the kernel said of a range.
type Answer = mapfile.Answer

// Log is the commit log of a pull.
type Log interface {
	// Bounds returns the physical offsets of the oldest byte and behind the newest visible.
	Bounds() (min, max int64)
	// Map returns the visible bytes of the segment that holds a physical offset, the
	// offset of the first of them, and what keeps them valid and knows which of them are in
	// memory. The error is ErrRemoved for an offset that is no longer there.
	Map(off int64) (base int64, data []byte, held Memory, err error)
	// Fresh returns the physical offset from which on this process has written the bytes so
	// short a while ago that they are in memory; math.MaxInt64 where there are none.
	Fresh() int64
	// ReadCold reads visible bytes of one segment without touching a page of the mapping, and
	// leaves no page in memory that was not there. It may read fewer than len(b), of a log or
	// segment that ends; the errors are those of Map.
	ReadCold(b []byte, off int64) (int, error)
	// Prefetch lets a part of one segment be read in the background. It is a hint. forget, which
	// is called after the read, leaves no page in memory that came by it.
	Prefetch(off, n int64) (forget func())
	// Reaches reports whether the file of the bytes before a physical offset still holds
	// them. It is asked about a record that looks cut off.
	Reaches(off int64) bool
	// Damage makes the error of bytes at a physical offset.
	Damage(off int64, err error) *message.DamageError
}

// Queue is the consume queue of a pull.
type Queue interface {
	// Bounds returns the offset of the first message that is left and behind the last one.
	Bounds(ctx context.Context) (min, max int64, err error)
	// FileEntries returns the entries of a queue file; a pull ends where a file ends.
	FileEntries() int64
	// Slice returns encoded entries from an offset within the bounds on, as many as lie in
	// one piece, and what keeps them valid (nil: the collector does). No entries: they are
	// missing there.
	Slice(off int64) (entries []byte, ref Ref, err error)
	// Checked returns the offset from which on each entry was compared with its record by
	// this process, whole and with its checksums; math.MaxInt64 if none was.
	Checked() int64
	// Heal returns the entry that the log itself has for an offset whose entry is missing
	// or wrong, false where the log has none. The error is ErrUnavailable where the answer
	// is not known yet.
	Heal(ctx context.Context, off int64) (consumequeue.Entry, bool, error)
	// Damage makes the error of an offset's entry.
	Damage(off int64, err error) *message.DamageError
}

// Reader answers pulls over one log. Set its fields before the first Get.
type Reader struct {
	Log    Log
	Limits Limits // with every field set: see Limits.WithDefaults
	// Threshold returns the distance in bytes from the end of the log up to which data is
	// taken for data in memory. It is called once per pull.
	Threshold func() int64
	// Policy decides whether the consumer is sent to the slave.
	Policy Policy
	// Strict makes a damaged record an error. Else it is passed over.
	Strict bool

	// Lanes are where reads of what is not in memory take turns; nil: they do not.
	Lanes *Lanes

	role     atomic.Int32
	coldOnce sync.Once
	cold     *coldParts
}

// SetRole changes the part that the store plays. It may be called at any time.
func (r *Reader) SetRole(role Role) { r.role.Store(int32(role)) }

// Role returns the part that the store plays.
func (r *Reader) Role() Role { return Role(r.role.Load()) }

// Get answers a pull into a batch, whose former records it releases. q is nil for a queue
// that is not known.
//
// The error is for what has no status: a file that cannot be read, a fault on a mapping (a
// *message.DamageError), a damaged record in a Strict reader, a context that ended. The
// batch then has no records.
func (r *Reader) Get(ctx context.Context, q Queue, req *Request, b *Batch) (err error) {
	b.reset()
	// Guarded here and not through Guard: a closure would move the locals to the heap.
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			defer b.Release() // afterwards: what is not mapped any more has no name
			err = mapfile.FaultError(p)
		}
	}()
	if err := r.get(ctx, q, req, b); err != nil {
		b.Release()
		return fmt.Errorf("get %s/%d at %d: %w", req.Topic, req.QueueID, req.Offset, err)
	}
	return nil
}

func (r *Reader) get(ctx context.Context, q Queue, req *Request, b *Batch) error {
	// The log's end is taken before the queue's, as in RocketMQ: every entry then lies
	// below it or is newer.
	_, logMax := r.Log.Bounds()
	threshold := r.Threshold()
	if req.Topic == "" || req.QueueID < 0 {
		b.Status, b.NextOffset, b.Hint = NoMatchedLogicQueue, req.Offset, NoHint
		b.Decision = Decision{Policy: r.Policy, Threshold: threshold}
		return nil
	}
	if q != nil {
		var err error
		if b.MinOffset, b.MaxOffset, err = q.Bounds(ctx); err != nil {
			return err
		}
	}
	var done bool
	b.Status, b.NextOffset, b.Hint, done = boundary(r.Role(), req.Offset, b.MinOffset, b.MaxOffset)
	if done {
		if b.Status == OffsetTooSmall {
			b.Lost = b.MinOffset - max(req.Offset, 0)
		}
		b.Decision = Decision{Policy: r.Policy, Threshold: threshold}
		return nil
	}
	s := scan{Reader: r, q: q, b: b, group: req.Group, topic: req.Topic, queueID: req.QueueID, filter: req.Filter, logMax: logMax, threshold: threshold, fresh: r.Log.Fresh()}
	s.want, s.wantBytes = req.wanted()
	err := s.run(ctx, req.Offset)
	if len(b.records) > 0 {
		b.Status = Found
	}
	if err != nil && errors.Is(err, ErrUnavailable) && len(b.records) == 0 {
		b.Status, b.NextOffset, err = OffsetFoundNull, req.Offset, nil
	}
	if err != nil {
		return err
	}
	s.decide()
	return nil
}
