package pagecache

import "os"

// Drop lets the kernel forget pages of a file: who reads them again reads the disk. runs are
// parts of the file in bytes, half open, as of [Prober.Absent]; they are rounded out to whole
// pages. Pages stay that are dirty, locked or in somebody's page table, and folios (pages that
// the kernel keeps together) of which only a part is to go. It is advice: nothing is reported.
// Outside of Linux it does nothing.
func Drop(f *os.File, runs [][2]int64) {
	for _, r := range runs {
		if first, pages, err := span(f, nil, r[0], r[1]-r[0]); err == nil && pages > 0 {
			forget(f, first, pages)
		}
	}
}

// Evict takes the pages of a range out of memory, those that are mapped by this process
// included, and returns what stayed: pages that other processes have mapped, that are locked,
// or dirty. With sync it writes dirty pages to disk first. mapping is the file mapped from its
// beginning, or nil; who reads through it meanwhile waits for the disk. It is for tests and
// tools. What stayed is not known where nothing can be believed. The errors are those of
// [Prober.Resident], that of fdatasync(2), and [errors.ErrUnsupported] outside of Linux.
func (p *Prober) Evict(f *os.File, mapping []byte, off, n int64, sync bool) (stayed Count, err error) {
	first, pages, err := span(f, mapping, off, n)
	if err != nil {
		return Count{}, err
	}
	if pages > 0 {
		if err := evict(f, mapping, first, pages, sync); err != nil {
			return Count{}, err
		}
	}
	return p.Resident(f, mapping, off, n)
}
