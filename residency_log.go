package warmlog

import "github.com/warmlog/warmlog/getmessage"

// LogResidency is how much of a part of the log is in memory.
type LogResidency struct {
	From, To int64 // physical offsets
	// Bytes are those between them that were written: neither those of segments that are
	// missing, nor the rest that a segment's last record leaves.
	Bytes    int64
	Resident int64 // of them in memory
	// Known is false where it is not known of one of the segments; Resident means nothing then.
	Known bool
}

// All says whether everything is known to be in memory.
func (l LogResidency) All() bool { return l.Known && l.Resident == l.Bytes }

// PullOutlook is what a pull from one place of the log would be told.
type PullOutlook struct {
	From string // "beginning", "middle" or "tail" of the log
	// Diff is the distance in bytes from there to the end of the log.
	Diff int64
	// Batch is what it would read at the most: 256 KiB, RocketMQ's limit in memory, of all
	// queues, whose records lie between one another.
	Batch LogResidency
	// ByDistance is whether RocketMQ's rule suggests the slave: Diff is above the threshold.
	ByDistance bool
	// ByResidency is whether what is in memory suggests it: the batch is not there as a whole. It
	// is ByDistance where that is not known.
	ByResidency bool
}

// Range returns how much of the log between two physical offsets is in memory.
func (r *ResidencyReport) Range(from, to int64) LogResidency {
	l := LogResidency{From: from, To: to, Known: true}
	for _, s := range r.Segments {
		low, high := max(from, s.From), min(to, s.From+s.Written)
		if low >= high {
			continue
		}
		l.Bytes += high - low
		l.Known = l.Known && s.Known
		for _, run := range s.Runs {
			l.Resident += max(0, min(high, run[1])-max(low, run[0]))
		}
	}
	return l
}

// outline fills in what follows from the files.
func (r *ResidencyReport) outline(tail int64) {
	if len(r.Segments) == 0 {
		r.Tail.Known, r.Within.Known = true, true
		return
	}
	r.Begin = r.Segments[0].From
	r.End = r.Begin
	for _, s := range r.Segments {
		if s.Written > 0 {
			r.End = s.From + s.Written
		}
	}
	r.Tail = r.Range(max(r.Begin, r.End-tail), r.End)
	r.Within = r.Range(max(r.Begin, r.End-r.Threshold), r.End)
	r.WarmFrom = r.warmFrom()
	if r.Begin < r.End {
		r.pulls()
	}
}

func (r *ResidencyReport) warmFrom() int64 {
	from := r.End
	for i := len(r.Segments) - 1; i >= 0; i-- {
		s := r.Segments[i]
		end := s.From + s.Written
		if s.Written == 0 {
			continue // made in advance
		}
		// Of those that reach the end, the last run: nothing lies behind it but what was never written.
		last := len(s.Runs) - 1
		for last >= 0 && s.Runs[last][0] >= end {
			last--
		}
		if last < 0 || s.Runs[last][1] < end {
			return from
		}
		if from = s.Runs[last][0]; from > s.From {
			return from
		}
	}
	return from
}

func (r *ResidencyReport) pulls() {
	limits, err := getmessage.Limits{}.WithDefaults()
	if err != nil {
		return // the defaults are right
	}
	middle := r.Begin + (r.End-r.Begin)/2
	for _, s := range r.Segments { // a place where something was written
		if middle < s.From+s.Written {
			middle = max(middle, s.From)
			break
		}
	}
	add := func(from string, off int64) {
		p := PullOutlook{From: from, Diff: r.End - off, Batch: r.Range(off, min(off+limits.MemoryBytes, r.End))}
		p.ByDistance = p.Diff > r.Threshold
		if p.ByResidency = !p.Batch.All(); !p.Batch.Known {
			p.ByResidency = p.ByDistance
		}
		r.Pulls = append(r.Pulls, p)
	}
	add("beginning", r.Begin)
	add("middle", middle)
	add("tail", max(r.Begin, r.End-limits.MemoryBytes))
}
