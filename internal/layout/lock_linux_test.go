package layout

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if held, _, err := Holder(path); held || err != nil {
		t.Errorf("no file: %v, %v", held, err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if held, _, err := Holder(path); held || err != nil {
		t.Errorf("nobody: %v, %v", held, err)
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		t.Fatal(err)
	}
	if held, _, err := Holder(path); !held || err != nil {
		t.Errorf("locked: %v, %v", held, err)
	}
	lock.Type = unix.F_UNLCK
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		t.Fatal(err)
	}
	if held, _, _ := Holder(path); held {
		t.Error("still held after unlocking: asking took the lock")
	}
}
