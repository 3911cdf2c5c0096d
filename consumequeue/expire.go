package consumequeue

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/warmlog/warmlog/internal/mapfile"
)

// Expire deletes the queue's files of which no entry names a record that the log still has.
// The last file stays, so that numbering goes on. It returns the bytes of what it deleted.
func (q *Queue) Expire() (freed int64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	st, err := q.stateLocked()
	if err != nil {
		return 0, err
	}
	f, logMin := st.files, q.log.Min()
	gone := 0
	for gone+1 < len(f.slots) {
		if s := f.slots[gone]; s != nil {
			last, err := f.read(f.first+int64(gone+1)*f.per-1, 1, nil)
			if err != nil {
				return freed, err
			}
			if len(last) == EntrySize {
				if e := Decode(last); !e.Real() && e != Filler || e.Offset >= logMin {
					break
				}
			}
			if err := os.Remove(s.Path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return freed, err
			}
			freed += f.per * EntrySize
		}
		gone++
	}
	if gone > 0 {
		next := *f
		next.slots, next.first = slices.Clone(f.slots[gone:]), f.first+int64(gone)*f.per
		q.state.Store(&state{&next, st.runs})
		for _, s := range f.slots[:gone] {
			if s != nil {
				s.Close()
			}
		}
	}
	return freed, nil
}

// Purge deletes the files of a queue's directory that begin with an entry of a record below a
// physical offset: they are left of a life of the queue that ended there.
func Purge(dir string, fileSize, pos int64) error {
	f, err := listFiles(dir, fileSize, mapfile.NewCache(0))
	if err != nil {
		return err
	}
	defer f.close()
	for i, s := range f.slots {
		if s == nil {
			continue
		}
		b, err := f.read(f.first+int64(i)*f.per, 1, nil)
		if err != nil {
			return err
		}
		if len(b) == EntrySize {
			if e := Decode(b); !e.Real() || e.Offset >= pos {
				continue
			}
		}
		if err := os.Remove(s.Path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Clear makes the queue one that never had a message: its files are deleted and its
// numbering begins with 0: see [Queue.Next]. What readers hold stays valid.
func (q *Queue) Clear() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	st, err := q.stateLocked()
	if err != nil {
		return err
	}
	q.state.Store(&state{files: &files{dir: q.dir, per: q.FileEntries()}})
	q.minMax.Store(&bounds{0, 0, q.log.Min()})
	q.seenFrom, q.seenTo, q.unflushed = -1, -1, false
	q.checked.Store(0)
	q.exists.Store(false)
	st.files.close()
	return os.RemoveAll(q.dir)
}
