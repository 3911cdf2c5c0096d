package warmlog

import (
	"errors"

	"github.com/warmlog/warmlog/commitlog"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/message"
)

var (
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("store is closed")

	// ErrUnsupported says that the store uses something that this engine does not have.
	ErrUnsupported = layout.ErrUnsupported

	// ErrInUse says that another process, or another store of this one, writes the store.
	ErrInUse = layout.ErrLocked

	// ErrDamaged says that stored bytes are not what the format says. The error is a
	// *message.DamageError, with file and offset, or wraps one.
	ErrDamaged = message.ErrDamaged

	// ErrGone says that a physical offset lies below what the log still has.
	ErrGone = commitlog.ErrGone

	// ErrBeyond says that a physical offset lies beyond the end of the log.
	ErrBeyond = commitlog.ErrBeyond

	// ErrLimit says that the process has as many open files or mappings as it may have. The error
	// names the limit, its value and how many the stores of this process use. Nothing was
	// begun, and the same succeeds when there are fewer, or the limit was raised.
	ErrLimit = mapfile.ErrLimit

	// ErrUnknownQueue says that the store has no such queue.
	ErrUnknownQueue = errors.New("unknown queue")
)
