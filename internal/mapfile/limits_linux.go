package mapfile

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// DefaultLimit returns how many files a cache should have open at most: half of the
// mappings that the kernel allows a process (the Go runtime needs some of its own and dies
// without), and half of the descriptors.
func DefaultLimit() int { return max(8, min(mappings(), descriptors())/2) }

// descriptors returns how many files a process may have open.
func descriptors() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 256
	}
	return int(min(r.Cur, 1<<30))
}

// mappings returns how many mappings a process may have.
func mappings() int { return setting("vm/max_map_count", 65530) }

// systemFiles returns how many files all processes may have open.
func systemFiles() int { return setting("fs/file-max", 0) }

// setting reads a number of the kernel's; otherwise where it cannot, as without descriptors.
func setting(name string, otherwise int) int {
	if b, err := os.ReadFile("/proc/sys/" + name); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			return n
		}
	}
	return otherwise
}
