//go:build unix && !linux

package layout

import "golang.org/x/sys/unix"

// getLock asks about locks of other processes.
const getLock = unix.F_GETLK

const setLock = unix.F_SETLK
