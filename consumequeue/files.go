package consumequeue

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/message"
)

// files are the files of one queue as they were listed. Immutable.
type files struct {
	dir   string
	per   int64 // entries of a file
	first int64 // queue offset of the first file's first entry
	// slots are the files in order; nil where one is missing or has the wrong size.
	slots []*mapfile.Slot
	// damage says which files were left out and why.
	damage []*message.DamageError
}

// listFiles lists a queue's directory. Names that are no queue files are ignored. A
// directory that is not there is a queue without files.
func listFiles(dir string, fileSize int64, cache *mapfile.Cache) (*files, error) {
	f := &files{dir: dir, per: fileSize / EntrySize}
	entries, err := os.ReadDir(dir)
	if err != nil && !absent(err) {
		return nil, fmt.Errorf("list queue: %w", err)
	}
	type file struct{ base, size int64 }
	var found []file
	for _, e := range entries {
		base, ok := layout.ParseFileName(e.Name())
		if !ok || base%EntrySize != 0 {
			continue
		}
		st, err := os.Stat(filepath.Join(dir, e.Name()))
		if err != nil || !st.Mode().IsRegular() {
			continue
		}
		if base%fileSize != 0 {
			f.damage = append(f.damage, &message.DamageError{File: filepath.Join(dir, e.Name()), Err: layout.ErrFileSize})
			continue
		}
		found = append(found, file{base, st.Size()})
	}
	if len(found) == 0 {
		return f, nil
	}
	slices.SortFunc(found, func(a, b file) int { return cmp.Compare(a.base, b.base) })
	if last := len(found) - 1; last > 0 && found[last].size == 0 {
		found = found[:last] // made, and the process died before it had its size
	}
	f.first = found[0].base / EntrySize
	for _, file := range found {
		path := filepath.Join(dir, layout.FileName(file.base))
		gap := file.base/fileSize - f.limit()/f.per
		if gap > maxHole {
			f.damage = append(f.damage, &message.DamageError{File: path, Err: layout.ErrHole})
			break
		}
		for ; gap > 0; gap-- {
			f.damage = append(f.damage, &message.DamageError{File: filepath.Join(dir, layout.FileName(f.limit()*EntrySize)), Err: layout.ErrHole})
			f.slots = append(f.slots, nil)
		}
		var slot *mapfile.Slot
		if file.size == fileSize {
			slot = cache.Slot(path, fileSize, mapfile.ReadOnly)
		} else {
			f.damage = append(f.damage, &message.DamageError{File: path, Offset: min(file.size, fileSize), Err: layout.ErrFileSize})
		}
		f.slots = append(f.slots, slot)
	}
	return f, nil
}

// absent reports whether an error says that there is no such directory, or that there cannot
// be one: the topic of a damaged record may be any bytes.
func absent(err error) bool {
	return os.IsNotExist(err) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENAMETOOLONG)
}

// maxHole is how many files in a row may be missing before the next one is taken for a
// stray: its name, which may be any number, must not cost memory.
const maxHole = 1024

func (f *files) close() {
	for _, s := range f.slots {
		if s != nil {
			s.Close()
		}
	}
}

// limit returns the queue offset behind the last file's last entry.
func (f *files) limit() int64 { return f.first + int64(len(f.slots))*f.per }

// slot returns the file of a queue offset and the entry's number in it; nil for none.
func (f *files) slot(off int64) (*mapfile.Slot, int64) {
	if off < f.first || off >= f.limit() {
		return nil, 0
	}
	n := off - f.first
	return f.slots[n/f.per], n % f.per
}

// where returns the file and byte of a queue offset's entry, for errors.
func (f *files) where(off int64) (string, int64) {
	n := off - off%f.per
	return filepath.Join(f.dir, layout.FileName(n*EntrySize)), (off - n) * EntrySize
}

// read reads up to n entries of one file by pread into buf or a larger buffer. Nothing is
// returned where the file is missing.
func (f *files) read(off, n int64, buf []byte) ([]byte, error) {
	slot, at := f.slot(off)
	if slot == nil {
		return nil, nil
	}
	n = min(n, f.per-at) * EntrySize
	if int64(cap(buf)) < n {
		buf = make([]byte, n)
	}
	got, err := slot.ReadAt(buf[:n], at*EntrySize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, unlessGone(err)
	}
	return buf[:got-got%EntrySize], nil // a file that was shortened has fewer
}

// unlessGone returns the error of opening a file, nil where the file was deleted or shortened
// since it was listed: its entries are then missing. One that this process gave up is an error:
// see [Queue.again].
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, message.ErrDamaged) {
		return nil
	}
	return err
}

// onlyReadable returns the files without those that are no longer there at full size, and
// these, to be closed when nobody is led to them any more. Those at the front that are gone
// were taken by retention: the queue begins behind them.
func (f *files) onlyReadable() (_ *files, gone []*mapfile.Slot) {
	next := *f
	next.slots = slices.Clone(f.slots)
	for i, s := range next.slots {
		last, err := f.read(f.first+int64(i+1)*f.per-1, 1, nil)
		if s != nil && (err != nil || len(last) < EntrySize) {
			next.slots[i] = nil
			gone = append(gone, s)
		}
	}
	for len(next.slots) > 0 && next.slots[0] == nil {
		path, _ := next.where(next.first)
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			break
		}
		next.slots, next.first = next.slots[1:], next.first+next.per
	}
	return &next, gone
}

// without returns the files without the one of a path, and that one, to be closed when nobody
// is led to it any more; nil if it was not among them.
func (f *files) without(path string) (*files, *mapfile.Slot) {
	for i, s := range f.slots {
		if s != nil && s.Path() == path {
			next := *f
			next.slots = slices.Clone(f.slots)
			next.slots[i] = nil
			return &next, s
		}
	}
	return f, nil
}

// dataFrom returns the first entry, at or after entry at of the file that begins with off,
// that was ever written; the file's number of entries if none was.
func (f *files) dataFrom(off, at int64) int64 {
	slot, _ := f.slot(off)
	if slot == nil {
		return f.per
	}
	file, err := slot.Acquire()
	if err != nil {
		return f.per
	}
	defer file.Release()
	// A written block may begin within an entry.
	return max(at, min(file.DataFrom(at*EntrySize)/EntrySize, f.per))
}
