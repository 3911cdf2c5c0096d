package pagecache

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultRatio is RocketMQ's accessMessageInMemoryMaxRatio, in percent.
	DefaultRatio = 40
	// MinRatio and MaxRatio bound the ratio, in percent.
	MinRatio, MaxRatio = 1, 95

	// RefreshInterval is how often to call [Threshold.Refresh], if nothing speaks for
	// another time: a limit changes when an operator changes it.
	RefreshInterval = 10 * time.Second
)

// ThresholdOptions says how much of memory counts as "in memory". The zero value is the
// default.
type ThresholdOptions struct {
	// Ratio is the percentage of [Memory.Limit], 1 to 95; 0 is [DefaultRatio].
	Ratio int
	// Bytes, where it is not 0, is the threshold itself; memory is still read, to be
	// shown, but has no part in it. Ratio must be 0 then.
	Bytes int64
	// HostOnly is that of [MemoryOptions].
	HostOnly bool
}

// Validate returns all that is wrong with the options in one error, nil if nothing is.
func (o ThresholdOptions) Validate() error {
	var errs []error
	if o.Ratio != 0 && (o.Ratio < MinRatio || o.Ratio > MaxRatio) {
		errs = append(errs, fmt.Errorf("ratio of memory is %d %%, must be %d to %d", o.Ratio, MinRatio, MaxRatio))
	}
	if o.Bytes < 0 {
		errs = append(errs, fmt.Errorf("threshold is %d bytes, must not be negative", o.Bytes))
	}
	if o.Bytes != 0 && o.Ratio != 0 {
		errs = append(errs, errors.New("ratio of memory and threshold in bytes are both set"))
	}
	return errors.Join(errs...)
}

// of returns the threshold that the options make of a limit of memory:
//
//	limit × ratio / 100
//
// One of the sources of this formula prints a minus sign in place of the ×; × is right.
func (o ThresholdOptions) of(limit int64) int64 {
	if o.Bytes != 0 {
		return o.Bytes
	}
	ratio := int64(o.Ratio)
	if ratio == 0 {
		ratio = DefaultRatio
	}
	return limit/100*ratio + limit%100*ratio/100 // cannot overflow
}

// Threshold is how many bytes behind the end of the log still count as in memory. It is
// always made of the options and the last reading of memory, never of what it was before.
type Threshold struct {
	options ThresholdOptions
	source  func(MemoryOptions) (Memory, error) // ReadMemory, but in tests

	mu     sync.Mutex // one Refresh at a time, so that an older reading never replaces a newer
	bytes  atomic.Int64
	memory atomic.Pointer[Memory] // the reading that bytes was made of
}

// NewThreshold reads memory and returns its threshold. The errors are those of
// [ThresholdOptions.Validate] and, unless Bytes is set, of [ReadMemory].
func NewThreshold(o ThresholdOptions) (*Threshold, error) { return newThreshold(o, ReadMemory) }

func newThreshold(o ThresholdOptions, source func(MemoryOptions) (Memory, error)) (*Threshold, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &Threshold{options: o, source: source}
	t.bytes.Store(o.Bytes)
	t.memory.Store(&Memory{Used: -1, Cache: -1})
	if err := t.Refresh(); err != nil && o.Bytes == 0 {
		return nil, err
	}
	return t, nil
}

// Bytes returns the threshold in bytes, as of the last Refresh: one atomic load.
func (t *Threshold) Bytes() int64 { return t.bytes.Load() }

// Memory returns the reading of the last Refresh that succeeded. Its RAM is 0 where none
// did, which only explicit bytes allow.
func (t *Threshold) Memory() Memory { return *t.memory.Load() }

// Refresh reads memory again. After an error, which is that of [ReadMemory], the threshold
// and the last reading stand.
func (t *Threshold) Refresh() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	m, err := t.source(MemoryOptions{HostOnly: t.options.HostOnly})
	if err != nil {
		return err
	}
	t.memory.Store(&m)
	t.bytes.Store(t.options.of(m.Limit))
	return nil
}
