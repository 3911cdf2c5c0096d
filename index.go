package warmlog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

// indexer gives records to the key index. Dispatch goes on when that fails: a checkpoint then
// catches up, and there is none before.
type indexer struct {
	// mu is held during each step of the delivery: who holds it sees what was delivered up to
	// one position.
	mu sync.Mutex
	w  *keyindex.Writer
	// behind is the physical offset from which on records were not taken; -1 if all were.
	// Guarded by mu.
	behind int64
	// next is the physical offset from which on records are to be given while the store is
	// opened.
	next int64
}

// openIndex opens the index for records from where the log is scanned on, or for all where
// there is none.
func (s *Store) openIndex() error {
	from := s.scanned
	files, err := os.ReadDir(s.paths.Index())
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if st, ok := s.believed(); len(files) == 0 && !(ok && st.Keyless) {
		from = s.log.Min() // it was lost
	}
	if st, ok := s.believed(); ok && from < s.scanned {
		// Who comes after a kill finds a part of the index and must not take it for all.
		st.Dispatched = from
		if err := s.w.state.Write(st); err != nil {
			return err
		}
	}
	w, err := keyindex.OpenWriter(s.paths.Index(), from, keyindex.WriterOptions{Layout: s.options.Index, PastDamage: true})
	if err != nil {
		return err
	}
	s.w.index = &indexer{w: w, behind: -1, next: from}
	if s.abort.Exists || s.w.cut {
		// What was not synced may be there in part, and the log may have ended elsewhere.
		return w.Truncate(from)
	}
	return nil
}

// completeIndex gives the index what reading the end of the log did not give it.
func (s *Store) completeIndex(ctx context.Context) error {
	if s.w.index == nil {
		if err := s.openIndex(); err != nil {
			return err
		}
	}
	from := s.w.index.next
	err := s.indexFrom(ctx, from, s.log.Max())
	if layout.NoRoom(err) {
		s.note("index: the keys of records from %d on wait for space: %v", from, err)
		s.w.index.behind, err = from, nil
	}
	return err
}

// indexFrom gives the index the records of a part of the log. indexer.mu is held, or nobody
// else is there.
func (s *Store) indexFrom(ctx context.Context, from, to int64) error {
	return s.records(ctx, from, to, func(v *message.View, pos int64) error {
		s.report("indexing", pos-from, to-from)
		return s.w.index.w.Add(v)
	}, nil)
}

// addLocked gives the index one record.
func (x *indexer) addLocked(v *message.View) {
	if x.behind < 0 && x.w.Add(v) != nil {
		x.behind = v.PhysicalOffset() // the checkpoint says why
	}
}

// syncIndex brings the index to the disk: the keys of all records below a physical offset. It
// reports whether there is none.
func (s *Store) syncIndex(ctx context.Context, pos int64) (keyless bool, err error) {
	x := s.w.index
	x.mu.Lock()
	err = x.w.Flush()
	if err == nil && x.behind >= 0 && x.behind < pos {
		if err = s.indexFrom(ctx, x.behind, pos); err == nil {
			x.behind = -1
		}
	}
	x.mu.Unlock()
	if err != nil {
		return false, fmt.Errorf("index: %w", err)
	}
	// The files that are large are synced without the lock, which dispatch needs: little is
	// left for Sync.
	names, err := filepath.Glob(filepath.Join(s.paths.Index(), "*"))
	if err == nil {
		err = syncEach(names[max(0, len(names)-2):])
	}
	if err != nil {
		return false, fmt.Errorf("index: %w", err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(names) == 0, x.w.Sync()
}
