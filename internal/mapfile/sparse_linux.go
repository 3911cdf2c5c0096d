package mapfile

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// DataFrom returns the first byte at or after off of a file that was ever written, as far as
// the file system says; a number beyond the file if none was, off where it does not say. It
// moves the file's own offset.
func DataFrom(f *os.File, off int64) int64 {
	at, err := unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return math.MaxInt64
	case err != nil:
		return off
	}
	return at
}

// mostStretches is how many stretches of a file are looked at one after another.
const mostStretches = 4096

// DataEnd returns the byte behind the last one of a file of size bytes that was ever written, as
// far as the file system says; size where it does not, or the file is in very many stretches. It
// reads nothing of the file, and moves its own offset.
func DataEnd(f *os.File, size int64) int64 {
	fd, end := int(f.Fd()), int64(0)
	for range mostStretches {
		from, err := unix.Seek(fd, end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return min(end, size)
		}
		if err != nil {
			return size
		}
		to, err := unix.Seek(fd, from, unix.SEEK_HOLE)
		if err != nil || to <= end {
			return size
		}
		if end = to; end >= size {
			break
		}
	}
	return size
}
