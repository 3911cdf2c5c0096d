package warmlog

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/warmlog/warmlog/internal/layout"
	"golang.org/x/sys/unix"
)

// manyPaths is how many files are synced one by one: with more it is cheaper to let the
// kernel write all of the file system.
const manyPaths = 64

func syncPaths(store layout.Store, paths []string) error {
	if len(paths) <= manyPaths {
		return syncEach(paths)
	}
	// Each directory may be a file system of its own.
	synced := map[uint64]bool{}
	for _, dir := range []string{string(store), store.CommitLog(), store.ConsumeQueue(), store.Index()} {
		f, err := os.Open(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		var st syscall.Stat_t
		err = os.NewSyscallError("fstat", syscall.Fstat(int(f.Fd()), &st))
		if err == nil && !synced[uint64(st.Dev)] {
			synced[uint64(st.Dev)] = true
			err = os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd())))
		}
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
