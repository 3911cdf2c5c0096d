package warmlog

import (
	"bytes"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// onDisk reports whether the disk has the first n bytes of a file as the kernel gives them: it
// reads them past the pages in memory, too, which the kernel may hold for clean after a sync
// that failed. False where that cannot be found out.
func onDisk(path string, n int64) bool {
	cached, err := os.Open(path)
	if err != nil {
		return false
	}
	defer cached.Close()
	direct, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return false
	}
	defer direct.Close()
	raw, err := unix.Mmap(-1, 0, piece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // aligned
	if err != nil {
		return false
	}
	defer func() { _ = unix.Munmap(raw) }()
	buf := make([]byte, piece)
	for at := int64(0); at < n; at += piece {
		k := min(piece, n-at)
		if got, err := direct.ReadAt(raw, at); int64(got) < k || err != nil && !errors.Is(err, io.EOF) {
			return false
		}
		if _, err := cached.ReadAt(buf[:k], at); err != nil || !bytes.Equal(raw[:k], buf[:k]) {
			return false
		}
	}
	return true
}
