package pagecache

import "os"

// Runs appends to dst the parts of the n bytes from off on of a file that are in memory: half
// open [from, to) in bytes, ascending, not touching one another, whole pages but where the
// range cuts them. known is false, and nothing is appended, where the kernel gave no answer
// that can be believed. mapping, errors and what is touched are as with [Prober.Resident].
//
// It takes one system call where all or nothing is in memory. Else, by cachestat, it halves the
// range until the parts are all or nothing, and asks mincore about small parts if it may; by
// mincore alone it asks about 65,536 pages at a time. Pages that come and go meanwhile may be
// told either way.
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
	if p.believed&Cachestat == 0 {
		_, err := mincore(f, mapping, first, pages, r)
		return err
	}
	resident, err := cachestat(f, first, pages)
	if err != nil {
		return err
	}
	if p.believed&Mincore == 0 {
		mapping = nil
	}
	return r.halve(f, mapping, first, pages, resident)
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

// smallPart is of how many pages mincore tells as fast as cachestat does by halving them: it
// looks each up, at a tenth of a whole call of cachestat.
const smallPart = 32

// halve tells of pages of which so many are in memory, asking cachestat about the first half
// and taking the rest for the second. mapping is nil where mincore is not to be asked.
func (r *runs) halve(f *os.File, mapping []byte, first, pages, resident int64) error {
	if resident <= 0 || resident >= pages {
		r.add(first, pages, resident > 0)
		return nil
	}
	if pages <= smallPart && mapping != nil {
		_, err := mincore(f, mapping, first, pages, r)
		return err
	}
	half := pages / 2
	left, err := cachestat(f, first, half)
	if err != nil {
		return err
	}
	if err := r.halve(f, mapping, first, half, left); err != nil {
		return err
	}
	return r.halve(f, mapping, first+half, pages-half, resident-left)
}

// MappedAbsent returns the parts of a file that are not in memory, by mincore of its mapping,
// which begins at the file's beginning; nil where the kernel does not say. It needs no prober:
// if the kernel lies it calls everything present. That is good enough for [Drop].
func MappedAbsent(mapping []byte) [][2]int64 {
	if len(mapping) == 0 {
		return nil
	}
	r := runs{to: int64(len(mapping))}
	if _, err := mincore(nil, mapping, 0, (r.to+pageSize-1)/pageSize, &r); err != nil {
		return nil
	}
	return r.list
}
