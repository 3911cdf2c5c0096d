package keyindex

import (
	"cmp"
	"slices"
)

// Range is a half-open range of physical offsets: the records that begin in [From, To).
type Range struct{ From, To int64 }

// uncovered returns what of [logMin, logEnd) the index cannot speak for, in ascending
// order. files are in the order of their names, all of them.
//
// A file has all keys of the records strictly between its begin and its end offset. At
// the two ends it may hold only some of a record's keys: the first ones may stand in the
// file before, the last ones in the file after, or not be put yet. The record where two
// neighbours meet is covered by both together, and nothing lies before offset 0. (Were a
// file lost in between that holds keys of this one record and nothing else, it would not
// be missed; a record has at most some 16,000 keys, a file of the default size 20,000,000.)
func uncovered(files []File, logMin, logEnd int64) []Range {
	if logMin >= logEnd {
		return nil
	}
	var whole []Range
	for i := range files {
		f := &files[i]
		if !f.usable() || f.Header.EndOffset <= f.Header.BeginOffset {
			continue
		}
		r := Range{f.Header.BeginOffset + 1, f.Header.EndOffset}
		if r.From == 1 {
			r.From = 0
		}
		if meets(files, i) {
			r.To++
		}
		if r.From < r.To {
			whole = append(whole, r)
		}
	}
	slices.SortFunc(whole, func(a, b Range) int { return cmp.Compare(a.From, b.From) })
	var gaps []Range
	at := logMin
	for _, r := range whole {
		if r.From > at {
			gaps = append(gaps, Range{at, min(r.From, logEnd)})
		}
		if at = max(at, r.To); at >= logEnd {
			return clip(gaps, logEnd)
		}
	}
	return append(clip(gaps, logEnd), Range{at, logEnd})
}

// meets reports whether the file after number i goes on at the record where i ends. Files
// that begin and end in that very record may lie in between.
func meets(files []File, i int) bool {
	end := files[i].Header.EndOffset
	for _, next := range files[i+1:] {
		h := &next.Header
		if !next.usable() || h.BeginOffset != end {
			return false
		}
		if h.EndOffset > end {
			return true
		}
	}
	return false
}

// clip drops the ranges that begin at the end of the log or above.
func clip(rs []Range, logEnd int64) []Range {
	return slices.DeleteFunc(rs, func(r Range) bool { return r.From >= logEnd })
}
