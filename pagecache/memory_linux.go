package pagecache

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const ramSource = "sysinfo"

// hostRAM returns the RAM of the host in bytes, from sysinfo(2).
func hostRAM() (int64, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, os.NewSyscallError("sysinfo", err)
	}
	return int64(info.Totalram) * int64(info.Unit), nil
}

func (m *Memory) read(o MemoryOptions) { m.readFrom(os.DirFS("/"), os.Getpid(), o) }

// readFrom completes m, in which RAM is the limit so far. root is the root directory, pid
// the number of this process.
func (m *Memory) readFrom(root fs.FS, pid int, o MemoryOptions) {
	if !o.HostOnly {
		t := tightest(root, pid)
		m.Note = t.note()
		if t.limit < m.RAM {
			m.Limit, m.Group, m.Source = t.limit, t.group, t.source
			m.Used, m.Cache = t.used(root)
			return
		}
	}
	if text, err := readFile(root, "/proc/meminfo"); err == nil {
		m.Used, m.Cache = hostUse(text)
	}
}
