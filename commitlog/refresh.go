package commitlog

import "slices"

// SetSegmentSize says how large the segments of a log without any will be.
func (l *Log) SetSegmentSize(n int64) { l.options.SegmentSize = n }

// DropAbove takes the segments that begin at or above a physical offset out of the list,
// but for the log's first: their files were removed.
func (l *Log) DropAbove(off int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var kept, dropped []*Segment
	for i, s := range l.Segments() {
		if i > 0 && s.Base >= off {
			dropped = append(dropped, s)
		} else {
			kept = append(kept, s)
		}
	}
	l.publish(kept)
	for _, s := range dropped {
		s.slot.Close()
	}
}

// Replaced says that a segment's file is another one now, with the same records: who reads it
// from now on opens that.
func (l *Log) Replaced(old *Segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := slices.Clone(l.Segments())
	for i, s := range next {
		if s == old {
			next[i] = l.newSegment(found{s.Base, s.Size, s.Path()})
		}
	}
	l.publish(next)
	old.slot.Close()
}

// Refresh lists the directory again, for a log that another process writes: segments that
// it added come in, segments that it deleted from the front go. A segment in the middle
// that vanished stays in the list, as one that cannot be opened, unless it is still mapped.
// The visible end does not move, but for a log whose every segment was replaced.
func (l *Log) Refresh() error {
	files, _, err := list(l.dir)
	if err != nil || len(files) == 0 {
		return err // all gone: what is mapped goes on being readable
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.Segments()
	if len(known) == 0 {
		size, err := segmentSize(files, l.options.SegmentSize)
		if err != nil {
			return err
		}
		l.size = size // before the first list that has segments: see Segment
	}
	next := make([]*Segment, 0, len(files))
	var dropped []*Segment
	for _, s := range known {
		if s.Base >= files[0].base {
			next = append(next, s)
		} else {
			dropped = append(dropped, s)
		}
	}
	for _, f := range files {
		last := len(next) - 1
		switch {
		case f.base%l.size != 0 || f.size > l.size || f.size == 0:
			continue // not (yet) a segment
		case last < 0 || f.base == next[last].Base+l.size && next[last].Size == l.size:
			next = append(next, l.newSegment(f))
		case f.base == next[last].Base && f.size > next[last].Size:
			dropped = append(dropped, next[last])
			next[last] = l.newSegment(f)
		}
	}
	l.publish(next)
	for _, s := range dropped {
		s.slot.Close() // after it left the list: see open
	}
	if min := l.Min(); l.Max() < min {
		l.SetMax(min)
	}
	return nil
}
