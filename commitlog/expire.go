package commitlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// RemoveFirst deletes the oldest segment: never the last, which is in use. What somebody
// holds of it stays valid. It returns the bytes that the file had, 0 where nothing was left
// to delete.
//
// The file goes first, then its place in the list: a process that dies in between leaves a
// log that begins later.
func (l *Log) RemoveFirst() (freed int64, err error) {
	l.mu.Lock()
	known := l.Segments()
	if len(known) < 2 {
		l.mu.Unlock()
		return 0, nil
	}
	first := known[0]
	l.mu.Unlock()
	if err := os.Remove(first.Path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("delete segment: %w", err)
	}
	l.mu.Lock()
	known = l.Segments()
	if known[0] == first {
		l.publish(known[1:])
	}
	if held := first.slot.Close(); held != nil {
		l.unlinked = append(l.unlinked, held)
	}
	l.mu.Unlock()
	return first.Size, nil
}

// Unlinked returns the bytes of deleted segments that readers still hold: the file system
// counts them as used.
func (l *Log) Unlinked() (bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.unlinked[:0]
	for _, f := range l.unlinked {
		if f.Held() {
			held = append(held, f)
			bytes += f.Size()
		}
	}
	clear(l.unlinked[len(held):])
	l.unlinked = held
	return bytes
}
