package layout

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Holder reports whether some process holds the store's lock and, where the kernel tells,
// its pid (not for the locks of open file descriptions). It only asks: nothing is locked,
// so a writer that starts meanwhile is not disturbed.
func Holder(path string) (held bool, pid int, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, err
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), getLock, &lock); err != nil {
		return false, 0, os.NewSyscallError("fcntl", err)
	}
	return lock.Type != unix.F_UNLCK, max(0, int(lock.Pid)), nil
}
