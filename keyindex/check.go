package keyindex

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/warmlog/warmlog/message"
)

// Summary is what a [Checker] counted. Only Damage says that something is wrong.
type Summary struct {
	Files   int   // files with keys that were gone through
	Records int64 // records of the log that were given
	Entries int64 // entries that were compared with their record
	Repeats int64 // entries that repeat the keys of their record, as a restart of RocketMQ 4.9 leaves them
	Below   int64 // entries of records below the first one given: not checkable
	Lost    int64 // entries of records in a gap of the log: not checkable
	Ahead   int64 // entries of records above the end where recovery cuts the log
	Behind  int64 // keys of records above the last entry: the index has not got there yet
	Outside int64 // keys of records that lie between the files, or where two were cut apart
	Damage  int64 // disagreements, also those beyond what is reported
}

// MaxReports is how many disagreements a Checker reports of one file; further ones are
// only counted.
const MaxReports = 1000

// Checker compares a whole index with a whole log in one pass over both. Its memory is one
// file's slot table and one block. It is used by one goroutine.
type Checker struct {
	report func(*message.DamageError)
	files  []checked
	next   int    // the file to be opened after cur
	cur    *tally // nil before the first and after the last

	gaps []Range // of the log, ascending: see Gap
	cut  int64   // see Cut; 0: not cut

	want    expected
	started bool  // a record was given
	last    int64 // offset of the record given last
	sum     Summary
	err     error
}

// checked is a file that waits for its turn.
type checked struct {
	File
	before *Header // of the file that it follows, nil if none is known
	meets  bool    // that file ends in the record where this one begins
}

// NewChecker starts a check of the index as it is now: what a live writer adds later is
// left alone. report is called for each disagreement, in no particular order, with the file
// and the offset within it. The log that is then given must reach at least to its visible
// end of this moment. Close the checker if it is not finished.
func (x *Index) NewChecker(report func(*message.DamageError)) (*Checker, error) {
	files, _, err := x.Files()
	if err != nil {
		return nil, err
	}
	c := &Checker{report: report}
	var empty []checked
	for _, f := range files {
		var bad *message.DamageError
		if errors.As(f.Err, &bad) {
			c.sum.Damage++
			report(bad)
			continue
		}
		switch {
		case f.Header.Keys() > 0:
			c.files = append(c.files, checked{File: f})
		case f.Layout.Slots > 0:
			empty = append(empty, checked{File: f})
		}
	}
	slices.SortStableFunc(c.files, func(a, b checked) int { return cmp.Compare(a.Header.BeginOffset, b.Header.BeginOffset) })
	for i := 1; i < len(c.files); i++ {
		c.files[i].before = &c.files[i-1].Header
		c.files[i].meets = c.files[i].before.EndOffset == c.files[i].Header.BeginOffset
	}
	c.files = append(c.files, empty...)
	return c, nil
}

// Record gives the next record of the log. Records come in ascending order, from the log's
// minimum to its end, none left out; v is not kept.
func (c *Checker) Record(v *message.View) {
	at := v.PhysicalOffset()
	if c.started && at <= c.last {
		if c.err == nil {
			c.err = fmt.Errorf("keyindex: record at %d was given after the one at %d", at, c.last)
		}
		return
	}
	c.sum.Records++
	c.want.of(v)
	for {
		p, ok := c.peek()
		if !ok || !c.step(p, v, at) {
			c.lacking(p, ok)
			break
		}
	}
	c.started, c.last = true, at
}

// Gap says that no record can be given for a part of the log: what lies there is damaged
// and was named already. Gaps come in ascending order, each before the record behind it.
func (c *Checker) Gap(from, to int64) { c.gaps = append(c.gaps, Range{from, to}) }

// Cut says that recovery ends the log at a physical offset. Entries of records from there on
// are then ahead of the log, and no damage.
func (c *Checker) Cut(end int64) { c.cut = end }

// lost reports whether an offset lies in a gap.
func (c *Checker) lost(off int64) bool {
	return slices.ContainsFunc(c.gaps, func(r Range) bool { return off >= r.From && off < r.To })
}

// step decides about the next entry while the record at an offset is at hand. It reports
// false if the entry belongs to a later record.
func (c *Checker) step(p peeked, v *message.View, at int64) bool {
	switch {
	case p.astray && at <= p.limit && c.want.has(p.Hash):
		// Its offset is wrong, but here a key is wanted that it has.
		c.damage(p.at+4, ErrPlace, "entry %d names %d", p.n, p.Offset)
		c.take(p, v)
	case p.astray && at < p.limit:
		return false
	case p.astray:
		c.damage(p.at+4, ErrPlace, "entry %d names %d", p.n, p.Offset)
		c.cur.consume(p, p.Hash)
	case p.Offset > at:
		return false
	case p.Offset == at:
		c.take(p, v)
	case c.lost(p.Offset):
		c.sum.Lost++
		c.cur.consume(p, p.Hash)
	case !c.started:
		c.sum.Below++
		c.cur.consume(p, p.Hash)
	case p.Offset <= c.last:
		c.damage(p.at+4, ErrPlace, "entry %d names %d, after a record at %d", p.n, p.Offset, c.last)
		c.cur.consume(p, p.Hash)
	default:
		c.damage(p.at+4, ErrNoRecord, "entry %d names %d", p.n, p.Offset)
		c.cur.consume(p, p.Hash)
	}
	return true
}

// take compares an entry with the record that it names.
func (c *Checker) take(p peeked, v *message.View) {
	c.sum.Entries++
	hash := p.Hash
	before := c.want.rounds
	skipped, ok := c.want.take(hash)
	if p.n == 1 && !c.cur.meets {
		c.want.cut = true
	}
	switch {
	case ok:
		c.missing(p, skipped)
	case c.want.replaced(p):
		// Is it the entry's hash that is wrong, or the record's key? The link says whose
		// chain the entry was put into.
		if key := c.want.keys[c.want.at]; !c.cur.links(p, hash) && c.cur.links(p, key) {
			hash = key
		}
		c.want.at++
		fallthrough
	default:
		c.damage(p.at, ErrWrongKey, "entry %d, record at %d, hash %d", p.n, v.PhysicalOffset(), p.Hash)
	}
	if c.want.rounds > before || before > 0 {
		c.sum.Repeats++
	}
	c.cur.consume(p, hash)
	if kind, at, text := c.cur.times(p, v.StoreTimestamp()); kind != nil {
		c.damage(at, kind, "%s", text)
	}
}

// lacking decides about the keys of the record that no entry was found for. p is the next
// entry, if there is one.
func (c *Checker) lacking(p peeked, more bool) {
	switch rest := c.want.rest(); {
	case len(rest) == 0:
	case !more:
		c.sum.Behind += int64(len(rest))
	case p.n == 1: // of a later file: the record lies before it
		c.sum.Outside += int64(len(rest))
	default:
		c.missing(p, rest)
	}
}

// missing reports keys without an entry, unless they may stand in a file that is gone.
func (c *Checker) missing(p peeked, hashes []int32) {
	if c.want.cut {
		c.sum.Outside += int64(len(hashes))
		return
	}
	for _, h := range hashes {
		c.damage(p.at, ErrMissingKey, "hash %d, record at %d", h, c.want.offset)
	}
}

// damage reports a place in the current file.
func (c *Checker) damage(offset int64, kind *message.Kind, format string, args ...any) {
	c.sum.Damage++
	if c.cur.reports++; c.cur.reports <= MaxReports {
		c.report(c.cur.file.damage(offset, kind, format, args...).(*message.DamageError))
	}
}

// peek returns the next entry, of the next file when one is through.
func (c *Checker) peek() (peeked, bool) {
	for {
		if c.cur != nil && c.cur.next <= c.cur.keys {
			p, err := c.cur.peek()
			if err == nil {
				return p, true
			}
			c.fault(c.cur.Path, err)
			c.cur.fd.Close()
			c.cur = nil
		}
		if !c.advance() {
			return peeked{}, false
		}
	}
}

// advance ends the current file and opens the next one.
func (c *Checker) advance() bool {
	c.end()
	for c.next < len(c.files) {
		f := &c.files[c.next]
		c.next++
		t, err := newTally(f)
		if err == nil {
			if t.keys > 0 {
				c.sum.Files++
			}
			t.damage = c.damage
			c.cur = t
			return true
		}
		// What was listed may have been deleted or made anew meanwhile.
		if !errors.Is(err, fs.ErrNotExist) && err != errReplaced {
			c.fault(f.Path, err)
		}
	}
	return false
}

// fault reports that a file cannot be read.
func (c *Checker) fault(path string, err error) {
	var bad *message.DamageError
	if !errors.As(err, &bad) {
		bad = &message.DamageError{File: path, Err: err}
	}
	c.sum.Damage++
	c.report(bad)
}

// end compares the slots of the current file and closes it.
func (c *Checker) end() {
	if c.cur == nil {
		return
	}
	if err := c.cur.slots(); err != nil {
		c.fault(c.cur.Path, err)
	}
	c.cur.fd.Close()
	c.cur = nil
}

// Finish ends the check: what entries are left name no record that was given. The error
// says that records were not given in order.
func (c *Checker) Finish() (Summary, error) {
	defer c.Close()
	var reported *tally
	for {
		p, ok := c.peek()
		if !ok {
			break
		}
		switch {
		case c.lost(p.Offset):
			c.sum.Lost++
		case c.cut > 0 && p.Offset >= c.cut:
			c.sum.Ahead++
		case !c.started:
			c.sum.Below++
		case c.cur != reported:
			reported = c.cur
			c.damage(p.at+4, ErrNoRecord, "entries %d to %d name %d and more, above the last record at %d", p.n, c.cur.keys, p.Offset, c.last)
		}
		c.cur.consume(p, p.Hash)
	}
	return c.sum, c.err
}

// Close gives back what an unfinished check holds. It may be called at any time.
func (c *Checker) Close() {
	if c.cur != nil {
		c.cur.fd.Close()
		c.cur = nil
	}
	c.next = len(c.files)
}
