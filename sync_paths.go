package warmlog

import (
	"os"
	"slices"
)

// syncEach syncs files and directories, each once.
func syncEach(paths []string) error {
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		f, err := os.Open(path)
		if os.IsNotExist(err) {
			continue // deleted since
		}
		if err != nil {
			return err
		}
		err = f.Sync()
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
