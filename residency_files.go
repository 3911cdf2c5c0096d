package warmlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/pagecache"
)

// look is one look at a store's files.
type look struct {
	*ResidencyWatch
	ctx    context.Context
	paths  layout.Store
	report *ResidencyReport
}

func (l *look) note(format string, args ...any) {
	l.report.Notes = append(l.report.Notes, fmt.Sprintf(format, args...))
}

// failed notes what could not be looked at.
func (l *look) failed(err error) {
	l.note("%v", err)
	l.report.Failed++
}

func (l *look) segments() error {
	err := l.directory(l.paths.CommitLog(), "segment", true, func(base int64, f FileResidency) {
		for i := range f.Runs {
			f.Runs[i][0] += base
			f.Runs[i][1] += base
		}
		l.report.Segments = append(l.report.Segments, SegmentResidency{f, base, base + f.Bytes})
	})
	slices.SortFunc(l.report.Segments, func(a, b SegmentResidency) int { return cmp.Compare(a.From, b.From) })
	return err
}

func (l *look) queues() error {
	root := l.paths.ConsumeQueue()
	l.unreadable(root)
	queues, err := consumequeue.List(root)
	if err != nil {
		l.failed(err)
		return nil
	}
	slices.SortFunc(queues, func(a, b consumequeue.Named) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.ID, b.ID))
	})
	for _, q := range queues {
		err := l.directory(consumequeue.Dir(root, q.Topic, q.ID), "queue file", false, func(base int64, f FileResidency) {
			if base%consumequeue.EntrySize != 0 {
				l.note("%s: its offset is no multiple of %d, ignored", f.File, consumequeue.EntrySize)
				return
			}
			l.report.Queues = append(l.report.Queues,
				QueueResidency{f, q.Topic, q.ID, base / consumequeue.EntrySize, (base + f.Bytes) / consumequeue.EntrySize})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unreadable notes the topics that cannot be listed, over which [consumequeue.List] passes.
func (l *look) unreadable(root string) {
	topics, err := os.ReadDir(root)
	if err != nil {
		return // List says why
	}
	for _, topic := range topics {
		d, err := os.Open(filepath.Join(root, topic.Name()))
		if err == nil {
			d.Close()
		} else if !errors.Is(err, fs.ErrNotExist) {
			l.failed(err)
		}
	}
}

// directory looks at the files of a directory that are named for an offset, and adds them, in
// the order of their names. A directory that is not there has none. The error is that of ctx.
func (l *look) directory(dir, what string, foreign bool, add func(base int64, f FileResidency)) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if foreign {
			l.note("%s: not there", dir)
		}
		return nil
	case errors.Is(err, syscall.ENOTDIR) && !foreign:
		return nil
	case err != nil:
		l.failed(err)
		return nil
	}
	for _, e := range entries {
		if err := l.ctx.Err(); err != nil {
			return fmt.Errorf("residency of %s: %w", l.dir, err)
		}
		path := filepath.Join(dir, e.Name())
		base, ok := layout.ParseFileName(e.Name())
		if !ok {
			if foreign {
				l.note("%s: not a %s, ignored", path, what)
			}
			continue
		}
		f, ok := l.file(path, what, e.Type()&fs.ModeSymlink != 0)
		if ok && f.Bytes > math.MaxInt64-base {
			l.note("%s: it would end beyond all offsets, ignored", path)
		} else if ok {
			add(base, f)
		}
	}
	return nil
}

// file looks at a file; false where there is none to be told of.
func (l *look) file(path, what string, link bool) (FileResidency, bool) {
	r := FileResidency{File: path}
	st, err := os.Stat(path) // follows a link, as the engine does: files may lie on another disk
	switch {
	case errors.Is(err, fs.ErrNotExist) && link:
		l.note("%s: a symbolic link that leads nowhere, ignored", path)
		return r, false
	case errors.Is(err, fs.ErrNotExist):
		l.note("%s: deleted while the store was looked at", path)
		return r, false
	case err != nil:
		l.failed(err)
		return r, false
	case !st.Mode().IsRegular():
		l.note("%s: has a %s's name but is no file, ignored", path, what)
		return r, false
	}
	place := path
	if link {
		if place, err = filepath.EvalSymlinks(path); err != nil {
			place = path
		}
		l.note("%s: a symbolic link; looked at is what it leads to, %s", path, place)
	}
	r.Bytes, r.Written = st.Size(), st.Size()
	// Not waiting, should it have become a pipe.
	f, err := os.OpenFile(place, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		l.note("%s: deleted while the store was looked at", path)
		return r, false
	}
	if err != nil {
		r.Why = err.Error()
		l.failed(err)
		return r, true
	}
	defer f.Close()
	ok := l.open(&r, f, place)
	return r, ok
}

// open looks at a file that is open; false where it was deleted meanwhile.
func (l *look) open(r *FileResidency, f *os.File, place string) bool {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		r.Why = cmp.Or(err, errors.New("is no file any more")).Error()
		l.failed(fmt.Errorf("%s: %s", r.File, r.Why))
		return true
	}
	r.Bytes = st.Size()
	r.Written = mapfile.DataEnd(f, r.Bytes)
	p, ok := l.prober(place, st)
	if !ok {
		l.note("%s: deleted while the store was looked at", r.File)
		return false
	}
	r.Runs, r.Known, err = p.Runs(nil, f, nil, 0, r.Bytes)
	switch {
	case err != nil:
		r.Why = err.Error()
		l.failed(err)
	case !r.Known && p.Method() == 0:
		r.Why = p.String()
	case !r.Known:
		r.Why = p.Method().String() + ": the kernel does not tell of this file"
		l.failed(fmt.Errorf("%s: %s", r.File, r.Why))
	}
	for _, run := range r.Runs {
		r.Resident += run[1] - run[0]
	}
	return true
}

// proberKey is what decides whether a method tells the truth about a file.
type proberKey struct {
	dev      uint64
	uid, gid uint32
	mode     fs.FileMode
}

func keyOf(st fs.FileInfo) proberKey {
	sys := st.Sys().(*syscall.Stat_t)
	return proberKey{uint64(sys.Dev), sys.Uid, sys.Gid, st.Mode().Perm()}
}

// prober returns who is to be asked about a file, given by a path that is no link itself; false
// where the file is no longer there.
func (l *look) prober(path string, st fs.FileInfo) (*pagecache.Prober, bool) {
	key := keyOf(st)
	if p, ok := l.probers[key]; ok {
		return p.Prober, true
	}
	// The directory that the file is in: a log may have a disk of its own. Where the file alone
	// was mounted into it there is no other place to try.
	dir := filepath.Dir(path)
	if in, err := os.Stat(dir); err != nil || keyOf(in).dev != key.dev {
		dir = ""
	}
	p := pagecache.NewProber(pagecache.ProberOptions{Dir: dir, File: path, Unnamed: true, Methods: l.options.Methods})
	if _, err := os.Lstat(path); err != nil && p.Method() == 0 {
		return nil, false // so that it was not found out
	}
	l.probers[key] = ResidencyProber{path, p}
	l.order = append(l.order, key)
	return p, true
}
