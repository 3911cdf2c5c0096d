package consumequeue

import (
	"bytes"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/message"
)

// Log is what a queue has to know of the log.
type Log interface {
	// Min and Max are the physical offsets of the oldest byte and behind the newest.
	Min() int64
	Max() int64
	// Scanned is the physical offset from which on every record was given to Merge.
	Scanned() int64
	// Holds reports whether the record of e is message off of a queue.
	Holds(topic string, id int32, off int64, e Entry) bool
	// Rescan reads the log from one physical offset, where a record begins, to another and
	// calls found for each message of a queue. lost reports about a physical offset between
	// them whether no sound record lies there.
	Rescan(ctx context.Context, topic string, id int32, from, to int64, found func(off int64, e Entry)) (lost func(int64) bool, err error)
	// Lost reports whether damage was found at a physical offset when the log was scanned.
	Lost(off int64) bool
}

// Queue is one queue of a topic. Make it with [NewQueue].
type Queue struct {
	topic    string
	id       int32
	dir      string
	fileSize int64
	cache    *mapfile.Cache
	log      Log

	state atomic.Pointer[state]
	// minMax is what Bounds answers while the log's minimum is logMin. Nil before the first
	// use. A reader that loads it sees every entry below max in the state it loads afterwards.
	minMax atomic.Pointer[bounds]

	exists atomic.Bool // see Exists

	// checked is the offset from which on every entry was merged: see Checked.
	checked atomic.Int64

	mu sync.Mutex // serialises those who replace state or minMax
	// filled are the files for which the log was read for what they lack, headFilled the
	// offset below which their head was. Guarded by mu.
	filled     *files
	headFilled int64
	// unflushed says that there are entries that [Queue.Flush] has to write. Guarded by mu.
	unflushed bool
	// expected is where the queue ended, as somebody remembers who cannot see its files.
	// Guarded by mu.
	expected int64
	next     next

	// seenFrom and seenTo are the offsets of the first message that a scan of the log saw,
	// and behind the last one. -1: none. Guarded by mu.
	seenFrom, seenTo int64
}

// bounds is immutable.
type bounds struct {
	min, max int64
	logMin   int64 // physical offset for which min was found
}

// NewQueue makes a queue over a directory, which need not exist. fileSize is a multiple of
// EntrySize. Nothing is read before the first use.
func NewQueue(topic string, id int32, dir string, fileSize int64, cache *mapfile.Cache, log Log) *Queue {
	q := &Queue{topic: topic, id: id, dir: dir, fileSize: fileSize, cache: cache, log: log, seenFrom: -1, seenTo: -1}
	q.checked.Store(math.MaxInt64)
	return q
}

// Topic returns the queue's topic.
func (q *Queue) Topic() string { return q.topic }

// ID returns the queue's number within its topic.
func (q *Queue) ID() int32 { return q.id }

// Exists reports whether the queue has a directory or had a message since it was last cleared.
func (q *Queue) Exists() bool { return q.exists.Load() }

// SetExists says that the queue has a directory.
func (q *Queue) SetExists() {
	if !q.exists.Load() { // a store would take the cache line from readers each time
		q.exists.Store(true)
	}
}

// FileEntries returns the entries of a file. A pull ends where a file ends.
func (q *Queue) FileEntries() int64 { return q.fileSize / EntrySize }

// Checked returns the offset from which on each entry was compared with its record, or made
// from it, since the queue was opened: such a record was decoded and its checksums were
// right. Math.MaxInt64 if none was.
func (q *Queue) Checked() int64 { return q.checked.Load() }

// Close gives the files up. What somebody holds stays valid until released.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if st := q.state.Load(); st != nil {
		st.files.close()
	}
}

// Bounds returns the offset of the first message that is still in the log and the offset
// behind the last one. min = max in a queue without messages; then max is where numbering
// goes on. The first use reads the queue's directory and looks for the ends.
func (q *Queue) Bounds(ctx context.Context) (min, max int64, err error) {
	if b := q.minMax.Load(); b != nil && b.logMin == q.log.Min() {
		return b.min, b.max, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.boundsLocked(ctx)
	if err != nil {
		return 0, 0, err
	}
	return b.min, b.max, nil
}

func (q *Queue) boundsLocked(ctx context.Context) (*bounds, error) {
	logMin := q.log.Min()
	b := q.minMax.Load()
	if b != nil && b.logMin == logMin {
		return b, nil
	}
	if _, err := q.stateLocked(); err != nil {
		return nil, err
	}
	next, whole, err := q.findLocked(ctx, b, logMin)
	if err == nil && !whole {
		if err = q.fillLocked(ctx, next.min); err == nil {
			next, _, err = q.findLocked(ctx, b, logMin)
		}
	}
	if err != nil {
		return nil, err
	}
	q.minMax.Store(&next)
	return &next, nil
}

// findLocked finds the bounds. whole is false where the files lack entries that the log may
// have. known is what the bounds were before, nil at first.
func (q *Queue) findLocked(ctx context.Context, known *bounds, logMin int64) (next bounds, whole bool, err error) {
	next.logMin = logMin
	switch {
	case known != nil:
		next.max = known.max
	case q.seenTo >= 0:
		next.max = q.withLost(q.reader(q.state.Load()), q.seenTo, q.log.Lost)
	default:
		if next.max, err = q.findMax(ctx, q.state.Load(), q.log.Scanned()); err != nil {
			return next, false, err
		}
		if next.max < q.expected { // files were lost, or cut
			_, from := q.soundBelow(q.state.Load(), next.max, q.state.Load().low())
			if next.max, err = q.endFrom(ctx, q.expected, from, q.log.Scanned()); err != nil {
				return next, false, err
			}
		}
	}
	st := q.state.Load()
	r := q.reader(st)
	low := q.lowest(r, next.max, logMin)
	next.min = findMin(r, low, next.max, logMin)
	whole = (st.files == q.filled || !slices.Contains(st.files.slots, nil)) && (next.min <= q.headFilled || wholeHead(r, low, next.min, logMin))
	return next, whole && !r.missing, r.err
}

// stateLocked returns the state; the first use lists the directory.
func (q *Queue) stateLocked() (*state, error) {
	if st := q.state.Load(); st != nil {
		return st, nil
	}
	f, err := listFiles(q.dir, q.fileSize, q.cache)
	if err != nil {
		return nil, err
	}
	st := &state{files: f}
	q.state.Store(st)
	return st, nil
}

// Slice returns encoded entries from an offset within the bounds on: some of those that lie in
// one piece. A file's are mapped where they are known to be in memory, and else read by system
// call. held, if not nil, keeps them valid until it is released. No entries: the queue's files
// have none there; see [Queue.Heal].
func (q *Queue) Slice(off int64) (entries []byte, held interface{ Release() }, err error) {
	end := int64(math.MaxInt64)
	if b := q.minMax.Load(); b != nil {
		end = b.max
	}
	st := q.state.Load()
	if entries, held, err = st.slice(off, end); err != nil && q.again(st, err) {
		return q.Slice(off)
	}
	return entries, held, err
}

func (st *state) slice(off, end int64) (entries []byte, held interface{ Release() }, err error) {
	if run, next := st.runAt(off); run != nil || next >= 0 {
		return st.overlaid(off, run, next)
	}
	return st.files.slice(off, end)
}

// Read returns up to n encoded entries from an offset on, the files' by pread into buf or a
// larger buffer. No entries: as with [Queue.Slice].
func (q *Queue) Read(off, n int64, buf []byte) ([]byte, error) {
	st := q.state.Load()
	run, next := st.runAt(off)
	if run != nil {
		b := run.entries[(off-run.first)*EntrySize:]
		return append(buf[:0], b[:min(int64(len(b)), n*EntrySize)]...), nil
	}
	some := n
	if next >= 0 {
		some = min(n, next-off)
	}
	b, err := st.files.read(off, some, buf)
	if err != nil && q.again(st, err) {
		return q.Read(off, n, buf)
	}
	return b, err
}

// Expect says where the queue ended when its files were whole. It is called before the first
// use.
func (q *Queue) Expect(end int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expected = end
	if end > 0 {
		q.SetExists()
	}
}

// End returns the offset behind the last message, as far as it is known without a look at the
// files.
func (q *Queue) End() (end int64, ok bool) {
	if b := q.minMax.Load(); b != nil {
		return b.max, true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.seenTo >= 0 {
		return q.seenTo, true
	}
	return q.expected, q.expected > 0
}

// Known returns the first offset, at or above off, that a file or memory has a place for;
// math.MaxInt64 if there is none. What lies between is missing.
func (q *Queue) Known(off int64) int64 { return q.state.Load().above(off) }

// Where returns the file and byte where the entry of an offset lies or should lie.
func (q *Queue) Where(off int64) (file string, at int64) {
	return (&files{dir: q.dir, per: q.FileEntries()}).where(off)
}

// Damage makes the error of an entry that is not what the log says.
func (q *Queue) Damage(off int64, err error) *message.DamageError {
	file, at := q.Where(off)
	return &message.DamageError{File: file, Offset: at, Err: err}
}

// FileDamage returns which files of the queue were left out when it was first used.
func (q *Queue) FileDamage() []*message.DamageError {
	if st := q.state.Load(); st != nil {
		return st.files.damage
	}
	return nil
}

// Merge takes consecutive entries that a scan of the log saw, the first of them for offset
// off. Where the files have the same, nothing is kept; else they overlay the files. A
// reader sees new messages when Merge has returned.
func (q *Queue) Merge(off int64, entries []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	st, err := q.stateLocked()
	if err != nil {
		return err
	}
	q.SetExists()
	end := off + int64(len(entries)/EntrySize)
	if off != q.seenTo {
		// Behind a gap, or the first: what lies before was not seen.
		q.checked.Store(off)
	}
	q.seenTo = max(q.seenTo, end)
	if q.seenFrom < 0 || off < q.seenFrom {
		q.seenFrom = off
	}
	var buf []byte
	for at := off; at < end; {
		rest := entries[(at-off)*EntrySize:]
		run, next := st.runAt(at)
		var have []byte
		if run != nil {
			have = run.entries[(at-run.first)*EntrySize:]
		} else {
			n := end - at
			if next >= 0 {
				n = min(n, next-at)
			}
			if buf, err = st.files.read(at, n, buf); err != nil {
				return err
			}
			have = buf
		}
		same := samePrefix(rest, have)
		if same == 0 {
			// Take what differs up to where they agree again.
			n := int64(1)
			for i := EntrySize; i+EntrySize <= len(rest) && (i+EntrySize > len(have) || !bytes.Equal(rest[i:i+EntrySize], have[i:i+EntrySize])); i += EntrySize {
				n++
			}
			q.layLocked(at, rest[:n*EntrySize])
			st = q.state.Load()
			same = n
		}
		at += same
	}
	if b := q.minMax.Load(); b != nil {
		if off < b.min || off == b.max {
			// Below the minimum: found again. At an empty queue's end: perhaps its first message.
			defer func() { q.recountLocked(b, end) }()
		} else if end > b.max {
			q.minMax.Store(&bounds{b.min, end, b.logMin})
		}
	}
	return nil
}

// Restart begins another life of the queue: its numbering goes on from off, and what was
// merged before is of the life that ended.
func (q *Queue) Restart(off int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if st := q.state.Load(); st != nil {
		q.state.Store(&state{files: st.files})
	}
	q.seenFrom, q.seenTo = off, off
	q.checked.Store(off)
	q.minMax.Store(nil)
}

// recountLocked publishes the bounds after entries came in at an end.
func (q *Queue) recountLocked(b *bounds, end int64) {
	next := bounds{max: max(b.max, end), logMin: b.logMin, min: b.min}
	r := q.reader(q.state.Load())
	next.min = findMin(r, q.lowest(r, next.max, b.logMin), next.max, b.logMin)
	q.minMax.Store(&next)
}

// samePrefix returns how many entries at the head of a and b are equal.
func samePrefix(a, b []byte) int64 {
	n := 0
	for n+EntrySize <= len(a) && n+EntrySize <= len(b) && bytes.Equal(a[n:n+EntrySize], b[n:n+EntrySize]) {
		n += EntrySize
	}
	return int64(n / EntrySize)
}

// layLocked lays entries over the queue.
func (q *Queue) layLocked(off int64, entries []byte) {
	q.state.Store(q.state.Load().with(off, entries))
}
