package pagecache

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

func forget(f *os.File, first, pages int64) {
	_ = unix.Fadvise(int(f.Fd()), first*pageSize, pages*pageSize, unix.FADV_DONTNEED)
	runtime.KeepAlive(f)
}

func evict(f *os.File, mapping []byte, first, pages int64, sync bool) error {
	if mapping != nil {
		// The kernel does not drop what is in a page table. (MADV_PAGEOUT would reclaim by the
		// page table, and has nothing to do after this.) Refused where pages are locked, which
		// then stay and are counted.
		_ = unix.Madvise(mapping[first*pageSize:min((first+pages)*pageSize, int64(len(mapping)))], unix.MADV_DONTNEED)
	}
	if sync {
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return fmt.Errorf("fdatasync %s: %w", f.Name(), err)
		}
	}
	forget(f, first, pages)
	return nil
}

func willNeed(f *os.File, off, n int64) {
	_ = unix.Fadvise(int(f.Fd()), off, n, unix.FADV_WILLNEED)
	runtime.KeepAlive(f)
}

// noReadAhead makes reads through an open file bring in what was asked for, and no more.
func noReadAhead(f *os.File) {
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM)
	runtime.KeepAlive(f)
}

// readDontCache reads with RWF_DONTCACHE, which drops the pages that it brought in, and only
// those: not those that were prefetched.
func (p *Prober) readDontCache(f *os.File, b []byte, off int64) (n int, err error) {
	for n < len(b) && !p.noDontCache.Load() {
		m, err := unix.Preadv2(int(f.Fd()), [][]byte{b[n:]}, off+int64(n), unix.RWF_DONTCACHE)
		runtime.KeepAlive(f)
		if err != nil && err != unix.EINTR {
			// Unknown to the file system or kernel; else ReadAt tells what is wrong.
			if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
				p.noDontCache.Store(true)
			}
			break
		}
		if m == 0 && err == nil {
			return n, io.EOF
		}
		n += max(m, 0)
	}
	if n == len(b) {
		return n, nil
	}
	m, err := f.ReadAt(b[n:], off+int64(n))
	return n + m, err
}
