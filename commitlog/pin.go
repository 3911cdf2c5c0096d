package commitlog

import (
	"fmt"

	"github.com/warmlog/warmlog/internal/mapfile"
)

// pins are the parts of segments that are locked in memory: the end of the log, as far as each page
// of it was touched. Of who calls Step.
type pins struct {
	bytes int64
	parts []pin // in order
	told  bool  // that it is refused
}

// pin is a part of a segment that is locked, by offsets of its file.
type pin struct {
	file     *mapfile.File // with a reference
	base     int64         // physical offset of the segment
	from, to int64
}

// Pin locks the last bytes of the log in memory from the next Step on, as it grows: a page of them
// that a consumer has read stays, whatever else needs memory. 0: nothing. It is called before the
// first Step.
func (l *Log) Pin(bytes int64) { l.pins.bytes = bytes }

// movePins locks what lies within reach of the log's end, and gives the rest free.
func (l *Log) movePins(end int64) error {
	p := &l.pins
	if p.bytes == 0 || p.told {
		return nil
	}
	low := max(l.Min(), end-p.bytes)
	kept := p.parts[:0]
	for _, part := range p.parts {
		if s := l.Segment(part.base); s == nil || part.base+part.to <= low || s.slot.Open() != part.file {
			part.give(part.from, part.to)
			part.file.Release()
			continue
		}
		kept = append(kept, part)
	}
	p.parts = kept
	for at := low; at < end; {
		s, file, err := l.open(at)
		if err != nil {
			return nil // the next step tries again
		}
		from, to := mapfile.PageDown(at-s.Base), mapfile.PageDown(min(s.End(), end)-s.Base)
		err = l.lock(s.Base, file, from, to)
		if err != nil {
			p.told = true
			l.Unpin()
			return fmt.Errorf("pin the last %d bytes of the log: %w", p.bytes, err)
		}
		at = s.End()
	}
	return nil
}

// lock makes a range of a segment the one that is locked of it. It takes over the reference.
func (l *Log) lock(base int64, file *mapfile.File, from, to int64) error {
	p := &l.pins
	for i := range p.parts {
		part := &p.parts[i]
		if part.file != file {
			continue
		}
		file.Release()
		part.give(part.from, min(from, part.to))
		part.from = max(part.from, from)
		if to > part.to {
			if err := file.Lock(max(part.to, part.from), to); err != nil {
				return err
			}
			part.to = to
		}
		return nil
	}
	if to <= from {
		file.Release()
		return nil
	}
	p.parts = append(p.parts, pin{file, base, from, to})
	return file.Lock(from, to)
}

func (p *pin) give(from, to int64) {
	if to > from {
		p.file.Unlock(from, to)
	}
}

// Unpin gives all free that is locked. It is called when nobody calls Step any more.
func (l *Log) Unpin() {
	for i := range l.pins.parts {
		part := &l.pins.parts[i]
		part.give(part.from, part.to)
		part.file.Release()
	}
	l.pins.parts = nil
}
