package pagecache

import (
	"os"

	"golang.org/x/sys/unix"
)

const ramSource = "hw.memsize"

// hostRAM returns the RAM of the host in bytes, from sysctl(3).
func hostRAM() (int64, error) {
	n, err := unix.SysctlUint64(ramSource)
	if err != nil {
		return 0, os.NewSyscallError("sysctl "+ramSource, err)
	}
	return int64(n), nil
}

// read has nothing to add: there are no cgroups here.
func (m *Memory) read(MemoryOptions) {}
