package mapfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDataEnd(t *testing.T) {
	const block = 64 << 10 // of any file system
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := func(size, want int64) {
		t.Helper()
		if got := DataEnd(f, size); got != want {
			t.Errorf("of %d bytes the data end at %d, want %d", size, got, want)
		}
	}
	put := func(off int64) {
		t.Helper()
		if _, err := f.WriteAt(make([]byte, block), off); err != nil {
			t.Fatal(err)
		}
	}
	at(0, 0)
	if err := f.Truncate(10 * block); err != nil {
		t.Fatal(err)
	}
	if DataEnd(f, 10*block) != 0 {
		t.Skip("this file system does not tell of holes")
	}
	put(0)
	at(10*block, block)
	put(4 * block) // behind a hole
	at(10*block, 5*block)
	at(3*block, 3*block) // the file grew since its size was read
	put(9 * block)
	at(10*block, 10*block)
	at(20*block, 10*block) // shortened since
	f.Close()
	if got := DataEnd(f, 7); got != 7 {
		t.Errorf("of a closed file: %d", got)
	}
}
