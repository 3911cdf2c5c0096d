package pagecache

import (
	"strconv"
	"strings"
)

// counters names what makes up the page cache that can be taken back at once, in the
// files that the kernel writes: the first two are added, the others subtracted.
type counters [4]string

var (
	countersV1   = counters{"total_active_file", "total_inactive_file", "total_dirty", "total_writeback"}
	countersV2   = counters{"active_file", "inactive_file", "file_dirty", "file_writeback"}
	countersHost = counters{"Active(file):", "Inactive(file):", "Dirty:", "Writeback:"}
)

// cache returns the bytes of page cache that text counts, at most used; -1 where text
// does not say.
func (c counters) cache(text string, used int64) int64 {
	n := int64(0)
	for i, name := range c {
		v := counter(text, name)
		switch {
		case v < 0:
			return -1
		case i < 2:
			n += v
		default:
			n -= v
		}
	}
	return max(0, min(n, used))
}

// hostUse reads from /proc/meminfo what the host uses and what of it is page cache.
func hostUse(text string) (used, cache int64) {
	total, free := counter(text, "MemTotal:"), counter(text, "MemFree:")
	if total < 0 || free < 0 {
		return -1, -1
	}
	used = max(0, total-free)
	return used, countersHost.cache(text, used)
}

// counter returns the number that text has on the line of a name, in bytes; -1 where it
// has none. Lines are those of memory.stat, "name 4096", and of meminfo, "name: 4 kB".
func counter(text, name string) int64 {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != name {
			continue
		}
		unit := int64(1)
		if len(f) > 2 && f[2] == "kB" {
			unit = 1024
		}
		v, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil || v < 0 || v > noLimit/unit {
			return -1
		}
		return v * unit
	}
	return -1
}
