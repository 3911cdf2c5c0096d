package pagecache

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

// denyFS is a file system in which some files may not be read.
type denyFS struct {
	fstest.MapFS
	denied map[string]bool
}

func (d denyFS) Open(name string) (fs.File, error) {
	if d.denied[name] {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EACCES}
	}
	return d.MapFS.Open(name)
}

func (d denyFS) ReadFile(name string) ([]byte, error) {
	if d.denied[name] {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EACCES}
	}
	return d.MapFS.ReadFile(name)
}

// layout makes a file system of lines of "path: content". Lines of one path are lines of
// one file; the content ! makes it unreadable. A directory with a file of the memory
// controller is a group and has a list of processes.
func layout(t testing.TB, text string) fs.FS {
	d := denyFS{fstest.MapFS{}, map[string]bool{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		file, content, ok := strings.Cut(line, ": ")
		if !ok {
			t.Fatalf("no path: %q", line)
		}
		file = strings.TrimPrefix(file, "/")
		d.denied[file] = content == "!"
		f := d.MapFS[file]
		if f == nil {
			f = &fstest.MapFile{}
			d.MapFS[file] = f
		}
		f.Data = append(f.Data, content+"\n"...)
		if strings.HasPrefix(path.Base(file), "memory.") {
			if procs := path.Join(path.Dir(file), "cgroup.procs"); d.MapFS[procs] == nil {
				d.MapFS[procs] = &fstest.MapFile{}
			}
		}
	}
	return d
}

const (
	v2At   = "/proc/self/mountinfo: 29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	v1At   = "/proc/self/mountinfo: 34 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" + v1Mem
	v1Mem  = "/proc/self/mountinfo: 35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	hybrid = v1At + "/proc/self/mountinfo: 41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
	v1No   = "9223372036854771712" // 2^63 less one, rounded to pages of 4 KiB
	info   = "/proc/meminfo: MemTotal: 25165824 kB\n/proc/meminfo: MemFree: 15728640 kB\n"
)

// The host has 24 GiB in all of them.
var layouts = []struct {
	name, files string
	want        string // Memory.String
	source      string
}{
	{"v2, own group", v2At + `
		/proc/self/cgroup: 0::/a/b
		/sys/fs/cgroup/a/b/memory.max: 536870912
		/sys/fs/cgroup/a/b/memory.high: max
		/sys/fs/cgroup/a/b/memory.current: 125829120
		/sys/fs/cgroup/a/b/memory.stat: anon 1
		/sys/fs/cgroup/a/b/memory.stat: file 104857600
		/sys/fs/cgroup/a/b/memory.stat: shmem 4194304
		/sys/fs/cgroup/a/b/memory.stat: file_dirty 2097152
		/sys/fs/cgroup/a/b/memory.stat: file_writeback 1048576
		/sys/fs/cgroup/a/b/memory.stat: inactive_file 66060288
		/sys/fs/cgroup/a/b/memory.stat: active_file 20971520
		/sys/fs/cgroup/a/b/memory.stat: unevictable 8388608
		/sys/fs/cgroup/a/memory.max: max
		/sys/fs/cgroup/a/memory.high: max`,
		"512 MiB of 24 GiB (cgroup v2 /a/b), 120 MiB used, 80 MiB of it page cache",
		"cgroup v2 /sys/fs/cgroup/a/b/memory.max"},
	{"v2, parent only", v2At + `
		/proc/self/cgroup: 0::/a/b
		/sys/fs/cgroup/a/b/memory.max: max
		/sys/fs/cgroup/a/b/memory.current: 1048576
		/sys/fs/cgroup/a/memory.max: 1073741824
		/sys/fs/cgroup/a/memory.current: 2097152`,
		"1 GiB of 24 GiB (cgroup v2 /a), 2 MiB used",
		"cgroup v2 /sys/fs/cgroup/a/memory.max"},
	{"v2, tighter on the parent", v2At + `
		/proc/self/cgroup: 0::/a/b
		/sys/fs/cgroup/a/b/memory.max: 2147483648
		/sys/fs/cgroup/a/memory.max: 1073741824`,
		"1 GiB of 24 GiB (cgroup v2 /a)", "cgroup v2 /sys/fs/cgroup/a/memory.max"},
	{"v2, tighter on the grandchild", v2At + `
		/proc/self/cgroup: 0::/a/b/c
		/sys/fs/cgroup/a/b/c/memory.max: 1073741824
		/sys/fs/cgroup/a/memory.max: 2147483648`,
		"1 GiB of 24 GiB (cgroup v2 /a/b/c)", "cgroup v2 /sys/fs/cgroup/a/b/c/memory.max"},
	{"v2, no controller in the leaf", v2At + `
		/proc/self/cgroup: 0::/a/b
		/sys/fs/cgroup/a/b/cgroup.procs: 42
		/sys/fs/cgroup/a/memory.max: 1073741824`,
		"1 GiB of 24 GiB (cgroup v2 /a)", "cgroup v2 /sys/fs/cgroup/a/memory.max"},
	{"v2, high", v2At + `
		/proc/self/cgroup: 0::/a
		/sys/fs/cgroup/a/memory.max: 1073741824
		/sys/fs/cgroup/a/memory.high: 805306368`,
		"768 MiB of 24 GiB (memory.high of cgroup v2 /a)", "cgroup v2 /sys/fs/cgroup/a/memory.high"},
	{"v2, high above max", v2At + `
		/proc/self/cgroup: 0::/a
		/sys/fs/cgroup/a/memory.max: 1073741824
		/sys/fs/cgroup/a/memory.high: 2147483648`,
		"1 GiB of 24 GiB (cgroup v2 /a)", "cgroup v2 /sys/fs/cgroup/a/memory.max"},
	{"v2, max everywhere", v2At + info + `
		/proc/self/cgroup: 0::/a/b
		/sys/fs/cgroup/a/b/memory.max: max
		/sys/fs/cgroup/a/memory.max: max`,
		"24 GiB (RAM), 9 GiB used", "sysinfo"},
	{"v2, the top", v2At + `
		/proc/self/cgroup: 0::/
		/sys/fs/cgroup/cgroup.procs: 1`,
		"24 GiB (RAM)", "sysinfo"},
	{"v2, a limit of nothing", v2At + `
		/proc/self/cgroup: 0::/a
		/sys/fs/cgroup/a/memory.max: 0`,
		"0 B of 24 GiB (cgroup v2 /a)", "cgroup v2 /sys/fs/cgroup/a/memory.max"},
	{"v2, above RAM", v2At + `
		/proc/self/cgroup: 0::/a
		/sys/fs/cgroup/a/memory.max: 68719476736`,
		"24 GiB (RAM)", "sysinfo"},
	{"v2, just RAM", v2At + `
		/proc/self/cgroup: 0::/a
		/sys/fs/cgroup/a/memory.max: 25769803776`,
		"24 GiB (RAM)", "sysinfo"},
	{"v2, more dirty than cached", v2At + `
		/proc/self/cgroup: 0::/a
		/sys/fs/cgroup/a/memory.max: 1073741824
		/sys/fs/cgroup/a/memory.current: 4096
		/sys/fs/cgroup/a/memory.stat: active_file 0
		/sys/fs/cgroup/a/memory.stat: inactive_file 4096
		/sys/fs/cgroup/a/memory.stat: file_dirty 8192
		/sys/fs/cgroup/a/memory.stat: file_writeback 0`,
		"1 GiB of 24 GiB (cgroup v2 /a), 4 KiB used, 0 B of it page cache", "cgroup v2 /sys/fs/cgroup/a/memory.max"},
	{"v2, a container of its own namespace",
		"/proc/self/mountinfo: 29 23 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n" + `
		/proc/self/cgroup: 0::/
		/sys/fs/cgroup/memory.max: 536870912`,
		"512 MiB of 24 GiB (cgroup v2 /)", "cgroup v2 /sys/fs/cgroup/memory.max"},
	{"v2, the host's namespace, only the own group mounted",
		"/proc/self/mountinfo: 29 23 0:26 /kube/pod1/c1 /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n" + `
		/proc/self/cgroup: 0::/kube/pod1/c1/sub
		/sys/fs/cgroup/sub/memory.max: max
		/sys/fs/cgroup/memory.max: 536870912`,
		"512 MiB of 24 GiB (cgroup v2 /kube/pod1/c1)", "cgroup v2 /sys/fs/cgroup/memory.max"},
	{"v2, names that need escapes",
		`/proc/self/mountinfo: 29 23 0:26 /a\040b /sys/fs/c\134group\011x rw - cgroup2 cgroup rw` + "\n" + `
		/proc/self/cgroup: 0::/a b/c:d\x2d1
		/sys/fs/c\group	x/c:d\x2d1/memory.max: 536870912`,
		`512 MiB of 24 GiB (cgroup v2 /a b/c:d\x2d1)`, `cgroup v2 /sys/fs/c\group	x/c:d\x2d1/memory.max`},
	{"v2, above the namespace, seen",
		"/proc/self/mountinfo: 29 23 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup rw\n" + `
		/proc/self/cgroup: 0::/../../x/y
		/sys/fs/cgroup/x/y/memory.max: 1073741824
		/sys/fs/cgroup/x/memory.max: 536870912`,
		"512 MiB of 24 GiB (cgroup v2 /x)", "cgroup v2 /sys/fs/cgroup/x/memory.max"},
	{"v2, beside the namespace, seen",
		"/proc/self/mountinfo: 29 23 0:26 /../x /sys/fs/cgroup rw - cgroup2 cgroup rw\n" + `
		/proc/self/cgroup: 0::/../x/y
		/sys/fs/cgroup/y/memory.max: max
		/sys/fs/cgroup/memory.max: 536870912`,
		"512 MiB of 24 GiB (cgroup v2 /x)", "cgroup v2 /sys/fs/cgroup/memory.max"},
	{"v2, below the mount by levels without a name",
		"/proc/self/mountinfo: 29 23 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup rw\n" + `
		/proc/self/cgroup: 0::/c
		/sys/fs/cgroup/other/b/c/cgroup.procs: 7
		/sys/fs/cgroup/a/b/c/cgroup.procs: 1
		/sys/fs/cgroup/a/b/c/cgroup.procs: 42
		/sys/fs/cgroup/a/b/c/memory.max: max
		/sys/fs/cgroup/a/b/memory.max: 536870912
		/sys/fs/cgroup/other/b/memory.max: 4096`,
		"512 MiB of 24 GiB (cgroup v2 /a/b)", "cgroup v2 /sys/fs/cgroup/a/b/memory.max"},
	{"v2, levels without a name, not found",
		"/proc/self/mountinfo: 29 23 0:26 /.. /sys/fs/cgroup rw - cgroup2 cgroup rw\n" + `
		/proc/self/cgroup: 0::/
		/sys/fs/cgroup/a/cgroup.procs: 421
		/sys/fs/cgroup/a/memory.max: 4096`,
		"24 GiB (RAM); cgroup limits are not all known: cgroup v2 / is not to be found below /sys/fs/cgroup", "sysinfo"},
	{"v2, outside of the namespace and the mount", v2At + `
		/proc/self/cgroup: 0::/../..
		/sys/fs/cgroup/memory.max: 4096`,
		"24 GiB (RAM); cgroup limits are not all known: cgroup v2 /../.. is not to be found below /sys/fs/cgroup", "sysinfo"},
	{"v2, a group beside the mount",
		"/proc/self/mountinfo: 29 23 0:26 /a /sys/fs/cgroup rw - cgroup2 cgroup rw\n" + `
		/proc/self/cgroup: 0::/ab
		/sys/fs/cgroup/memory.max: 4096`,
		"24 GiB (RAM); cgroup limits are not all known: cgroup v2 /ab is not to be found below /sys/fs/cgroup", "sysinfo"},
	{"v2, a hidden mount and the one that sees most",
		"/proc/self/mountinfo: 29 23 0:26 / /hidden rw - cgroup2 cgroup rw\n" +
			"/proc/self/mountinfo: 30 23 0:26 /a/b /narrow rw - cgroup2 cgroup rw\n" +
			"/proc/self/mountinfo: 31 23 0:26 /a /wide rw - cgroup2 cgroup rw\n" + `
		/proc/self/cgroup: 0::/a/b
		/narrow/memory.max: max
		/wide/b/memory.max: max
		/wide/memory.max: 536870912
		/hidden/file: x`,
		"512 MiB of 24 GiB (cgroup v2 /a)", "cgroup v2 /wide/memory.max"},
	{"v2, the leaf unreadable", v2At + `
		/proc/self/cgroup: 0::/a/b
		/sys/fs/cgroup/a/b/memory.max: !
		/sys/fs/cgroup/a/memory.max: 1073741824`,
		"1 GiB of 24 GiB (cgroup v2 /a); cgroup limits are not all known: /sys/fs/cgroup/a/b/memory.max: permission denied",
		"cgroup v2 /sys/fs/cgroup/a/memory.max"},
	{"v2, all unreadable", v2At + `
		/proc/self/cgroup: 0::/a
		/sys/fs/cgroup/a/memory.max: !
		/sys/fs/cgroup/a/memory.high: !`,
		"24 GiB (RAM); cgroup limits are not all known: /sys/fs/cgroup/a/memory.max: permission denied; /sys/fs/cgroup/a/memory.high: permission denied",
		"sysinfo"},
	{"v2, nonsense", v2At + `
		/proc/self/cgroup: 0::/a
		/sys/fs/cgroup/a/memory.max: lots`,
		`24 GiB (RAM); cgroup limits are not all known: /sys/fs/cgroup/a/memory.max: "lots" is no limit`, "sysinfo"},
	{"v2, use unreadable", v2At + `
		/proc/self/cgroup: 0::/a
		/sys/fs/cgroup/a/memory.max: 1073741824
		/sys/fs/cgroup/a/memory.current: !`,
		"1 GiB of 24 GiB (cgroup v2 /a)", "cgroup v2 /sys/fs/cgroup/a/memory.max"},

	{"v1, own group", v1At + `
		/proc/self/cgroup: 5:cpu,cpuacct:/other
		/proc/self/cgroup: 4:memory:/a/b
		/proc/self/cgroup: 1:name=systemd:/systemd
		/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes: 536870912
		/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes: 125829120
		/sys/fs/cgroup/memory/a/b/memory.stat: cache 1
		/sys/fs/cgroup/memory/a/b/memory.stat: active_file 1
		/sys/fs/cgroup/memory/a/b/memory.stat: hierarchical_memory_limit 536870912
		/sys/fs/cgroup/memory/a/b/memory.stat: total_cache 104857600
		/sys/fs/cgroup/memory/a/b/memory.stat: total_shmem 4194304
		/sys/fs/cgroup/memory/a/b/memory.stat: total_dirty 2097152
		/sys/fs/cgroup/memory/a/b/memory.stat: total_writeback 1048576
		/sys/fs/cgroup/memory/a/b/memory.stat: total_inactive_file 66060288
		/sys/fs/cgroup/memory/a/b/memory.stat: total_active_file 20971520
		/sys/fs/cgroup/memory/a/memory.limit_in_bytes: ` + v1No + `
		/sys/fs/cgroup/memory/memory.limit_in_bytes: ` + v1No,
		"512 MiB of 24 GiB (cgroup v1 /a/b), 120 MiB used, 80 MiB of it page cache",
		"cgroup v1 /sys/fs/cgroup/memory/a/b/memory.limit_in_bytes"},
	{"v1, parent only", v1At + `
		/proc/self/cgroup: 4:memory:/a/b
		/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes: ` + v1No + `
		/sys/fs/cgroup/memory/a/b/memory.stat: hierarchical_memory_limit 1073741824
		/sys/fs/cgroup/memory/a/memory.use_hierarchy: 1
		/sys/fs/cgroup/memory/a/memory.limit_in_bytes: 1073741824
		/sys/fs/cgroup/memory/memory.limit_in_bytes: ` + v1No,
		"1 GiB of 24 GiB (cgroup v1 /a)", "cgroup v1 /sys/fs/cgroup/memory/a/memory.limit_in_bytes"},
	{"v1, parent that does not bind", v1At + `
		/proc/self/cgroup: 4:memory:/a/b
		/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes: 2147483648
		/sys/fs/cgroup/memory/a/memory.use_hierarchy: 0
		/sys/fs/cgroup/memory/a/memory.limit_in_bytes: 1073741824`,
		"2 GiB of 24 GiB (cgroup v1 /a/b)", "cgroup v1 /sys/fs/cgroup/memory/a/b/memory.limit_in_bytes"},
	{"v1, leaf that would not bind others", v1At + `
		/proc/self/cgroup: 4:memory:/a
		/sys/fs/cgroup/memory/a/memory.use_hierarchy: 0
		/sys/fs/cgroup/memory/a/memory.limit_in_bytes: 1073741824`,
		"1 GiB of 24 GiB (cgroup v1 /a)", "cgroup v1 /sys/fs/cgroup/memory/a/memory.limit_in_bytes"},
	{"v1, above what is mounted",
		"/proc/self/mountinfo: 35 31 0:32 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n" + `
		/proc/self/cgroup: 4:memory:/docker/1
		/sys/fs/cgroup/memory/memory.limit_in_bytes: ` + v1No + `
		/sys/fs/cgroup/memory/memory.usage_in_bytes: 4096
		/sys/fs/cgroup/memory/memory.stat: hierarchical_memory_limit 1073741824`,
		"1 GiB of 24 GiB (cgroup v1 /docker/1 or above)", "cgroup v1 /sys/fs/cgroup/memory/memory.stat hierarchical_memory_limit"},
	{"v1, no limit of 4 KiB pages", v1At + `
		/proc/self/cgroup: 4:memory:/a
		/sys/fs/cgroup/memory/a/memory.limit_in_bytes: ` + v1No + `
		/sys/fs/cgroup/memory/a/memory.stat: hierarchical_memory_limit ` + v1No,
		"24 GiB (RAM)", "sysinfo"},
	{"v1, no limit of 64 KiB pages", v1At + `
		/proc/self/cgroup: 4:memory:/a
		/sys/fs/cgroup/memory/a/memory.limit_in_bytes: 9223372036854710272`,
		"24 GiB (RAM)", "sysinfo"},
	{"v1, no limit of an old kernel", v1At + `
		/proc/self/cgroup: 4:memory:/a
		/sys/fs/cgroup/memory/a/memory.limit_in_bytes: 18446744073709551615`,
		"24 GiB (RAM)", "sysinfo"},
	{"v1, with another controller",
		"/proc/self/mountinfo: 35 31 0:32 / /cg/both rw - cgroup cgroup rw,cpuset,memory\n" + `
		/proc/self/cgroup: 4:cpuset,memory:/a
		/cg/both/a/memory.limit_in_bytes: 536870912`,
		"512 MiB of 24 GiB (cgroup v1 /a)", "cgroup v1 /cg/both/a/memory.limit_in_bytes"},
	{"v1, not mounted", "/proc/self/mountinfo: 34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" + `
		/proc/self/cgroup: 4:memory:/a`,
		"24 GiB (RAM); cgroup limits are not all known: no cgroup v1 for memory is mounted", "sysinfo"},

	{"hybrid, memory in v1", hybrid + `
		/proc/self/cgroup: 4:memory:/a
		/proc/self/cgroup: 0::/u
		/sys/fs/cgroup/unified/u/cgroup.procs: 42
		/sys/fs/cgroup/memory/a/memory.limit_in_bytes: 536870912`,
		"512 MiB of 24 GiB (cgroup v1 /a)", "cgroup v1 /sys/fs/cgroup/memory/a/memory.limit_in_bytes"},
	{"hybrid, v2 named first", hybrid + `
		/proc/self/cgroup: 0::/u
		/proc/self/cgroup: 4:memory:/a
		/sys/fs/cgroup/unified/u/cgroup.procs: 42
		/sys/fs/cgroup/memory/a/memory.limit_in_bytes: 536870912`,
		"512 MiB of 24 GiB (cgroup v1 /a)", "cgroup v1 /sys/fs/cgroup/memory/a/memory.limit_in_bytes"},
	{"hybrid, memory in v2", "/proc/self/mountinfo: 34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" +
		"/proc/self/mountinfo: 41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n" + `
		/proc/self/cgroup: 5:cpu:/c
		/proc/self/cgroup: 1:name=systemd:/s
		/proc/self/cgroup: 0::/u
		/sys/fs/cgroup/unified/u/memory.max: 536870912`,
		"512 MiB of 24 GiB (cgroup v2 /u)", "cgroup v2 /sys/fs/cgroup/unified/u/memory.max"},

	{"no cgroups", info,
		"24 GiB (RAM), 9 GiB used; cgroup limits are not all known: /proc/self/cgroup: file does not exist", "sysinfo"},
	{"no group for memory", v2At + "/proc/self/cgroup: 1:name=systemd:/a",
		"24 GiB (RAM); cgroup limits are not all known: /proc/self/cgroup names no group for memory", "sysinfo"},
	{"no list of mounts", "/proc/self/cgroup: 0::/a\n/proc/self/mountinfo: !",
		"24 GiB (RAM); cgroup limits are not all known: /proc/self/mountinfo: permission denied", "sysinfo"},
	{"no cgroup mount", "/proc/self/cgroup: 0::/a\n/proc/self/mountinfo: 27 1 254:0 / / rw - ext4 /dev/vda rw",
		"24 GiB (RAM); cgroup limits are not all known: no cgroup v2 for memory is mounted", "sysinfo"},
	{"broken lines", v2At + `
		/proc/self/cgroup: nonsense
		/proc/self/cgroup: 0::/a
		/proc/self/mountinfo: nonsense - cgroup2
		/proc/self/mountinfo: 1 2 - cgroup2 x y
		/sys/fs/cgroup/a/memory.max: 536870912`,
		"512 MiB of 24 GiB (cgroup v2 /a)", "cgroup v2 /sys/fs/cgroup/a/memory.max"},
}

func hostOf24GiB() Memory {
	return Memory{RAM: 24 << 30, Limit: 24 << 30, Source: ramSource, Used: -1, Cache: -1}
}

func TestLayouts(t *testing.T) {
	for _, l := range layouts {
		t.Run(l.name, func(t *testing.T) {
			root := layout(t, l.files)
			m := hostOf24GiB()
			m.readFrom(root, 42, MemoryOptions{})
			if m.String() != l.want || m.Source != l.source {
				t.Errorf("\n     %s\n     %s\nwant %s\n     %s", m, m.Source, l.want, l.source)
			}
			host := hostOf24GiB()
			host.readFrom(root, 42, MemoryOptions{HostOnly: true})
			if host.Limit != host.RAM || host.Group != "" || host.Source != ramSource || host.Note != "" {
				t.Errorf("host only: %s", host)
			}
		})
	}
}

// A search for levels without a name ends, however many groups there are.
func TestSearchIsBounded(t *testing.T) {
	for _, others := range []int{maxSearch - 3, maxSearch} { // besides: the top, the group and the one above it
		var sb strings.Builder
		sb.WriteString("/proc/self/cgroup: 0::/\n/proc/self/mountinfo: 29 23 0:26 /../.. /c rw - cgroup2 cgroup rw\n")
		for i := range others {
			fmt.Fprintf(&sb, "/c/a/%d/cgroup.procs: 7\n", i)
		}
		sb.WriteString("/c/a/zzz/cgroup.procs: 42\n/c/a/zzz/memory.max: 4096\n")
		m := hostOf24GiB()
		m.readFrom(layout(t, sb.String()), 42, MemoryOptions{})
		if found := m.Limit == 4096; found != (others < maxSearch) || found == strings.Contains(m.Note, "not to be found") {
			t.Errorf("%d other groups: %s", others, m)
		}
	}
}

func TestHostUse(t *testing.T) {
	const text = "MemTotal:       24684112 kB\nMemFree:        24028400 kB\nBuffers:   1 kB\nActive(file):     200000 kB\n" +
		"Inactive(file):   159200 kB\nDirty:               152 kB\nWriteback:            48 kB\nWritebackTmp:      1 kB\n"
	if used, cache := hostUse(text); used != 655712<<10 || cache != 359000<<10 {
		t.Errorf("%d, %d", used>>10, cache>>10)
	}
	for _, name := range []string{"MemTotal:", "MemFree:"} {
		if used, cache := hostUse(strings.Replace(text, name, "x", 1)); used != -1 || cache != -1 {
			t.Errorf("without %s: %d, %d", name, used, cache)
		}
	}
	if used, cache := hostUse(strings.Replace(text, "Dirty:", "x", 1)); used != 655712<<10 || cache != -1 {
		t.Errorf("without Dirty: %d, %d", used, cache)
	}
}

func TestCounter(t *testing.T) {
	for text, want := range map[string]int64{
		"": -1, "x": -1, "x 5": 5, "xx 5": -1, "y 1\nx 5\n": 5, "x: 5": -1, "x -5": -1, "x y": -1,
		"x 5 kB": 5120, "x 9223372036854775807": noLimit, "x 9223372036854775807 kB": -1, "x 9223372036854775808": -1,
	} {
		if got := counter(text, "x"); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "/a": "/a", `/a\040b`: "/a b", `\134`: `\`, `a\`: `a\`, `a\04`: `a\04`, `a\9zz`: `a\9zz`, `\134040`: `\040`, `\777`: `\777`,
	} {
		if got := unescape(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Whatever the files say, there is an answer between nothing and RAM.
func FuzzLayout(f *testing.F) {
	for _, l := range layouts {
		r := layout(f, l.files)
		own, _ := fs.ReadFile(r, "proc/self/cgroup")
		mounts, _ := fs.ReadFile(r, "proc/self/mountinfo")
		f.Add(string(own), string(mounts), "536870912", "hierarchical_memory_limit 4096")
	}
	f.Fuzz(func(t *testing.T, own, mounts, limit, stat string) {
		root := fstest.MapFS{
			"proc/self/cgroup":    {Data: []byte(own)},
			"proc/self/mountinfo": {Data: []byte(mounts)},
		}
		for _, dir := range []string{"sys/fs/cgroup", "sys/fs/cgroup/a", "sys/fs/cgroup/memory/a"} {
			root[dir+"/cgroup.procs"] = &fstest.MapFile{Data: []byte("42\n")}
			root[dir+"/memory.stat"] = &fstest.MapFile{Data: []byte(stat)}
			for _, name := range []string{"memory.max", "memory.limit_in_bytes", "memory.current", "memory.usage_in_bytes"} {
				root[dir+"/"+name] = &fstest.MapFile{Data: []byte(limit)}
			}
		}
		m := hostOf24GiB()
		m.readFrom(root, 42, MemoryOptions{})
		if m.Limit < 0 || m.Limit > m.RAM || m.Cache > max(0, m.Used) || (m.Group == "") != (m.Limit == m.RAM) {
			t.Errorf("%#v", m)
		}
	})
}
