package commitlog

import (
	"errors"
	"io"
	"os"
)

// allocateByWriting reads and writes a range back, which gives it space where the system has
// no call for that. Nobody else writes there.
func allocateByWriting(f *os.File, off, n int64) error {
	b := make([]byte, 1<<20)
	for n > 0 {
		piece := b[:min(n, int64(len(b)))]
		if _, err := f.ReadAt(piece, off); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, err := f.WriteAt(piece, off); err != nil {
			return err
		}
		off, n = off+int64(len(piece)), n-int64(len(piece))
	}
	return nil
}
