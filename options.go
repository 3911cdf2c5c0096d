package warmlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"time"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/pagecache"
)

// Options are what a store is opened with. The zero value of a field means its default.
type Options struct {
	// ReadOnly opens a store that somebody else writes, or wrote: nothing on disk is
	// changed and no lock is taken.
	ReadOnly bool

	// SegmentSize and QueueFileSize, in bytes; 0: found from the files. Other sizes than
	// the files' are refused.
	SegmentSize   int64
	QueueFileSize int64

	// LockWait is how long Open waits for another writer of the store to go; 0: it does not wait,
	// and the error is an [ErrInUse] that names the process. Progress tells that it waits.
	LockWait time.Duration

	// Role decides how offsets that the store has no message for are answered, and who
	// appends: see [Store.SetRole].
	Role getmessage.Role
	// Limits bound the batches of Get.
	Limits getmessage.Limits
	// Policy decides whether a consumer is told to pull from the slave; by default
	// [getmessage.Hybrid].
	Policy getmessage.Policy
	// Residency names the ways in which the kernel may be asked what is in memory; 0: all.
	Residency pagecache.Method
	// Lanes bound the reads of what is not in memory: how many at once, how many wait, and their
	// rates. See [Store.Lanes].
	Lanes getmessage.LaneOptions
	// PinTail is how many of the log's last bytes stay in memory, once they were read, however much
	// else needs it (mlock2(2), on Linux). It is within what the process may lock (RLIMIT_MEMLOCK);
	// beyond, nothing is, and [Store.Notes] says so. 0: nothing. A store for reading pins nothing.
	PinTail int64
	// Memory says which distance from the end of the log counts as in memory; by default
	// 40 % of what this process may use.
	Memory pagecache.ThresholdOptions

	// Durability of appends: Written, the default, or Flushed. A store is written in one of
	// two ways for as long as it is open, so that in one that is Flushed every append is.
	Durability Durability
	// MaxUnsynced is how many bytes of the log may wait for the disk: beyond, appends are refused
	// at once ([ErrBusy]) instead of being held up by the kernel, and syncs begin at a quarter of
	// it. 0: no limit. A single append may exceed it.
	MaxUnsynced int64
	// RecordCRC ends every record with a checksum over all of it, as a broker does with
	// enabledAppendPropCRC. Else the body alone has one.
	RecordCRC bool
	// StoreHost is the address that records name as theirs; by default 127.0.0.1:10911.
	StoreHost netip.AddrPort
	// Clock is the time of day; nil: time.Now. Store times never fall, whatever it does.
	Clock func() time.Time
	// MaxBody is the largest body that is accepted, in bytes; 0: 4 MiB, RocketMQ's limit.
	MaxBody int
	// Index is the layout of new index files; zero: that of the files which are there, or
	// RocketMQ's.
	Index keyindex.Layout
	// Visible is called when messages became visible in a queue, with the offset behind the
	// last one. It is called from the goroutine that makes them visible and must not block.
	Visible func(topic string, queueID int32, end int64)

	// Deleted is called for each queue that was deleted, from the goroutine that did so: see
	// [Store.Deletions].
	Deleted func(Deletion)
	// Failed is called once, with why the store takes no more messages until it is opened
	// again, from the goroutine that met the fault. It must not call the store.
	Failed func(error)

	// Retention says what is deleted; by default nothing is.
	Retention Retention
	// Expiring is called before a segment is deleted, and Expired when it was, from the goroutine
	// that does so. They say which groups lose which messages.
	Expiring, Expired func(Expired)

	// Strict makes a damaged record an error of Get. Else Get passes over it and lists it
	// in the batch.
	Strict bool
	// RefuseHoles makes a missing middle segment an error of Open. Else the log begins
	// above the hole.
	RefuseHoles bool
	// CheckBytes is how much of the log's end Open reads at least, in whole segments, to
	// prove that the queues have every message in it; 0: 1 GiB, or only what came since the
	// last checkpoint where this engine wrote the store; below 0: all of it. What
	// lies before is believed, unless the queue's files are damaged; an entry that does
	// not name its record is found and healed when it is read. More is slower to open.
	CheckBytes int64

	// Closing is called by Close before each step that can take long, with what it then waits
	// for, in a few words.
	Closing func(step string)
	// Progress is called from Open now and then, from its goroutine.
	Progress func(Progress)
	// Logger gets what an operator may want to know; nil: nothing is logged.
	Logger *slog.Logger
}

// Progress is how far Open has come.
type Progress struct {
	Phase string // what is done, in a few words
	Done  int64  // bytes of the log
	Total int64  // likewise; an estimate
}

const (
	defaultCheckBytes  = 1 << 30
	defaultMaxBody     = 4 << 20
	defaultSegmentSize = 1 << 30
	leastSegmentSize   = 4096
)

// withDefaults returns a copy with the defaults filled in, or everything that is wrong.
func (o Options) withDefaults() (Options, error) {
	var faults []error
	var err error
	if o.Limits, err = o.Limits.WithDefaults(); err != nil {
		faults = append(faults, err)
	}
	if o.SegmentSize < 0 {
		faults = append(faults, fmt.Errorf("segment size is %d", o.SegmentSize))
	}
	if o.QueueFileSize < 0 || o.QueueFileSize%consumequeue.EntrySize != 0 {
		faults = append(faults, fmt.Errorf("queue file size is %d, not a multiple of %d", o.QueueFileSize, consumequeue.EntrySize))
	}
	if o.Role != getmessage.Master && o.Role != getmessage.Slave {
		faults = append(faults, fmt.Errorf("role is %d", o.Role))
	}
	if o.PinTail < 0 {
		faults = append(faults, fmt.Errorf("bytes to pin are %d", o.PinTail))
	}
	if o.Policy > getmessage.Distance {
		faults = append(faults, fmt.Errorf("policy is %d", o.Policy))
	}
	if err := o.Memory.Validate(); err != nil {
		faults = append(faults, err)
	}
	faults = append(faults, o.Retention.faults()...)
	if o.Retention.Interval == 0 {
		o.Retention.Interval = retentionInterval
	}
	if o.Durability > Flushed {
		faults = append(faults, fmt.Errorf("durability is %d", o.Durability))
	}
	if o.Durability == StoreDefault {
		o.Durability = Written
	}
	if o.LockWait < 0 {
		faults = append(faults, fmt.Errorf("lock wait is %v", o.LockWait))
	}
	if o.MaxUnsynced < 0 {
		faults = append(faults, fmt.Errorf("most unsynced bytes are %d", o.MaxUnsynced))
	}
	if o.MaxBody < 0 {
		faults = append(faults, fmt.Errorf("largest body is %d", o.MaxBody))
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if !o.StoreHost.IsValid() {
		o.StoreHost = netip.MustParseAddrPort("127.0.0.1:10911")
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if !o.ReadOnly && o.SegmentSize != 0 && (o.SegmentSize > math.MaxInt32 || o.SegmentSize < leastSegmentSize) {
		faults = append(faults, fmt.Errorf("segment size is %d, not between %d and %d", o.SegmentSize, leastSegmentSize, math.MaxInt32))
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	if o.Deleted == nil {
		o.Deleted = func(Deletion) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, errors.Join(faults...)
}

// Open opens the store in a directory. See the package comment for what that does.
func Open(dir string, o Options) (*Store, error) { return OpenContext(context.Background(), dir, o) }

// OpenContext is [Open] that gives up when ctx ends.
func OpenContext(ctx context.Context, dir string, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	if !o.ReadOnly {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
	}
	if st, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	} else if !st.IsDir() {
		return nil, fmt.Errorf("open store: %s is no directory", dir)
	}
	s, err := open(ctx, dir, o)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, mapfile.Explained(err))
	}
	return s, nil
}
