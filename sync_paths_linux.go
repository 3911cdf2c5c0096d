package warmlog

import (
	"os"

	"golang.org/x/sys/unix"
)

// manyPaths is how many files are synced one by one: with more it is cheaper to let the
// kernel write all of the file system.
const manyPaths = 64

func syncPaths(dir string, paths []string) error {
	if len(paths) <= manyPaths {
		return syncEach(paths)
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd())))
}
