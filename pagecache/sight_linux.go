package pagecache

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// sight is the way from a mount point down to a group, as far as it can be told.
//
// The path of a group and the root of a mount are both given from the group in which the
// cgroup namespace was made: "/.." is one above it. Seen from a mount of "/../.." the
// group "/x" lies three levels down, but only the name of the last is known: the others
// have to be searched for.
type sight struct {
	mount   mount
	unknown int      // levels without a name
	known   []string // names of the levels below those
}

// maxSearch bounds the groups that a search looks into; a large host has some thousand.
const maxSearch = 4096

// sights returns the ways to the group own, those without a search first and, of these,
// those from which most of its ancestors are seen.
func sights(mounts []mount, own string) []sight {
	var all []sight
	up, names := split(own)
	for _, m := range mounts {
		rootUp, root := split(m.root)
		switch {
		case up == rootUp && len(names) >= len(root) && slices.Equal(root, names[:len(root)]):
			all = append(all, sight{m, 0, names[len(root):]})
		case up < rootUp && len(root) == 0:
			all = append(all, sight{m, rootUp - up, names})
		}
	}
	slices.SortStableFunc(all, func(a, b sight) int {
		if a.unknown != b.unknown {
			return a.unknown - b.unknown
		}
		return len(b.known) - len(a.known)
	})
	return all
}

// split takes a path apart: how many levels up it begins, and the names down from there.
func split(p string) (up int, names []string) {
	for name := range strings.SplitSeq(p, "/") {
		switch name {
		case "":
		case "..":
			up++
		default:
			names = append(names, name)
		}
	}
	return up, names
}

// names returns the names of all levels down to the group; not nil if it is there. A
// mount that another one hides does not show it.
func (s *sight) names(root fs.FS, pid int) []string {
	if s.unknown == 0 {
		if _, err := fs.Stat(root, rooted(path.Join(s.mount.point, path.Join(s.known...), "cgroup.procs"))); err != nil {
			return nil
		}
		return append([]string{}, s.known...)
	}
	left := maxSearch
	return s.search(root, pid, nil, &left)
}

// search tries every group below the names so far for the one that pid is in.
func (s *sight) search(root fs.FS, pid int, names []string, left *int) []string {
	if *left--; *left < 0 {
		return nil
	}
	dir := path.Join(s.mount.point, path.Join(names...))
	if len(names) == s.unknown {
		text, err := readFile(root, path.Join(dir, path.Join(s.known...), "cgroup.procs"))
		if err == nil && slices.Contains(strings.Fields(text), strconv.Itoa(pid)) {
			return append(slices.Clone(names), s.known...)
		}
		return nil
	}
	entries, err := fs.ReadDir(root, rooted(dir))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if found := s.search(root, pid, append(slices.Clone(names), e.Name()), left); found != nil {
			return found
		}
	}
	return nil
}
