package keyindex

import (
	"fmt"
	"os"

	"github.com/warmlog/warmlog/message"
)

// tally goes once through the entries of one file, from the oldest to the newest, and
// keeps what the slots must hold at each moment.
type tally struct {
	checked
	file *file
	fd   *os.File
	keys int32 // entries 1 to keys are checked
	next int32 // the entry to be checked next

	heads  []int32 // what the slots held before that entry was put
	used   int32   // how many of them are not 0
	last   int64   // offset of the last entry whose offset could be right
	stored [2]int64
	buf    []byte
	from   int64 // where buf stands in the file
	damage func(offset int64, kind *message.Kind, format string, args ...any)

	reports int
}

// peeked is an entry with what is needed to judge it.
type peeked struct {
	Entry
	n      int32
	at     int64 // where it stands in the file
	then   Entry // the entry after it; the zero Entry after the last
	astray bool  // its offset does not fit between its neighbours'
	limit  int64 // if so: an offset that its record does not exceed
}

func newTally(f *checked) (*tally, error) {
	fd, _, err := openFile(f.Path)
	if err != nil {
		return nil, err
	}
	open := &file{path: f.Path, at: fd, layout: f.Layout}
	if h, err := open.header(); err != nil || h.BeginOffset != f.Header.BeginOffset && f.Header.Keys() > 0 || h.Count < f.Header.Count {
		fd.Close()
		if err == nil {
			err = errReplaced
		}
		return nil, err
	}
	return &tally{
		checked: *f, file: open, fd: fd,
		keys: f.Header.Keys(), next: 1,
		heads: make([]int32, f.Layout.Slots),
		last:  f.Header.BeginOffset,
		buf:   make([]byte, 0, maxBlock),
	}, nil
}

// peek returns the next entry without going on.
func (t *tally) peek() (p peeked, err error) {
	p.n, p.at = t.next, t.Layout.EntryAt(t.next)
	if p.Entry, err = t.entry(t.next); err != nil {
		return p, err
	}
	p.limit = t.Header.EndOffset
	if t.next == t.keys { // it may be ahead of a header that was just being written
		p.astray = p.Offset < t.last
		return p, nil
	}
	if p.then, err = t.entry(t.next + 1); err != nil {
		return p, err
	}
	if p.then.Offset >= t.last && p.then.Offset <= p.limit {
		p.limit = p.then.Offset
	}
	p.astray = p.Offset < t.last || p.Offset > p.limit
	return p, nil
}

// entry reads upwards, a block at a time.
func (t *tally) entry(n int32) (Entry, error) {
	at := t.Layout.EntryAt(n)
	if at < t.from || at+EntrySize > t.from+int64(len(t.buf)) {
		end := t.Layout.EntryAt(t.keys + 1)
		t.buf = t.buf[:min(int64(cap(t.buf)), end-at)]
		if t.from = at; t.file.read(t.buf, at) != nil {
			t.buf = t.buf[:0]
			return t.file.entry(n) // the file was cut: as far as it goes
		}
	}
	return ParseEntry(t.buf[at-t.from:]), nil
}

// links reports whether the entry's link fits the chain of a hash.
func (t *tally) links(p peeked, hash int32) bool {
	return hash >= 0 && t.heads[hash%t.Layout.Slots] == p.Prev
}

// consume goes on to the next entry. hash is the one whose chain the entry is in.
func (t *tally) consume(p peeked, hash int32) {
	t.next++
	if !p.astray {
		t.last = p.Offset
	}
	if hash < 0 {
		t.damage(p.at, ErrChain, "entry %d has hash %d", p.n, hash)
		return
	}
	head := &t.heads[hash%t.Layout.Slots]
	if !t.links(p, hash) {
		t.damage(p.at+16, ErrChain, "entry %d links to %d, the newest was %d", p.n, p.Prev, *head)
	}
	if *head == 0 {
		t.used++
	}
	*head = p.n
}

// times compares an entry that was just consumed, and the header where it says the same,
// with the store time of the record.
func (t *tally) times(p peeked, store int64) (*message.Kind, int64, string) {
	h := &t.Header
	t.stored = [2]int64{t.stored[1], store}
	if p.n == 1 {
		// Computed against the end of the file before, if that one is known.
		if p.Seconds < 0 || t.meets && p.Seconds != Seconds(t.before.EndTimestamp, store) {
			return ErrTime, p.at + 12, fmt.Sprintf("entry 1 says %d s", p.Seconds)
		}
		if h.BeginTimestamp != store {
			return ErrHeader, 0, fmt.Sprintf("begin timestamp %d, the record's is %d", h.BeginTimestamp, store)
		}
	} else if s := Seconds(h.BeginTimestamp, store); p.Seconds != s {
		return ErrTime, p.at + 12, fmt.Sprintf("entry %d says %d s, the record %d", p.n, p.Seconds, s)
	}
	if p.n != t.keys || h.EndTimestamp == store {
		return nil, 0, ""
	}
	// A writer that was stopped within a put leaves the end time of the entry before.
	before := t.stored[0]
	if p.n == 1 && t.before != nil {
		before = t.before.EndTimestamp
	}
	// Where the end of the file was cut off, it is the one that cutTime makes.
	if h.EndTimestamp != before && h.EndTimestamp != cutTime(h.BeginTimestamp, p.n, p.Entry) {
		return ErrHeader, 8, fmt.Sprintf("end timestamp %d, the record's is %d", h.EndTimestamp, store)
	}
	return nil, 0, ""
}
