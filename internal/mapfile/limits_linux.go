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
func DefaultLimit() int {
	maps := 65530
	if b, err := os.ReadFile("/proc/sys/vm/max_map_count"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			maps = n
		}
	}
	files := 256
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err == nil {
		files = int(min(r.Cur, 1<<30))
	}
	return max(8, min(maps, files)/2)
}
