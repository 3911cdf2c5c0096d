package mapfile

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrLimit says that the process has as many open files, or mappings, as it may have. Nothing
// is broken by it: what was asked for succeeds when others were closed, or the limit was raised.
var ErrLimit = errors.New("a limit of the process is reached")

// errMapping is in the errors of mapping a file.
var errMapping = errors.New("map")

// AtLimit reports whether an error came of a limit. What it was told of was not even begun.
func AtLimit(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, errMapping) && errors.Is(err, syscall.ENOMEM)
}

// Explained returns an error that came of a limit with an [ErrLimit], the limit's name and value
// and what uses it up. Any other is returned as it is.
func Explained(err error) error {
	if !AtLimit(err) || errors.Is(err, ErrLimit) {
		return err
	}
	name, value := "RLIMIT_NOFILE", descriptors()
	switch {
	case errors.Is(err, syscall.ENFILE):
		name, value = "fs.file-max", systemFiles()
	case errors.Is(err, syscall.ENOMEM):
		name, value = "vm.max_map_count", mappings()
	}
	return fmt.Errorf("%w: %w; %s is %d, and %d of them are segments and queue files that are mapped here", ErrLimit, err, name, value, Mapped())
}
