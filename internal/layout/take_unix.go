//go:build unix

package layout

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked says that another process, or another store of this one, writes the directory.
var ErrLocked = errors.New("the store is in use")

// Lock is held by the one who writes a store.
type Lock struct {
	file  *os.File
	owner string // the file that names this process
}

// Take takes the lock of a store, as RocketMQ does: exclusively, byte 0 of a file that says
// "lock". It waits for nobody. The error of one that is held is an [ErrLocked] and names the
// process that holds it, if that is known.
func Take(s Store) (*Lock, error) {
	path := s.Lock()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	err = unix.FcntlFlock(f.Fd(), setLock, &lock)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		f.Close()
		owner := ReadOwner(s.Owner())
		if _, pid, askErr := Holder(path); askErr == nil && pid > 0 && pid != owner.PID {
			owner = Owner{PID: pid} // a broker's
		}
		if name := owner.String(); name != "" {
			return nil, fmt.Errorf("%s: %w by %s", path, ErrLocked, name)
		}
		return nil, fmt.Errorf("%s: %w", path, ErrLocked)
	}
	if err == nil {
		_, err = f.WriteAt([]byte("lock"), 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	writeOwner(s.Owner())
	return &Lock{f, s.Owner()}, nil
}

// Release gives the lock back.
func (l *Lock) Release() error {
	_ = os.Remove(l.owner) // while it is held: the next one's is not removed
	return l.file.Close()
}
