package pagecache

import "os"

// prefetchPiece is what WILLNEED is asked for at once. The kernel reads no more of it than the
// larger of the device's read-ahead and its largest request, and forgets the rest: measured on
// a loop device, 1,280 KiB of 16 MiB. Nearly every device allows 128 KiB.
const prefetchPiece = 128 << 10

// Prefetch asks the kernel to read what is absent of the n bytes from off on of a file, and
// does not wait for it, but where the device's queue is full. It reads these pages and no
// others. Their number in [Prober.Resident] says at once that they are in memory where
// cachestat gives it; they are once they were read. What the kernel does not take up is no
// error: [ErrRange] is the only one. Outside of Linux it does nothing.
func Prefetch(f *os.File, off, n int64) error {
	first, pages, err := span(f, nil, off, n)
	if err != nil {
		return err
	}
	const piece = prefetchPiece
	for at, end := first*pageSize, (first+pages)*pageSize; at < end; at += piece {
		willNeed(f, at, min(piece, end-at))
	}
	return nil
}

// NoReadAhead makes the kernel read what is asked for and no more, when this open file is read
// by system call. It slows down whoever reads it from the beginning to the end.
func NoReadAhead(f *os.File) { noReadAhead(f) }

// ReadUncached reads like f.ReadAt, and leaves no page in memory that was not there before.
// What was there stays. It takes one system call more than reading where all is in memory,
// three more where nothing is (to 128 KiB), and allocates nothing in these cases. Pages that
// somebody else begins to use meanwhile may go, which costs him a read.
//
// Where it is not known what was there the kernel reads by RWF_DONTCACHE (Linux 6.14), or
// everything stays; and what the kernel reads ahead stays, unless there is [NoReadAhead].
//
// To prefetch what is read later, so that nothing stays either:
//
//	absent, _, _ := p.Absent(absent[:0], f, mapping, off, n)
//	pagecache.Prefetch(f, off, n)
//	…
//	f.ReadAt(b[:n], off)
//	pagecache.Drop(f, absent)
//
// mapping and errors are those of [Prober.Resident], and those of f.ReadAt.
func (p *Prober) ReadUncached(f *os.File, mapping, b []byte, off int64) (int, error) {
	c, err := p.Resident(f, mapping, off, int64(len(b)))
	switch {
	case err != nil:
		return 0, err
	case !c.Known():
		return p.readDontCache(f, b, off)
	case c.All():
		return f.ReadAt(b, off)
	case c.Resident == 0: // without a list, which would be allocated
		_ = Prefetch(f, off, int64(len(b))) // else the kernel reads ahead, and that stays
		n, err := f.ReadAt(b, off)
		forget(f, off/pageSize, c.Pages)
		return n, err
	}
	absent, known, err := p.Absent(nil, f, mapping, off, int64(len(b)))
	switch {
	case err != nil:
		return 0, err
	case !known: // any more
		return p.readDontCache(f, b, off)
	}
	for _, r := range absent {
		_ = Prefetch(f, r[0], r[1]-r[0])
	}
	n, err := f.ReadAt(b, off)
	Drop(f, absent)
	return n, err
}
