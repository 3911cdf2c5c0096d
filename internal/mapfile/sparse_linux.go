package mapfile

import (
	"errors"
	"math"

	"golang.org/x/sys/unix"
)

// DataFrom returns the first byte at or after off that was ever written, as far as the file
// system says; a number beyond the file if none was, off where it does not say.
func (m *File) DataFrom(off int64) int64 {
	at, err := unix.Seek(int(m.file.Fd()), off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return math.MaxInt64
	case err != nil:
		return off
	}
	return at
}
