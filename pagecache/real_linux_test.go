package pagecache

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const mib = 1 << 20

// bounded checks that a child found a limit, and where.
func bounded(t *testing.T, a answer, limit int64, g *group) {
	t.Helper()
	m := a.Memory
	want := g.v.name + " " + g.file(g.limitFile())
	if m.Limit != limit || m.Source != want || !strings.HasSuffix(m.Group, "/"+filepath.Base(g.dir)) || m.Note != "" {
		t.Errorf("%s by %s, want %s by %s", m, m.Source, size(limit), want)
	}
}

// unbounded checks that a child found none of the test's limits.
func unbounded(t *testing.T, a answer, g *group) {
	t.Helper()
	if m := a.Memory; strings.Contains(m.Group, filepath.Base(g.dir)) || m.Note != "" {
		t.Errorf("%s by %s", m, m.Source)
	}
}

func TestRealLimit(t *testing.T) {
	g := newGroup(t)
	g.limit(256 * mib)
	c := newChild(t, g)
	bounded(t, c.ask("read"), 256*mib, g)
	unbounded(t, c.ask("host"), g)
	if m := c.ask("host").Memory; m.Limit != m.RAM {
		t.Errorf("host only: %s", m)
	}
}

func TestRealLimitChanges(t *testing.T) {
	g := newGroup(t)
	c := newChild(t, g)
	before := c.ask("refresh")
	unbounded(t, before, g)
	for _, limit := range []int64{256 * mib, 128 * mib, 320 * mib} {
		g.limit(limit)
		a := c.ask("refresh")
		bounded(t, a, limit, g)
		if a.Threshold != limit*40/100 {
			t.Errorf("threshold of %s: %d", size(limit), a.Threshold)
		}
	}
	g.unlimit()
	if after := c.ask("refresh"); after.Memory.Limit != before.Memory.Limit || after.Threshold != before.Threshold {
		t.Errorf("without the limit: %s, threshold %d; before it %s, threshold %d", after.Memory, after.Threshold, before.Memory, before.Threshold)
	}
}

func TestRealLimitOnParentOnly(t *testing.T) {
	parent := newGroup(t)
	leaf := parent.child("leaf")
	parent.limit(256 * mib)
	c := newChild(t, leaf)
	bounded(t, c.ask("read"), 256*mib, parent)
	leaf.limit(128 * mib)
	bounded(t, c.ask("read"), 128*mib, leaf)
}

func TestRealLimitAboveRAM(t *testing.T) {
	g := newGroup(t)
	g.limit(1 << 50)
	unbounded(t, newChild(t, g).ask("read"), g)
}

func TestRealUse(t *testing.T) {
	dir := t.TempDir()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil || fs.Type == 0x01021994 {
		t.Skip("the temporary directory is on tmpfs, which is no page cache")
	}
	g := newGroup(t)
	g.limit(256 * mib)
	c := newChild(t, g)
	before := c.ask("read").Memory
	c.ask("fill %s", filepath.Join(dir, "file"))
	const grown = 16*mib - mib // the counters are a little coarse, and late
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		m := c.ask("read").Memory
		if m.Cache >= before.Cache+grown && m.Used >= before.Used+grown && m.Cache <= m.Used && m.Used <= m.Limit {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("16 MiB were read: before %s, after %s", before, m)
		}
	}
}

func TestRealFileUnreadable(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become a user without rights")
	}
	g := newGroup(t)
	g.limit(256 * mib)
	for _, name := range []string{g.limitFile(), "memory.stat"} {
		if err := os.Chmod(g.file(name), 0); err != nil {
			t.Skip("refused: ", err)
		}
	}
	c := newChild(t, g)
	bounded(t, c.ask("read"), 256*mib, g)
	c.ask("nobody")
	if m := c.ask("read").Memory; m.Limit == 256*mib || !strings.Contains(m.Note, g.file(g.limitFile())+": permission denied") {
		t.Errorf("%s", m)
	}
}

// In a new namespace the group of the process is "/", and the old mount's root is
// "/../..": as many levels up as the group is deep.
func TestRealNamespace(t *testing.T) {
	parent := newGroup(t)
	leaf := parent.child("leaf")
	c := newChild(t, leaf)
	parent.limit(256 * mib)
	bounded(t, c.ask("unshare"), 256*mib, parent)
	leaf.limit(128 * mib)
	bounded(t, c.ask("unshare"), 128*mib, leaf)
}

// A container sees its own group as the top, and no group above it.
func TestRealContainer(t *testing.T) {
	parent := newGroup(t)
	leaf := parent.child("leaf")
	c := newChild(t, leaf)
	question := mountAgain(t, leaf)
	dir := question[strings.LastIndexByte(question, ' ')+1:]
	leaf.limit(128 * mib)
	if m := c.ask(question).Memory; m.Limit != 128*mib || m.Source != leaf.v.name+" "+filepath.Join(dir, leaf.limitFile()) || m.Group != leaf.v.name+" /" {
		t.Errorf("own limit: %s by %s", m, m.Source)
	}
	if leaf.v == &v2 {
		return // no way to know of the parent
	}
	parent.limit(96 * mib)
	if m := c.ask(question).Memory; m.Limit != 96*mib || m.Group != "cgroup v1 / or above" || m.Used != -1 {
		t.Errorf("limit out of sight: %s by %s", m, m.Source)
	}
}
