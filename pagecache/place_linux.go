package pagecache

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// place is where the cgroup of a process lies in the file system.
type place struct {
	version *version
	mount   mount
	names   []string // the groups from the mount point down to the process's own
}

// dir returns the directory of the group that lies i levels below the mount point.
func (p *place) dir(i int) string { return path.Join(p.mount.point, path.Join(p.names[:i]...)) }

// group returns the name of that group for people.
func (p *place) group(i int) string {
	return p.version.name + " " + path.Join(p.mount.root, path.Join(p.names[:i]...))
}

// mount is a line of mountinfo: the group root of a hierarchy is mounted at point.
type mount struct{ root, point string }

// find returns the place of the process pid in the hierarchy that controls memory, nil
// where none does. Source of the formats: proc(5), cgroups(7), cgroup_namespaces(7).
func find(root fs.FS, pid int) (*place, error) {
	text, err := readFile(root, "/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	v, own := parseOwn(text)
	if v == nil {
		return nil, errors.New("/proc/self/cgroup names no group for memory")
	}
	if text, err = readFile(root, "/proc/self/mountinfo"); err != nil {
		return nil, err
	}
	mounts := parseMounts(text, v)
	if len(mounts) == 0 {
		return nil, fmt.Errorf("no %s for memory is mounted", v.name)
	}
	for _, s := range sights(mounts, own) {
		if names := s.names(root, pid); names != nil {
			return &place{v, s.mount, names}, nil
		}
	}
	return nil, fmt.Errorf("%s %s is not to be found below %s", v.name, own, mounts[0].point)
}

// parseOwn reads /proc/self/cgroup: lines of number:controllers:path. A controller is in
// one hierarchy only, so where v1 has memory (a hybrid system, too), v2 has it not.
func parseOwn(text string) (v *version, own string) {
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(f) < 3:
		case slices.Contains(strings.Split(f[1], ","), "memory"):
			return &v1, f[2]
		case f[0] == "0" && f[1] == "":
			v, own = &v2, f[2]
		}
	}
	return v, own
}

// parseMounts reads the mounts of a hierarchy from /proc/self/mountinfo, whose lines are
// number, parent, device, root, mount point, options, any number of tags, a dash, type,
// source and the options of the file system.
func parseMounts(text string, v *version) []mount {
	var mounts []mount
	for line := range strings.Lines(text) {
		left, right, _ := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if len(l) < 6 || len(r) < 3 || r[0] != v.fsType {
			continue
		}
		if v == &v1 && !slices.Contains(strings.Split(r[2], ","), "memory") {
			continue
		}
		mounts = append(mounts, mount{unescape(l[3]), unescape(l[4])})
	}
	return mounts
}

// unescape undoes mountinfo's octal escapes of space, tab, newline and backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var sb strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				sb.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		sb.WriteByte(s[i])
	}
	return sb.String()
}
