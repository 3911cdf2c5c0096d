//go:build unix

package warmlog

import (
	"os"

	"golang.org/x/sys/unix"
)

// diskUsed returns how full the file system of a directory is, in percent, rounded up, as
// RocketMQ counts: of what an unprivileged user can use. unlinked are bytes of files that are
// deleted but still held open: they count as free.
func diskUsed(dir string, unlinked int64) (int, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, os.NewSyscallError("statfs", err)
	}
	block := int64(st.Bsize)
	used := max(0, (int64(st.Blocks)-int64(st.Bfree))*block-unlinked)
	all := (int64(st.Blocks)-int64(st.Bfree))*block + int64(st.Bavail)*block
	if all <= 0 {
		return 0, nil
	}
	return int((used*100 + all - 1) / all), nil
}
