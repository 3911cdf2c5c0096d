package warmlog

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/pagecache"
)

// ResidencyOptions say how the memory of a store is looked at. The zero value of a field means
// its default.
type ResidencyOptions struct {
	// Memory says which distance from the end of the log RocketMQ's rule takes for in memory,
	// as in [Options].
	Memory pagecache.ThresholdOptions
	// Tail is how many bytes of the log's end are [ResidencyReport].Tail; 0: 64 MiB.
	Tail int64
	// Methods are those by which the kernel may be asked; 0: all.
	Methods pagecache.Method
}

const defaultResidencyTail = 64 << 20

// ResidencyReport is which parts of a store's segments and queue files were in memory, by the
// kernel, at one moment. What comes and goes while it is made may be told either way.
type ResidencyReport struct {
	Dir       string
	Memory    pagecache.Memory // of the host, and what this process may use of it
	Threshold int64            // bytes behind the end that RocketMQ's rule takes for in memory
	// Probers are those that were asked, the oldest segment's first.
	Probers  []ResidencyProber
	Segments []SegmentResidency // by offset
	Queues   []QueueResidency   // by topic, queue and offset
	// Begin and End bound the log, in physical offsets. End is where the file system says that
	// data end, in the last segment that has any. The last record may end before: zeros that a
	// writer lays ahead of its records are data, too.
	Begin, End int64
	// Tail is the last part of the log, Within what lies within the threshold.
	Tail, Within LogResidency
	// WarmFrom is the physical offset from which on all of the log is in memory: End if its
	// last byte is not, or nobody knows.
	WarmFrom int64
	// Pulls are what pulls would be told: from the beginning, the middle and the tail of the
	// log. There are none in an empty log.
	Pulls []PullOutlook
	// Notes are what is odd: links, foreign files, what was deleted meanwhile, what could not be
	// looked at.
	Notes []string
	// Failed counts the files and directories that could not be looked at; each has a note.
	Failed int
}

// ResidencyProber is who was asked about the files of one file system, owner and mode, on which
// it depends who is told the truth.
type ResidencyProber struct {
	File   string // the first of them
	Prober *pagecache.Prober
}

// FileResidency is what is in memory of one file. Sizes are bytes.
type FileResidency struct {
	File  string
	Bytes int64 // of the file
	// Written is the byte behind the last one that was ever written, as far as the file system
	// says: Bytes where it does not.
	Written int64
	// Known says whether the kernel gave an answer that can be believed; Why, why not.
	Known bool
	Why   string
	// Resident is how many bytes of the file are in memory, in whole pages but at its end.
	// It is 0, and means nothing, where that is not known.
	Resident int64
	// Runs are the parts that are in memory: half open [from, to), ascending, not touching one
	// another. They are physical offsets in a segment, bytes of the file in a queue file.
	Runs [][2]int64
}

// SegmentResidency is what is in memory of a segment.
type SegmentResidency struct {
	FileResidency
	From, To int64 // physical offsets of its first byte, and behind its last
}

// QueueResidency is what is in memory of a queue file.
type QueueResidency struct {
	FileResidency
	Topic    string
	ID       int32
	From, To int64 // queue offsets of its first place, and behind its last, used or not
}

// Residency looks which parts of the store in a directory are in memory, and changes neither that
// nor the store, which may be in use: it reads no byte of a file, and makes none that has a name.
// It opens each segment and queue file for a moment. To find out what can be believed it writes 16
// pages to a file without a name beside them, which goes away at once: where that cannot be made
// (the directory may not be written, the file system has no such files, not Linux) nothing is
// known.
//
// What cannot be looked at is in the report. The errors are those of the options, of a directory
// that is not there, of memory that cannot be read ([pagecache.ReadMemory]), and of ctx.
func Residency(ctx context.Context, dir string, o ResidencyOptions) (*ResidencyReport, error) {
	w, err := NewResidencyWatch(dir, o)
	if err != nil {
		return nil, err
	}
	return w.Look(ctx)
}

// ResidencyWatch looks at the memory of one store again and again, and finds out only once what
// can be believed. It holds nothing open. It is for one goroutine at a time.
type ResidencyWatch struct {
	dir       string
	options   ResidencyOptions
	threshold *pagecache.Threshold
	probers   map[proberKey]ResidencyProber
	order     []proberKey // in which they were made
}

// NewResidencyWatch begins to watch the store in a directory. The errors are those of
// [Residency], but of ctx.
func NewResidencyWatch(dir string, o ResidencyOptions) (*ResidencyWatch, error) {
	if o.Tail < 0 {
		return nil, fmt.Errorf("residency of %s: tail is %d bytes", dir, o.Tail)
	}
	if o.Tail == 0 {
		o.Tail = defaultResidencyTail
	}
	threshold, err := pagecache.NewThreshold(o.Memory)
	if err != nil {
		return nil, fmt.Errorf("residency of %s: %w", dir, err)
	}
	w := &ResidencyWatch{dir: dir, options: o, threshold: threshold, probers: map[proberKey]ResidencyProber{}}
	return w, w.present()
}

// present says what is wrong with the directory.
func (w *ResidencyWatch) present() error {
	st, err := os.Stat(w.dir)
	if err == nil && !st.IsDir() {
		err = errors.New("no directory")
	}
	if err != nil {
		return fmt.Errorf("residency of %s: %w", w.dir, err)
	}
	return nil
}

// Look is [Residency] of the watched store as it is now.
func (w *ResidencyWatch) Look(ctx context.Context) (*ResidencyReport, error) {
	if err := w.present(); err != nil {
		return nil, err
	}
	l := look{ResidencyWatch: w, ctx: ctx, paths: layout.Store(w.dir), report: &ResidencyReport{Dir: w.dir}}
	if err := w.threshold.Refresh(); err != nil {
		l.note("memory is that of an earlier look: %v", err)
	}
	r := l.report
	r.Memory, r.Threshold = w.threshold.Memory(), w.threshold.Bytes()
	if err := l.segments(); err != nil {
		return nil, err
	}
	if err := l.queues(); err != nil {
		return nil, err
	}
	for _, key := range w.order {
		r.Probers = append(r.Probers, w.probers[key])
	}
	r.outline(w.options.Tail)
	return r, nil
}
