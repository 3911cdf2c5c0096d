package commitlog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/warmlog/warmlog/internal/layout"
)

// A segment gets its name before it comes into the log's list. Who lists the directory in
// between, as readers do that miss a segment which is just deleted, finds it first: it is in the
// list once all the same, or each offset above would be looked for in the segment before.
func TestASegmentThatIsListedBeforeItIsAdded(t *testing.T) {
	const size = 4096
	dir, temp := t.TempDir(), t.TempDir()
	l, err := OpenReadOnly(dir, Options{SegmentSize: size})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := &Appender{log: l, o: AppendOptions{Temp: temp, Mode: layout.Flushed}}
	for base := int64(0); base < 4*size; base += size {
		w, err := a.nextSegment(base, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer w.close()
		if err := l.Refresh(); err != nil {
			t.Fatal(err)
		}
		l.add(w.seg)
		for off := int64(0); off <= base; off += size {
			if s := l.Segment(off); s == nil || s.Base != off {
				t.Errorf("offset %d of %d segments: %+v", off, base/size+1, s)
			}
		}
		if l.Segment(base) != w.seg {
			t.Error("the list has another segment than is written")
		}
		l.SetMax(base + size)
		_, _, held, err := l.Map(base)
		if err != nil {
			t.Fatal(err)
		}
		held.Release()
	}
}

// A file that is closed while somebody is about to sync it is named so: its bytes were synced
// before, which is no failure of the log.
func TestASyncOfAClosedFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := syncData(f); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}
