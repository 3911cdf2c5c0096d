package keyindex

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/message"
)

// tempSuffix marks a file that is being made: not a name that readers look at.
const tempSuffix = ".tmp"

// next makes a file and begins to fill it. It appears under its name with its full size,
// sparse, and with its header.
func (w *Writer) next() error {
	if _, err := os.Stat(w.dir); errors.Is(err, fs.ErrNotExist) {
		if err := w.makeDir(); err != nil {
			return err
		}
	}
	names, _, err := w.index.list()
	if err != nil {
		return err
	}
	name, err := nextName(names, time.Now())
	if err != nil {
		return err
	}
	path := filepath.Join(w.dir, name)
	f, err := os.OpenFile(path+tempSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("keyindex: %w", err)
	}
	before, head := w.head, follow(w.head)
	w.cur, w.path = f, path+tempSuffix
	if err = w.step(); err == nil {
		err = f.Truncate(w.layout.Size())
	}
	if err == nil {
		err = w.putHeader(head)
	}
	if err == nil {
		err = w.step()
	}
	if err == nil {
		err = os.Rename(path+tempSuffix, path)
	}
	if err != nil {
		f.Close()
		os.Remove(path + tempSuffix)
		w.cur, w.head = nil, before
		return fmt.Errorf("keyindex: making %s: %w", path, err)
	}
	w.path, w.torn, w.dirty, w.newDir = path, false, true, true
	return nil
}

// makeDir makes the directory, so that it is there after a loss of power.
func (w *Writer) makeDir() error {
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return fmt.Errorf("keyindex: %w", err)
	}
	return syncDir(filepath.Dir(w.dir))
}

// nextName returns the name of a file made at a moment, which is above those there are.
func nextName(names []string, now time.Time) (string, error) {
	name := FileName(now)
	if len(names) == 0 || name > names[len(names)-1] {
		return name, nil
	}
	// The clock was set back, or the last one was made in this millisecond. Nobody reads the
	// time out of the name, so that 60 seconds are no harm.
	last, err := strconv.ParseInt(names[len(names)-1], 10, 64)
	if name = fmt.Sprintf("%017d", last+1); err != nil || len(name) > 17 {
		return "", fmt.Errorf("keyindex: no name comes after %s", names[len(names)-1])
	}
	return name, nil
}

// sweep removes what was being made when a writer was killed.
func (w *Writer) sweep() error {
	dir, err := os.ReadDir(w.dir)
	for _, e := range dir {
		if name, ok := strings.CutSuffix(e.Name(), tempSuffix); ok && IsFileName(name) && e.Type().IsRegular() {
			err = errors.Join(err, os.Remove(filepath.Join(w.dir, e.Name())))
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keyindex: %w", err)
	}
	return nil
}

// Sync calls Flush, and fsync for the files that were written and for the directory. A
// failed fsync leaves nothing to rely on: the writer then refuses everything but Close, and
// a new one may be opened.
func (w *Writer) Sync() error {
	if err := w.Flush(); err != nil {
		return err
	}
	if err := w.syncFiles(); err != nil {
		if !mapfile.AtLimit(err) { // else the directory was not opened, and nothing tried
			w.err = err
		}
		return err
	}
	return nil
}

func (w *Writer) syncFiles() error {
	if w.newDir {
		if err := syncDir(w.dir); err != nil {
			return err
		}
		w.newDir = false
	}
	for len(w.full) > 0 {
		one := w.full[0]
		if err := w.fsync(one.f); err != nil {
			return err
		}
		one.f.Close()
		w.full = w.full[1:]
		if one.time > 0 {
			w.filledTime.Store(one.time)
		}
	}
	w.full = nil
	if w.cur != nil && w.dirty {
		if err := w.fsync(w.cur); err != nil {
			return err
		}
		w.dirty = false
	}
	return nil
}

// fsync latches its error: the kernel may have dropped what it could not store, and a later
// fsync would not say so.
func (w *Writer) fsync(f *os.File) error {
	err := w.step()
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		w.err = fmt.Errorf("keyindex: fsync of %s: %w", f.Name(), err)
	}
	return w.err
}

// closeFiles closes without a sync.
func (w *Writer) closeFiles() {
	for _, one := range w.full {
		one.f.Close()
	}
	if w.cur != nil {
		w.cur.Close()
	}
	w.full, w.cur = nil, nil
}

// abandon gives up the current file if the error says that it is damaged: the next key
// makes a new one.
func (w *Writer) abandon(err error) error {
	if errors.Is(err, message.ErrDamaged) && w.cur != nil {
		w.full = append(w.full, fullFile{w.cur, w.path, 0})
		w.cur, w.torn, w.dirty = nil, false, false
	}
	return err
}

// file returns the current file for reading.
func (w *Writer) file() *file { return &file{path: w.path, at: w.cur, layout: w.layout} }

// put stores b in the current file.
func (w *Writer) put(b []byte, at int64) error {
	var err error
	if w.hook != nil {
		var n int
		if n, err = w.hook(len(b)); err != nil {
			b = b[:n]
		}
	}
	n, e := w.cur.WriteAt(b, at)
	if e != nil {
		err = e
	}
	if err != nil {
		return &message.DamageError{File: w.path, Offset: at + int64(n), Err: err}
	}
	return nil
}

// putHeader stores a header and takes it over.
func (w *Writer) putHeader(h Header) error {
	if err := w.put(h.Append(w.block[:0]), 0); err != nil {
		return err
	}
	w.head = h
	return nil
}

// step comes before a change of a name and before an fsync.
func (w *Writer) step() error {
	if w.hook == nil {
		return nil
	}
	_, err := w.hook(0)
	return err
}

func (w *Writer) remove(path string) error {
	if err := w.step(); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("keyindex: %w", err)
	}
	w.newDir = true
	return nil
}

func syncDir(path string) error {
	if err := layout.SyncDir(path); err != nil {
		return fmt.Errorf("keyindex: %w", err)
	}
	return nil
}
