package commitlog

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData brings a file's bytes to the disk, those stored through a mapping included, and
// what it takes to find them there.
func syncData(f *os.File) error {
	for {
		if err := onDescriptor(f, unix.Fdatasync); err != unix.EINTR {
			return pathError("fdatasync", f, err)
		}
	}
}

// writeBack has a range of a file written, and waits for that. It proves nothing: syncData does,
// and has less to do then.
func writeBack(f *os.File, off, n int64) {
	_ = onDescriptor(f, func(fd int) error {
		return unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	})
}

func pathError(op string, f *os.File, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: f.Name(), Err: err}
}
