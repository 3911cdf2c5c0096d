package keyindex

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/warmlog/warmlog/message"
)

// File is one index file as it was at one moment.
type File struct {
	Path   string
	Size   int64
	Layout Layout // zero if it is not known
	Header Header
	// Err says why the file answers and covers nothing: a [message.DamageError], or that
	// Options.Trust refused it. A file without a key has no error.
	Err error
}

// usable reports whether the file has keys that can be looked up.
func (f *File) usable() bool { return f.Err == nil && f.Header.Keys() > 0 }

var errDistrusted = errors.New("keyindex: the file is not trusted")

// Files returns the state of all index files in the order of their names, and a note on
// each other thing that lies in the directory. It reads the header and a few entries of each.
func (x *Index) Files() (files []File, notes []string, err error) {
	names, notes, err := x.list()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		f := x.examine(name)
		if !errors.Is(f.Err, fs.ErrNotExist) { // deleted since it was listed
			files = append(files, f)
		}
	}
	x.forget(names)
	return files, notes, nil
}

// seen is what was found out about a file, and what it looked like then.
type seen struct {
	info   os.FileInfo
	head   Header
	layout Layout
	err    error
}

// list returns the names of index files in order.
func (x *Index) list() (names, notes []string, err error) {
	dir, err := os.ReadDir(x.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("keyindex: %w", err)
	}
	for _, e := range dir {
		switch {
		case !IsFileName(e.Name()):
			notes = append(notes, fmt.Sprintf("%s: not the name of an index file", filepath.Join(x.dir, e.Name())))
		case e.IsDir():
			notes = append(notes, fmt.Sprintf("%s: a directory", filepath.Join(x.dir, e.Name())))
		default:
			names = append(names, e.Name())
		}
	}
	return names, notes, nil
}

// examine looks at one file. A full file does not change any more: what is known about
// it is good as long as its inode, size and time are the same.
func (x *Index) examine(name string) File {
	f := File{Path: filepath.Join(x.dir, name)}
	if info, err := os.Stat(f.Path); err == nil {
		old, ok := x.known(name, info)
		if ok && old.err == nil && old.head.Keys() > 0 && old.head.Count >= old.layout.Entries && old.info.ModTime().Equal(info.ModTime()) {
			f.Size, f.Layout, f.Header = info.Size(), old.layout, old.head
			f.Err = x.trust(f.Header)
			return f
		}
	}
	fd, info, err := openFile(f.Path)
	if err != nil {
		f.Err = &message.DamageError{File: f.Path, Err: err}
		return f
	}
	defer fd.Close()
	f.Size = info.Size()
	open := &file{path: f.Path, at: fd}
	f.Header, f.Err = x.judge(name, open, info)
	f.Layout = open.layout
	return f
}

// known returns what was found out about a file of that name, if it is still that file.
func (x *Index) known(name string, info os.FileInfo) (seen, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	old, ok := x.seen[name]
	return old, ok && os.SameFile(old.info, info) && old.info.Size() == info.Size()
}

// trust asks the caller about a file that looks whole.
func (x *Index) trust(h Header) error {
	if h.Keys() > 0 && x.opt.Trust != nil && !x.opt.Trust(h) {
		return errDistrusted
	}
	return nil
}

// judge reads the header of an open file and finds its layout and whether the two fit. A
// file of no byte is one that is just being made.
func (x *Index) judge(name string, f *file, info os.FileInfo) (h Header, err error) {
	if info.Size() == 0 {
		return h, nil
	}
	if h, err = f.header(); err != nil {
		return h, err
	}
	if h, err = x.confirm(name, f, info, h); err != nil {
		return h, err
	}
	return h, x.trust(h)
}

// confirm finds the layout of a file with that header and whether they fit. What fitted
// once fits as long as file and header are the same; what did not is tried again when the
// file has been written to.
func (x *Index) confirm(name string, f *file, info os.FileInfo, h Header) (Header, error) {
	if old, ok := x.known(name, info); ok {
		if old.err == nil && old.head.Keys() > 0 {
			f.layout = old.layout
		}
		if old.head == h && (old.err == nil || old.info.ModTime().Equal(info.ModTime())) {
			f.layout = old.layout
			return h, old.err
		}
	}
	var err error
	for try := 0; ; try++ {
		if err = x.fit(f, info.Size(), &h); err == nil || try == 3 {
			break
		}
		again, e := f.header()
		if e != nil || again == h {
			break
		}
		h = again // the writer went on while we read
	}
	x.mu.Lock()
	x.seen[name] = seen{info, h, f.layout, err}
	x.mu.Unlock()
	return h, err
}

// fit sets the layout of f, unless it is known, and checks the header against it.
func (x *Index) fit(f *file, size int64, h *Header) error {
	if f.layout.Slots == 0 {
		l, err := findLayout(f.at, size, h, x.opt.Slots)
		if err != nil {
			return &message.DamageError{File: f.path, Err: err}
		}
		f.layout = l
	}
	if h.Keys() == 0 {
		return nil
	}
	return f.fits(h)
}

// forget drops what is known about files that are not there any more.
func (x *Index) forget(names []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name := range x.seen {
		if _, ok := slices.BinarySearch(names, name); !ok {
			delete(x.seen, name)
		}
	}
}
