package warmlog

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/warmlog/warmlog/internal/layout"
)

// replaceFile makes a file's content another, which fill writes: the old one or the new one is
// there, whatever happens. temp is a directory of the same file system.
func replaceFile(path, temp string, fill func(*os.File) error) error {
	name := filepath.Join(temp, filepath.Base(path))
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(name)
		return err
	}
	if err := os.Rename(name, path); err != nil {
		return err
	}
	return layout.SyncDir(filepath.Dir(path))
}

// bytesOnly fills a file with bytes.
func bytesOnly(b []byte) func(*os.File) error {
	return func(f *os.File) error {
		_, err := f.Write(b)
		return err
	}
}

// freeName returns a name of a directory that no file has: the given one, or one with a number.
func freeName(dir, name string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	for n := 1; ; n++ {
		if _, err := os.Lstat(path); os.IsNotExist(err) {
			return path, nil
		}
		path = filepath.Join(dir, name+"-"+strconv.Itoa(n))
	}
}
