package pagecache

import "os"

// Runs appends to dst the parts of the n bytes from off on of a file that are in memory: half
// open [from, to) in bytes, ascending, not touching one another, whole pages but where the
// range cuts them. known is false, and nothing is appended, where the kernel gave no answer
// that can be believed. mapping, errors and what is touched are as with [Prober.Resident].
//
// It takes one system call where all or nothing is in memory. Else it asks mincore about up to
// 65,536 pages at a time; where only cachestat is believed it halves the range until the parts
// are all or nothing, which of 1 GiB with every other page in memory takes a hundred
// milliseconds or two. Pages that come and go meanwhile may be told either way.
func (p *Prober) Runs(dst [][2]int64, f *os.File, mapping []byte, off, n int64) (list [][2]int64, known bool, err error) {
	return p.list(dst, f, mapping, off, n, true)
}

// Absent is [Prober.Runs] of what is not in memory. What lies beyond the end of the file is
// not, either.
func (p *Prober) Absent(dst [][2]int64, f *os.File, mapping []byte, off, n int64) (list [][2]int64, known bool, err error) {
	return p.list(dst, f, mapping, off, n, false)
}

func (p *Prober) list(dst [][2]int64, f *os.File, mapping []byte, off, n int64, resident bool) ([][2]int64, bool, error) {
	first, pages, err := span(f, mapping, off, n)
	if err != nil || p.believed == 0 || pages == 0 {
		return dst, err == nil && p.believed != 0, err
	}
	r := runs{list: dst, start: len(dst), want: resident, from: off, to: off + n}
	if err := p.walk(&r, f, mapping, first, pages); err != nil {
		return dst, false, unanswered("resident pages", f, off, err)
	}
	return r.list, true, nil
}

func (p *Prober) walk(r *runs, f *os.File, mapping []byte, first, pages int64) error {
	if p.believed&Cachestat != 0 {
		resident, err := cachestat(f, first, pages)
		if err != nil {
			return err
		}
		if resident == 0 || resident == pages || p.believed&Mincore == 0 {
			return r.halve(f, first, pages, resident)
		}
	}
	_, err := mincore(f, mapping, first, pages, r)
	return err
}

// runs collects the parts of a range whose pages are as wanted.
type runs struct {
	list     [][2]int64
	start    int // list[start:] is ours
	want     bool
	from, to int64 // the range, in bytes
}

// add tells of pages, in ascending order.
func (r *runs) add(first, pages int64, resident bool) {
	if resident != r.want {
		return
	}
	from, to := max(first*pageSize, r.from), min((first+pages)*pageSize, r.to)
	if last := len(r.list) - 1; last >= r.start && r.list[last][1] == from {
		r.list[last][1] = to
		return
	}
	r.list = append(r.list, [2]int64{from, to})
}

// halve tells of pages of which so many are in memory, asking cachestat about the first half
// and taking the rest for the second.
func (r *runs) halve(f *os.File, first, pages, resident int64) error {
	if resident <= 0 || resident >= pages {
		r.add(first, pages, resident > 0)
		return nil
	}
	half := pages / 2
	left, err := cachestat(f, first, half)
	if err != nil {
		return err
	}
	if err := r.halve(f, first, half, left); err != nil {
		return err
	}
	return r.halve(f, first+half, pages-half, resident-left)
}
