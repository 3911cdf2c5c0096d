package keyindex

import (
	"errors"

	"github.com/warmlog/warmlog/message"
)

// ErrQuery is the class of refusals of a query that cannot be meant: no topic, no key, a
// negative limit, an impossible range of the log.
var ErrQuery = errors.New("keyindex: bad query")

// ErrGone is what [Records] wraps when the log holds no bytes at an offset: it lies below
// the log's minimum or above its end. The entry is skipped.
var ErrGone = errors.New("keyindex: record is not in the log")

// What can be wrong with an index file. Each is a [message.ErrDamaged].
var (
	ErrLayout     = message.NewKind("index-layout", "the size of the index file fits no number of slots and entries")
	ErrShort      = message.NewKind("index-short", "the index file ends before its slots and entries do")
	ErrHeader     = message.NewKind("index-header", "the header of the index file does not fit its entries")
	ErrSlot       = message.NewKind("index-slot", "the slot does not hold the newest entry of its chain")
	ErrChain      = message.NewKind("index-chain", "the entry does not link to the previous one of its chain")
	ErrPlace      = message.NewKind("index-place", "the entry names an offset outside its file's range or out of order")
	ErrNoRecord   = message.NewKind("index-no-record", "no record begins where the entry says")
	ErrWrongKey   = message.NewKind("index-wrong-key", "the record that the entry names has no such key")
	ErrMissingKey = message.NewKind("index-missing-key", "a key of a record within the file's range has no entry")
	ErrTime       = message.NewKind("index-time", "the time of the entry is not that of its record")
)
