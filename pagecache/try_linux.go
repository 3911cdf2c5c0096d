package pagecache

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// seenAbsent reports that a page is not in memory, by reading a byte of it without waiting for
// the disk, of which everybody is told the truth who may read. But the kernel begins to read a
// page that is absent: so this is no way to look at what is not to be warmed, and where the
// page arrives before the kernel looks (measured: 1 time in 20, 1 in 5 on a busy machine, at
// times 100 in 100) its absence goes unseen, as it does without such reads.
func seenAbsent(f *os.File, page int64) bool {
	_, err := unix.Preadv2(int(f.Fd()), [][]byte{make([]byte, 1)}, page*pageSize, unix.RWF_NOWAIT)
	runtime.KeepAlive(f)
	return err == unix.EAGAIN
}

// unnamed makes a file in a directory that never has a name there.
func unnamed(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, 0o600)
	switch {
	case errors.Is(err, unix.EISDIR): // so says a kernel that does not know of it
		return nil, fmt.Errorf("no file to try it on in %s: %w", dir, unix.EOPNOTSUPP)
	case err != nil:
		return nil, fmt.Errorf("no file to try it on: %w", err)
	}
	return f, nil
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
