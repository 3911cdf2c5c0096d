//go:build unix

package warmlog

import (
	"os"

	"golang.org/x/sys/unix"
)

// measureDisk says how full the file system of a directory is, as RocketMQ counts: of what an
// unprivileged user can use. A directory that is not there is an fs.ErrNotExist.
func measureDisk(dir string) (d disk, err error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return d, &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return d, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	block := int64(fs.Bsize)
	used := (int64(fs.Blocks) - int64(fs.Bfree)) * block
	return disk{dir: dir, device: uint64(st.Dev), used: used, all: used + int64(fs.Bavail)*block}, nil
}
