//go:build unix && !linux

package mapfile

import "golang.org/x/sys/unix"

// DefaultLimit returns how many files a cache should have open at most: half of the
// descriptors that a process may have.
func DefaultLimit() int { return max(8, min(descriptors(), 1<<16)/2) }

// descriptors returns how many files a process may have open.
func descriptors() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 256
	}
	return int(min(uint64(r.Cur), 1<<30))
}

// Other limits are not known here.
func mappings() int    { return 0 }
func systemFiles() int { return 0 }
