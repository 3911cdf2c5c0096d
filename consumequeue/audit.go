package consumequeue

import "context"

// Audit compares what a queue's files say, without what is laid over them, with the records
// of a log that is read from front to back. It is for one goroutine.
type Audit struct {
	reader reader
	q      *Queue
	first  int64 // offset of the first entry whose record the log may still have
	end    int64 // offset behind the last entry that the log confirms, or that ends the files
	next   int64 // offset of the first entry that was not yet looked at
}

// NewAudit starts an audit of the files as they are now.
func (q *Queue) NewAudit(ctx context.Context) (*Audit, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	st, err := q.stateLocked()
	if err != nil {
		return nil, err
	}
	bare := &state{files: st.files}
	a := &Audit{reader: reader{st: bare}, q: q}
	if a.end, err = q.filesEnd(bare); err != nil {
		return nil, err
	}
	a.first = findMin(q.reader(bare), bare.low(), a.end, q.log.Min())
	a.next = a.first
	return a, nil
}

// End returns the offset behind the last entry in the files.
func (a *Audit) End() int64 { return a.end }

// At returns the entry of an offset, and false where the files have none: below the first
// file or behind the last entry.
func (a *Audit) At(off int64) (Entry, bool) {
	if off >= a.end || !a.filed(off) {
		return Entry{}, false
	}
	return a.reader.at(off), true
}

// filed reports whether there is a file for an offset.
func (a *Audit) filed(off int64) bool {
	slot, _ := a.reader.st.files.slot(off)
	return slot != nil
}

// Seen says that the entry of an offset was compared with a record. The entries before it
// that were not, and so name no record, are given to unnamed.
func (a *Audit) Seen(off int64, unnamed func(off int64, e Entry)) {
	for ; a.next < off; a.next++ {
		if a.filed(a.next) {
			unnamed(a.next, a.reader.at(a.next))
		}
	}
	a.next = max(a.next, off+1)
}

// Rest gives the entries that no record was found for, at the end of the log, to unnamed.
func (a *Audit) Rest(unnamed func(off int64, e Entry)) { a.Seen(a.end, unnamed) }

// Stray looks at what cannot be compared with records: the head, of messages that the log
// no longer has, and what lies behind the end. It gives to damaged what could not have been
// written so: entries out of order, a filler that is not one, and bytes behind the end that
// are no left-over entry.
func (a *Audit) Stray(damaged func(off int64)) error {
	f := a.reader.st.files
	last := int64(-1) // physical offset of the last entry
	for off := f.first; off < a.first; off++ {
		e := a.reader.at(off)
		switch {
		case !a.filed(off):
		case e == Filler:
			if last >= 0 {
				damaged(off)
			}
		case !e.Real() || e.Offset <= last:
			damaged(off)
		default:
			last = e.Offset
		}
	}
	if a.end >= f.limit() {
		return a.reader.err
	}
	for off := a.end; off < f.limit(); off++ {
		file := off - (off-f.first)%f.per
		if at := f.dataFrom(file, off-file); at > off-file {
			off = file + at // a hole
		}
		if off >= f.limit() {
			break
		}
		e := a.reader.at(off)
		// An earlier start that cut the queue leaves whole entries behind.
		if e != (Entry{}) && (!e.Real() || e.Offset == 0 || e.End() < 0) {
			damaged(off)
		}
	}
	return a.reader.err
}
