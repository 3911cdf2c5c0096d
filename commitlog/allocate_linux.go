package commitlog

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives a range of a file space on disk; its bytes stay what they are.
func allocate(f *os.File, off, n int64) error {
	for {
		err := onDescriptor(f, func(fd int) error { return unix.Fallocate(fd, 0, off, n) })
		if err == unix.EINTR {
			continue
		}
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
			return allocateByWriting(f, off, n)
		}
		return os.NewSyscallError("fallocate", err)
	}
}

// free returns the bytes that the file system of a file has left, false where that is not known.
func free(f *os.File) (bytes int64, known bool) {
	var st unix.Statfs_t
	err := onDescriptor(f, func(fd int) error { return unix.Fstatfs(fd, &st) })
	return int64(st.Bavail) * st.Bsize, err == nil
}

// onDescriptor calls do with a file's descriptor, which stays this file's meanwhile: one that
// is closed in the background could be another's already: that is os.ErrClosed.
func onDescriptor(f *os.File, do func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if conn.Control(func(fd uintptr) { err = do(int(fd)) }) != nil {
		return os.ErrClosed // its own error for that is another, which has no name
	}
	return err
}
