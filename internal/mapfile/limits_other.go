//go:build unix && !linux

package mapfile

import "golang.org/x/sys/unix"

// DefaultLimit returns how many files a cache should have open at most: half of the
// descriptors that a process may have.
func DefaultLimit() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 128
	}
	return max(8, int(min(uint64(r.Cur), 1<<16))/2)
}
