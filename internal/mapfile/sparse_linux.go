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
