package pagecache

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// version is what differs between the two kinds of cgroups. Source: the kernel's
// Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.
type version struct {
	name     string
	fsType   string
	limits   []string // files, each a number of bytes or "max"
	usage    string   // file, bytes
	counters counters // in memory.stat
}

var (
	v1 = version{"cgroup v1", "cgroup", []string{"memory.limit_in_bytes"}, "memory.usage_in_bytes", countersV1}
	v2 = version{"cgroup v2", "cgroup2", []string{"memory.max", fileHigh}, "memory.current", countersV2}
)

// noLimit is what "max" means, and the most that a size can be.
const noLimit = math.MaxInt64

// groupLimit is the tightest limit on the way from a process's own group up.
type groupLimit struct {
	limit  int64  // bytes; noLimit where there is none
	group  string // whose limit it is
	source string // where it was read
	notes  []string

	version *version
	dir     string // of the group; empty where it is out of sight
}

// tightest finds the group that bounds the process pid most.
func tightest(root fs.FS, pid int) groupLimit {
	t := groupLimit{limit: noLimit}
	p, err := find(root, pid)
	if err != nil {
		t.notes = append(t.notes, err.Error())
		return t
	}
	t.version = p.version
	for i := len(p.names); i >= 0; i-- {
		dir := p.dir(i)
		if i < len(p.names) && p.version == &v1 && !hierarchical(root, dir) {
			break
		}
		for _, name := range p.version.limits {
			file := path.Join(dir, name)
			// The top of a hierarchy has no such file, nor has a v2 group without the controller.
			if n, err := readLimit(root, file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.notes = append(t.notes, err.Error())
			} else if err == nil && n < t.limit {
				t.limit, t.group, t.source, t.dir = n, p.group(i), p.version.name+" "+file, dir
			}
		}
	}
	if p.version == &v1 {
		t.above(root, p)
	}
	return t
}

// hierarchical says whether the limit of a v1 group binds the groups below it, which
// before Linux 5.11 could be switched off.
func hierarchical(root fs.FS, dir string) bool {
	text, err := readFile(root, path.Join(dir, "memory.use_hierarchy"))
	return err != nil || strings.TrimSpace(text) != "0"
}

// above takes in limits of v1 groups that are not to be seen: memory.stat has the tightest
// one all the way up.
func (t *groupLimit) above(root fs.FS, p *place) {
	const name = "hierarchical_memory_limit"
	file := path.Join(p.dir(len(p.names)), "memory.stat")
	text, err := readFile(root, file)
	if err != nil {
		return // the limits that were read stand
	}
	if n := counter(text, name); n >= 0 && n < t.limit {
		t.limit, t.group, t.source, t.dir = n, p.group(len(p.names))+" or above", p.version.name+" "+file+" "+name, ""
	}
}

// used returns what the group uses and what of it is page cache that can be taken back;
// -1 where that is not known.
func (t *groupLimit) used(root fs.FS) (used, cache int64) {
	if t.dir == "" {
		return -1, -1
	}
	used, err := readLimit(root, path.Join(t.dir, t.version.usage))
	if err != nil {
		return -1, -1
	}
	text, err := readFile(root, path.Join(t.dir, "memory.stat"))
	if err != nil {
		return used, -1
	}
	return used, t.version.counters.cache(text, used)
}

// note says for people what could not be read.
func (t *groupLimit) note() string {
	if len(t.notes) == 0 {
		return ""
	}
	return "cgroup limits are not all known: " + strings.Join(t.notes, "; ")
}

func readLimit(root fs.FS, file string) (int64, error) {
	text, err := readFile(root, file)
	if err != nil {
		return 0, err
	}
	n, err := parseLimit(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return n, nil
}

// parseLimit reads a number of bytes or "max". What an int64 does not hold is no limit.
func parseLimit(text string) (int64, error) {
	text = strings.TrimSpace(text)
	if text == "max" {
		return noLimit, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no limit", text)
	}
	return int64(min(n, noLimit)), nil
}
