package pagecache

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// readable says whether a page is in memory, by reading a byte of it without waiting for the
// disk. Everybody who may read is told the truth. But the kernel begins to read a page that is
// absent, so this is no way to look at what is not to be warmed.
func readable(f *os.File, page int64) (present, known bool) {
	n, err := unix.Preadv2(int(f.Fd()), [][]byte{make([]byte, 1)}, page*pageSize, unix.RWF_NOWAIT)
	runtime.KeepAlive(f)
	switch {
	case n == 1:
		return true, true
	case err == unix.EAGAIN:
		return false, true
	}
	return false, false // the file system or kernel has no such reads
}

// mayAsk says, by the methods' contracts, whether this process is told the truth about a file.
// Cachestat says itself when it does not. Mincore tells owners and those who may write.
func mayAsk(m Method, f *os.File) error {
	if m == Cachestat {
		_, err := cachestat(f, 0, 1)
		return err
	}
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	runtime.KeepAlive(f)
	if err == nil && st.Uid == uint32(os.Geteuid()) {
		return nil
	}
	if err := unix.Faccessat(unix.AT_FDCWD, f.Name(), unix.W_OK, unix.AT_EACCESS); err != nil {
		return fmt.Errorf("%w (%s: %w)", ErrNoRight, f.Name(), err)
	}
	return nil
}
