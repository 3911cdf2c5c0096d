package storetest

import (
	"os"
	"path/filepath"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/keyindex"
)

// queue writes the files of one queue.
type queue struct {
	dir     string
	size    int64  // bytes of a file
	next    int64  // offset of the next message
	written int64  // offset of the first pending entry
	pending []byte // encoded entries that are not on disk
	dirty   bool
}

func (q *queue) flush() error {
	q.dirty = false
	for len(q.pending) > 0 {
		at := q.written * consumequeue.EntrySize % q.size
		n := min(int64(len(q.pending)), q.size-at)
		if err := q.write(q.pending[:n], at); err != nil {
			return err
		}
		q.pending = q.pending[:copy(q.pending, q.pending[n:])]
		q.written += n / consumequeue.EntrySize
	}
	return nil
}

func (q *queue) write(entries []byte, at int64) error {
	path := filepath.Join(q.dir, layout.FileName(q.written*consumequeue.EntrySize-at))
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if os.IsNotExist(err) {
		if err = os.MkdirAll(q.dir, 0o755); err == nil {
			if f, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
				err = f.Truncate(q.size)
			}
		}
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(entries, at)
	return err
}

// indexFile is one file of the key index.
type indexFile struct {
	path    string
	builder *keyindex.Builder
	dirty   bool
}

func (f *indexFile) flush() error {
	if !f.dirty {
		return nil
	}
	f.dirty = false
	if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
		return err
	}
	// In place: a reader may have the file open.
	w, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer w.Close()
	_, err = w.WriteAt(f.builder.Bytes(), 0)
	return err
}
