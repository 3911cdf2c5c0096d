package getmessage

import (
	"errors"
	"fmt"
)

// Limits bound a batch, whatever the consumer asks for. Data that is far behind the end of
// the log is taken for data on disk and has its own, smaller limits. The first message that
// matches is always given, whatever its size.
type Limits struct {
	MemoryBytes    int64 // of records near the end of the log; 0: 262144
	MemoryMessages int   // likewise; 0: 32
	DiskBytes      int64 // of records that may have to be read from disk; 0: 65536
	DiskMessages   int   // likewise; 0: 8
	// FilterBytes bounds the queue entries, in bytes of 20 each, that one pull looks at
	// when its filter rejects messages; 0: 16000. A pull for more messages looks at more.
	FilterBytes int64
}

// Source: MessageStoreConfig.
const (
	defaultMemoryBytes    = 256 << 10
	defaultMemoryMessages = 32
	defaultDiskBytes      = 64 << 10
	defaultDiskMessages   = 8
	defaultFilterBytes    = 16000

	defaultMessages = 32        // of a request that does not say
	maxPullBytes    = 128 << 20 // of any request
	minPullBytes    = 100
)

// WithDefaults returns the limits with the defaults for what is 0, or an error that names
// every limit that is negative.
func (l Limits) WithDefaults() (Limits, error) {
	var faults []error
	bytes := func(name string, v *int64, def int64) {
		switch {
		case *v == 0:
			*v = def
		case *v < 0:
			faults = append(faults, fmt.Errorf("limit %s is %d", name, *v))
		}
	}
	messages := func(name string, v *int, def int64) {
		n := int64(*v)
		bytes(name, &n, def)
		*v = int(n)
	}
	bytes("MemoryBytes", &l.MemoryBytes, defaultMemoryBytes)
	messages("MemoryMessages", &l.MemoryMessages, defaultMemoryMessages)
	bytes("DiskBytes", &l.DiskBytes, defaultDiskBytes)
	messages("DiskMessages", &l.DiskMessages, defaultDiskMessages)
	bytes("FilterBytes", &l.FilterBytes, defaultFilterBytes)
	return l, errors.Join(faults...)
}

// full reports whether one more record of size bytes would be too much for a batch of
// count records and bytes bytes. Source: DefaultMessageStore.isTheBatchFull.
func (l *Limits) full(count int, bytes, size int64, want int, wantBytes int64, inMemory bool) bool {
	switch {
	case count == 0:
		return false
	case count+1 > want, bytes+size > wantBytes:
		return true
	case inMemory:
		return bytes+size > l.MemoryBytes || count+1 > l.MemoryMessages
	default:
		return bytes+size > l.DiskBytes || count+1 > l.DiskMessages
	}
}
