package mapfile

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Lock keeps the pages of a range, whole pages but for the mapping's end, in memory from when they
// are touched first. Errors are those of mlock2(2): ENOMEM or EPERM at RLIMIT_MEMLOCK.
func (m *File) Lock(from, to int64) error {
	b := m.data[from:to]
	_, _, errno := unix.Syscall(unix.SYS_MLOCK2, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MLOCK_ONFAULT)
	if errno != 0 {
		return os.NewSyscallError("mlock2", errno)
	}
	return nil
}

// Unlock takes back what Lock did.
func (m *File) Unlock(from, to int64) { _ = unix.Munlock(m.data[from:to]) }
