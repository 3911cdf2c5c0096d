package pagecache

import (
	"fmt"
	"path"
	"strings"

	_ "github.com/warmlog/warmlog/internal/only64" // sizes of memory are int64 and index slices
)

// Memory is how much memory this process may use, and what of it is used, as read at one
// moment. Sizes are bytes.
type Memory struct {
	// RAM is the memory of the host.
	RAM int64
	// Limit is what this process may use: the smaller of RAM and the tightest limit of a
	// cgroup that it is in.
	Limit int64
	// Group is the cgroup with that limit, for example "cgroup v1 /a/b", by its path in
	// /proc/self/cgroup, without "/.." in front; "or above" follows where v1 tells of a
	// limit on a group that is out of sight. It is empty where RAM is the limit.
	Group string
	// Source is where Limit was read: "cgroup v2 /sys/fs/cgroup/x/memory.max", "sysinfo".
	Source string
	// Used is what is used of Limit, page cache included: by the cgroup with its
	// descendants, else by the host. It is -1 where that is not known.
	Used int64
	// Cache is how much of Used is page cache that the kernel can take back at once: file
	// pages on the active and inactive lists, less those that are dirty or being written.
	// So shared memory, tmpfs and locked pages are not in it; mapped file pages are. The
	// kernel updates its counters every few seconds. It is -1 where that is not known.
	Cache int64
	// Note says what could not be read, so that Limit may be too high. It is empty where
	// there was nothing of the kind.
	Note string
}

// MemoryOptions says what to read. The zero value is the default.
type MemoryOptions struct {
	// HostOnly takes the host's RAM and ignores cgroups, as RocketMQ does.
	HostOnly bool
}

// ReadMemory reads how much memory this process may use. On Linux it opens a dozen small
// files, in about 0.5 ms. What goes wrong with cgroups is no error: RAM, or the limits that
// can be read, are the answer then, and Note says why. The error is that the host's RAM is
// not known: an [errors.ErrUnsupported] on systems other than Linux and darwin.
func ReadMemory(o MemoryOptions) (Memory, error) {
	ram, err := hostRAM()
	if err != nil {
		return Memory{}, fmt.Errorf("RAM of the host: %w", err)
	}
	m := Memory{RAM: ram, Limit: ram, Source: ramSource, Used: -1, Cache: -1}
	m.read(o)
	return m, nil
}

// String returns, for example, "512 MiB of 23.5 GiB (cgroup v1 /a/b), 120 MiB used, 80 MiB
// of it page cache".
func (m Memory) String() string {
	var sb strings.Builder
	sb.WriteString(size(m.Limit))
	switch {
	case m.Group == "":
		sb.WriteString(" (RAM)")
	case path.Base(m.Source) == fileHigh:
		fmt.Fprintf(&sb, " of %s (%s of %s)", size(m.RAM), fileHigh, m.Group)
	default:
		fmt.Fprintf(&sb, " of %s (%s)", size(m.RAM), m.Group)
	}
	if m.Used >= 0 {
		fmt.Fprintf(&sb, ", %s used", size(m.Used))
		if m.Cache >= 0 {
			fmt.Fprintf(&sb, ", %s of it page cache", size(m.Cache))
		}
	}
	if m.Note != "" {
		sb.WriteString("; ")
		sb.WriteString(m.Note)
	}
	return sb.String()
}

// fileHigh is the limit of cgroup v2 above which the kernel reclaims and slows down but
// does not kill.
const fileHigh = "memory.high"
