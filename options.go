package warmlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
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

	// Role decides how offsets that the store has no message for are answered.
	Role getmessage.Role
	// Limits bound the batches of Get.
	Limits getmessage.Limits
	// Memory says which distance from the end of the log counts as in memory; by default
	// 40 % of what this process may use.
	Memory pagecache.ThresholdOptions

	// Strict makes a damaged record an error of Get. Else Get passes over it and lists it
	// in the batch.
	Strict bool
	// RefuseHoles makes a missing middle segment an error of Open. Else the log begins
	// above the hole.
	RefuseHoles bool
	// CheckBytes is how much of the log's end Open reads at least, in whole segments, to
	// prove that the queues have every message in it; 0: 1 GiB, below 0: all of it. What
	// lies before is believed, unless the queue's files are damaged; an entry that does
	// not name its record is found and healed when it is read. More is slower to open.
	CheckBytes int64

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

const defaultCheckBytes = 1 << 30

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
	if err := o.Memory.Validate(); err != nil {
		faults = append(faults, err)
	}
	if o.CheckBytes == 0 {
		o.CheckBytes = defaultCheckBytes
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
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
		return nil, fmt.Errorf("open %s for writing: %w", dir, ErrUnsupported)
	}
	if st, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	} else if !st.IsDir() {
		return nil, fmt.Errorf("open store: %s is no directory", dir)
	}
	s, err := openReadOnly(ctx, dir, o)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return s, nil
}
