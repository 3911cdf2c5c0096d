package pagecache

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// group is a real cgroup that a test made. It is removed when the test ends.
type group struct {
	t   *testing.T
	v   *version
	dir string // in the file system
}

// newGroup makes a cgroup without a limit. Where the memory controller is in v1 it lies in
// this process's own group; in v2, whose groups with processes have no groups with
// controllers in them, in the nearest ancestor that gives its children the controller. The
// test is skipped where that is refused. It does not use the code under test.
func newGroup(t *testing.T) *group {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip(err)
	}
	v, dir := &v2, ""
	for line := range strings.Lines(string(own)) {
		line = strings.TrimSpace(line)
		if at, ok := strings.CutPrefix(line, "0::"); ok && v == &v2 {
			dir = filepath.Join("/sys/fs/cgroup", at)
		}
		if _, at, ok := strings.Cut(line, ":memory:"); ok {
			v, dir = &v1, filepath.Join("/sys/fs/cgroup/memory", at)
		}
	}
	for v == &v2 && dir != "/sys/fs/cgroup" && !givesMemory(dir) {
		dir = filepath.Dir(dir)
	}
	if v == &v2 && !givesMemory(dir) {
		t.Skip("no ancestor gives its groups the memory controller")
	}
	g := &group{t, v, filepath.Join(dir, fmt.Sprintf("warmlog-test-%d-%d", os.Getpid(), time.Now().UnixNano()))}
	g.make()
	return g
}

// child makes a group below g.
func (g *group) child(name string) *group {
	if g.v == &v2 {
		g.write("cgroup.subtree_control", "+memory")
	}
	c := &group{g.t, g.v, filepath.Join(g.dir, name)}
	c.make()
	return c
}

func givesMemory(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	return err == nil && strings.Contains(string(text), "memory")
}

func (g *group) make() {
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		g.t.Skip("cannot make a cgroup: ", err)
	}
	g.t.Cleanup(func() {
		// A process that has ended may stay in its group for a moment.
		err := os.Remove(g.dir)
		for end := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(end); err = os.Remove(g.dir) {
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil {
			g.t.Error("left behind: ", err)
		}
	})
}

func (g *group) file(name string) string { return filepath.Join(g.dir, name) }

func (g *group) write(name, text string) {
	g.t.Helper()
	if err := os.WriteFile(g.file(name), []byte(text), 0); err != nil {
		g.t.Skip("refused: ", err)
	}
}

// limitFile is the file that bounds the group.
func (g *group) limitFile() string { return g.v.limits[0] }

func (g *group) limit(bytes int64) {
	g.t.Helper()
	g.write(g.limitFile(), fmt.Sprint(bytes))
}

func (g *group) unlimit() {
	g.t.Helper()
	if g.v == &v1 {
		g.write(g.limitFile(), "-1")
		return
	}
	g.write(g.limitFile(), "max")
}
