package keyindex

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync/atomic"

	"github.com/warmlog/warmlog/message"
)

// DefaultMaxBuffered is how many keys a [Writer] holds in memory that is told nothing else.
const DefaultMaxBuffered = 64 << 10

// WriterOptions say how an index is written. The zero value is right for a store with
// RocketMQ's default settings, and for one that has files already.
type WriterOptions struct {
	// Layout is that of the files. Zero means that of the newest one there is, and 5,000,000
	// slots and 20,000,000 entries in an empty directory. A last file of another size is left
	// as it is, and a new one begun.
	Layout Layout

	// MaxBuffered is after how many keys Add calls Flush; 0 means DefaultMaxBuffered. A key
	// takes some 56 bytes of memory, half of them for the time of a flush but kept, and beside
	// them a block of 256 KiB: 4 MiB by default. The slot table is read and written where the
	// keys need it and not held.
	MaxBuffered int

	// PastDamage lets OpenWriter begin a new file after a last one that is damaged, which
	// then stays as it is. Otherwise it refuses.
	PastDamage bool
}

// Writer appends the keys of records to the files of an index, byte for byte as RocketMQ
// does. Readers may use the directory at the same time. It is used by one goroutine at a
// time, but FilledTime and End may be called from anywhere. There is one Writer for a
// directory.
//
// What Flush has written survives the end of the process at any moment, in the middle of a
// flush as well; what Sync has written survives the loss of power. After such a loss, what
// was written since the last Sync is to be taken for damaged: see [Writer.Truncate].
type Writer struct {
	dir    string
	opt    WriterOptions
	layout Layout
	index  *Index // looks at the files with the wanted number of slots,
	other  *Index // and with that of their own

	cur   *os.File // is being filled; nil: the next key makes a file
	path  string   // of cur
	head  Header   // of cur as it is stored; without cur, of the file before
	torn  bool     // a flush failed that may have stored slots of entries that are not counted
	dirty bool     // cur was written to since the last Sync

	full   []fullFile // in order, until the next Sync
	newDir bool       // names changed since the last Sync

	buf   []pending
	last  int64   // records up to here were given or are indexed: they are skipped
	given int64   // offset of the last record that was given, -1 for none
	at    int64   // offset of the last record in the files as they were found
	half  []int32 // hashes that it has there
	err   error   // nothing goes on after it

	filledTime, end atomic.Int64

	hashes []int32  // of one record
	order  []uint64 // of a batch: slot<<32 | place in buf, ascending
	image  []byte   // of a batch: its entries
	block  []byte   // a piece of the slot table

	hook func(n int) (int, error) // for tests: before n bytes are stored or, with 0, a name is changed or a file synced
}

// pending is a key that is not written yet.
type pending struct {
	offset, store int64
	hash          int32
}

// fullFile is a file that gets no more keys and is not synced yet. time is 0 if it was given up.
type fullFile struct {
	f    *os.File
	path string
	time int64
}

var errWriterClosed = errors.New("keyindex: the writer is closed")

// OpenWriter prepares the index of a directory for records from the physical offset end on.
// The directory, and a file in it, is made with the first key. Nobody checks that the index
// got as far as end: that may not be above what [Writer.End] said at a time that the store
// has survived, or keys are missing without a trace.
//
// Entries that are there already stay, also those of records at end and above; when their
// records are given they are skipped, or of the last one the keys that are there. If their
// records are not in the log any more, call Truncate first.
//
// What a killed writer left half done in the last file is undone, and the files that are
// full are synced, for FilledTime. A last file that is damaged makes an error that is a
// [message.ErrDamaged], [ErrHeader] as a rule, and names it; see [WriterOptions.PastDamage].
// Other damaged files are left to readers.
func OpenWriter(dir string, end int64, o WriterOptions) (*Writer, error) {
	l := o.Layout
	if end < 0 || o.MaxBuffered < 0 || l != (Layout{}) && (l.Slots < 1 || l.Entries < 2 || l.Size() > math.MaxInt32) {
		return nil, fmt.Errorf("keyindex: bad options of a writer: from %d, %+v", end, o)
	}
	if o.MaxBuffered == 0 {
		o.MaxBuffered = DefaultMaxBuffered
	}
	w := &Writer{dir: dir, opt: o, layout: l, last: -1, given: -1, block: make([]byte, maxBlock)}
	var err error
	if w.index, err = Open(dir, Options{Slots: l.Slots}); err != nil {
		return nil, err
	}
	if w.other, err = Open(dir, Options{}); err != nil {
		return nil, err
	}
	if err = w.sweep(); err == nil {
		err = w.load(end)
	}
	if err != nil {
		w.closeFiles()
		return nil, err
	}
	return w, nil
}

// Add takes the keys of one record; rollback records have none. Records come in ascending
// order; those that are indexed already are skipped. It calls Flush when enough keys are
// buffered, and makes no system call otherwise. After an error the record was not taken.
func (w *Writer) Add(v *message.View) error {
	if w.err != nil {
		return w.err
	}
	at := v.PhysicalOffset()
	if at <= w.last {
		w.given = max(w.given, at)
		return nil
	}
	if len(w.buf) >= w.opt.MaxBuffered {
		if err := w.Flush(); err != nil {
			return err
		}
	}
	w.hashes = KeyHashes(w.hashes[:0], v, false)
	store := v.StoreTimestamp()
	for _, h := range w.hashes {
		if at == w.at && w.indexed(h) {
			continue
		}
		w.buf = append(w.buf, pending{at, store, h})
	}
	w.last, w.given = at, at
	return nil
}

// indexed reports whether the record that the files end in has an entry with that hash,
// each entry counting once. A kill leaves the first of its keys, so that h is the first of
// half; but the same keys may stand there twice, or with a tag, if RocketMQ put them.
func (w *Writer) indexed(h int32) bool {
	switch i := slices.Index(w.half, h); i {
	case -1:
		return false
	case 0:
		w.half = w.half[1:]
	default:
		w.half = slices.Delete(w.half, i, i+1)
	}
	return true
}

// FilledTime returns the end timestamp of the last file that is full and synced, 0 before
// the first: the checkpoint's indexMsgTimestamp.
func (w *Writer) FilledTime() int64 { return w.filledTime.Load() }

// End returns the physical offset of the last record that is done: that and all before it
// were given, and their keys, if they have any, are written. Records that were found
// indexed count. ok is false while nothing is known.
func (w *Writer) End() (offset int64, ok bool) {
	offset = w.end.Load()
	return offset, offset >= 0
}

// Close calls Sync and closes the files, also after an error.
func (w *Writer) Close() error {
	if w.err == errWriterClosed {
		return nil
	}
	err := w.Sync()
	w.closeFiles()
	w.err = errWriterClosed
	return err
}
