package mapfile

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

const pageSize = 4096

// Absent returns the pages of the mapping that are not in memory, one by one; nil where the
// kernel does not say. Asked by who may not write the file, it calls all of them present.
func (m *File) Absent() []bool {
	n := (len(m.data) + unix.Getpagesize() - 1) / unix.Getpagesize()
	if n == 0 || unix.Getpagesize() != pageSize {
		return nil
	}
	vec := make([]byte, n)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m.data[0])), uintptr(len(m.data)), uintptr(unsafe.Pointer(&vec[0])))
	if errno != 0 || !slices.ContainsFunc(vec, func(v byte) bool { return v&1 == 0 }) {
		return nil
	}
	absent := make([]bool, n)
	for i, v := range vec {
		absent[i] = v&1 == 0
	}
	return absent
}

// Evict lets the kernel forget the pages that are true: who reads them again reads the disk.
// Pages that were changed or are in use stay.
func (m *File) Evict(pages []bool) {
	for i := 0; i < len(pages); {
		n := 0
		for i+n < len(pages) && pages[i+n] {
			n++
		}
		if n > 0 {
			// Advice: that it was not taken changes nothing.
			_ = unix.Fadvise(int(m.file.Fd()), int64(i)*pageSize, int64(n)*pageSize, unix.FADV_DONTNEED)
		}
		i += max(n, 1)
	}
}
