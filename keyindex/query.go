package keyindex

import (
	"fmt"
	"math"

	"github.com/warmlog/warmlog/message"
)

// DefaultMax is how many records a query returns that names no limit. RocketMQ's cap is
// the same (maxMsgsNumBatch).
const DefaultMax = 64

// Query asks for the records of a topic that have a key.
type Query struct {
	Topic string // not empty
	// Key is compared byte for byte with the record's UNIQ_KEY and the pieces of its KEYS;
	// not empty. A tag is no key, although RocketMQ 5.4 and later index it like one.
	Key string
	// From and To bound the store time, in ms and inclusive. To 0 means no upper bound.
	// From above To is answered with nothing.
	From, To int64
	// Max is how many records are wanted at most, the newest; 0 means DefaultMax.
	Max int
	// LogMin and LogEnd bound the physical offsets at which records are to be found: the
	// log's minimum and its visible end.
	LogMin, LogEnd int64
}

// settle fills in what zero stands for and refuses what cannot be meant. empty says that
// no record can match.
func (q *Query) settle() (empty bool, err error) {
	switch {
	case q.Topic == "":
		return false, fmt.Errorf("%w: no topic", ErrQuery)
	case q.Key == "":
		return false, fmt.Errorf("%w: no key", ErrQuery)
	case q.Max < 0:
		return false, fmt.Errorf("%w: limit %d", ErrQuery, q.Max)
	case q.LogMin < 0 || q.LogEnd < q.LogMin:
		return false, fmt.Errorf("%w: a log from %d to %d", ErrQuery, q.LogMin, q.LogEnd)
	}
	if q.Max == 0 {
		q.Max = DefaultMax
	}
	if q.To == 0 {
		q.To = math.MaxInt64
	}
	return q.From > q.To || q.LogMin == q.LogEnd || len(q.Key) > message.MaxProperties, nil
}

// Records gives the records that entries name.
type Records interface {
	// Record returns the record that begins at a physical offset; it is valid until the
	// next call. The error wraps [ErrGone] if the log does not hold that offset, and is a
	// [message.ErrDamaged] if no whole record begins there. Any other error ends the query.
	Record(physicalOffset int64) (message.View, error)
}

// Result is the answer to a Query.
type Result struct {
	// Offsets are the physical offsets of the records that were found and compared, in
	// ascending order, each once: the newest Query.Max of them.
	Offsets []int64
	// More says that the index knows older ones.
	More bool
	// Limited says that Options.MaxSteps or Options.MaxReads ended the search early.
	Limited bool
	// SearchedFrom is the physical offset from which the answer is complete as far as the
	// index goes: each matching record at or above it, in a range that is not uncovered,
	// is among Offsets. It is Query.LogMin unless More or Limited.
	SearchedFrom int64
	// Uncovered are the ranges of the log for which the index cannot speak, ascending:
	// they have to be scanned for an answer that is whole. Records in them can be among
	// Offsets nevertheless.
	Uncovered []Range
	// Damaged names the files that contradict themselves or the log, or could not be read,
	// one error for each. Their ranges are uncovered and nothing in Offsets is owed to them.
	Damaged []*message.DamageError
	// Steps is how many entries were walked over, Reads how many records were read, and
	// Gone how many entries named a record that the log does not hold.
	Steps, Reads, Gone int
}

// Matches reports whether a record is an answer, whatever the index knows of it: topic, key
// and store time. A scan of what is uncovered asks this.
func (q *Query) Matches(v *message.View) bool {
	if at := v.StoreTimestamp(); at < q.From || at > q.To && q.To != 0 || string(v.Topic()) != q.Topic {
		return false
	}
	for key := range v.IndexKeys() {
		if string(key) == q.Key {
			return true
		}
	}
	return false
}
