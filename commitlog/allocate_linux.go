package commitlog

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives a range of a file space on disk; its bytes stay what they are.
func allocate(f *os.File, off, n int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, off, n)
		if err == unix.EINTR {
			continue
		}
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
			return allocateByWriting(f, off, n)
		}
		return os.NewSyscallError("fallocate", err)
	}
}
