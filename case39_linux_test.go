package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/storetest"
	"golang.org/x/sys/unix"
)

// fillTo makes a disk full by so many percent, as they are counted, with a file that somebody
// else has there, and no fuller.
func fillTo(t *testing.T, dir string, percent int) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	defer f.Close()
	level := func() (used, all, block int64) {
		var st unix.Statfs_t
		must(t, unix.Fstatfs(int(f.Fd()), &st))
		used = int64(st.Blocks - st.Bfree)
		return used, used + int64(st.Bavail), int64(st.Bsize)
	}
	for range 20 { // the blocks that name the file's blocks count, too
		used, all, block := level()
		more := (all*int64(percent)/100 - used) * block
		st, err := f.Stat()
		must(t, err)
		switch {
		case more < 0:
			must(t, f.Truncate(max(0, st.Size()+more)))
		case more > 0:
			err := unix.Fallocate(int(f.Fd()), 0, st.Size(), more)
			if errors.Is(err, unix.ENOSPC) {
				fill(t, filepath.Dir(path)) // to the last block
				return
			}
			must(t, err)
		}
		if used, all, _ = level(); int((used*100+all-1)/all) == percent {
			return
		}
	}
	used, all, _ := level()
	t.Fatalf("%s: %d of %d blocks used, %d %% wanted", dir, used, all, percent)
}

// disks39 is a store whose queues lie on another file system than its log.
type disks39 struct {
	s           *warmlog.Store
	log, queues string // the directories
	logDisk     string // where the log's file system is mounted
	next        int64
}

func newDisks39(t *testing.T, r warmlog.Retention) *disks39 {
	log, queues := newDisk(t, 64), newDisk(t, 64)
	dir := t.TempDir()
	d := &disks39{log: filepath.Join(dir, "commitlog"), queues: filepath.Join(dir, "consumequeue"), logDisk: log.dir}
	// The store as a whole lies on the log's disk; its queues are mounted into it.
	d.log, d.queues = filepath.Join(log.dir, "store", "commitlog"), filepath.Join(log.dir, "store", "consumequeue")
	must(t, os.MkdirAll(d.queues, 0o755))
	command(t, "mount", "--bind", queues.dir, d.queues)
	t.Cleanup(func() { unmount(t, d.queues) })
	r.Interval = time.Hour // only when the test asks, or each second
	d.s = create(t, filepath.Dir(d.log), warmlog.Options{SegmentSize: 1 << 20, Retention: r})
	t.Cleanup(func() { must(t, d.s.Close()) })
	return d
}

func (d *disks39) append() error {
	_, err := d.s.Append(context.Background(), storetest.Message("orders", 0, d.next, 4000))
	if err == nil {
		d.next++
	}
	return err
}

// names returns the names of the conditions of a directory.
func (d *disks39) names(dir string) string {
	var names []string
	for _, c := range d.s.Stats().Conditions {
		if c.Path == dir {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, " ")
}

// Both disks are filled and emptied three times. Each level sets its own condition, by its
// name, of that disk alone; each ends when the disk has clearly fallen below, and appends go on
// without a restart.
func TestCase39EachLevelOfEachDisk(t *testing.T) {
	never := stuckAt("orders", 0, map[string]int64{"stuck": 0})
	d := newDisks39(t, warmlog.Retention{WarnAbove: 75, DeleteAbove: 85, RefuseAbove: 90, KeepUnread: true, Readers: never})
	for range 600 { // some segments, which are kept
		must(t, d.append())
	}
	must(t, d.s.Dispatched(context.Background()))
	steps := []struct {
		percent     int
		warn, clean bool
		refuse      bool
	}{
		{70, false, false, false}, {76, true, false, false}, {86, true, true, false}, {90, true, true, false}, {91, true, true, true}, {100, true, true, true},
		{89, true, true, true}, {88, true, true, false}, {84, true, true, false}, {83, true, false, false}, {74, true, false, false}, {73, false, false, false},
	}
	for round := range 3 {
		for _, disk := range []struct{ dir, other string }{{d.log, d.queues}, {d.queues, d.log}} {
			root := disk.dir
			if disk.dir == d.log {
				root = d.logDisk
			}
			for _, step := range steps {
				fillTo(t, root, step.percent)
				_, err := d.s.Retain(context.Background())
				must(t, err)
				var want []string
				if step.warn {
					want = append(want, warmlog.DiskWarning)
				}
				if step.refuse {
					want = append(want, warmlog.DiskFull)
				}
				if step.clean && disk.dir == d.log { // the queues' disk is no reason to delete messages
					want = append(want, warmlog.DiskCleaning, warmlog.KeptUnread)
				}
				got := d.names(disk.dir)
				if len(strings.Fields(got)) != len(want) {
					t.Errorf("round %d, %s at %d %%: %q, want %q", round, base(disk.dir), step.percent, got, want)
				}
				for _, name := range want {
					if !strings.Contains(got, name) {
						t.Errorf("round %d, %s at %d %%: %q, want %s", round, base(disk.dir), step.percent, got, name)
					}
				}
				if other := d.names(disk.other); other != "" {
					t.Errorf("%s at %d %%: %s has %q", base(disk.dir), step.percent, base(disk.other), other)
				}
				err, health := d.append(), d.s.Health()
				if !step.refuse {
					if err != nil || errors.Is(health, warmlog.ErrNoSpace) {
						t.Errorf("round %d, %s at %d %%: append: %v, health: %v", round, base(disk.dir), step.percent, err, health)
					}
					continue
				}
				for _, err := range []error{err, health} {
					if !errors.Is(err, warmlog.ErrNoSpace) || !strings.Contains(err.Error(), disk.dir+":") || !strings.Contains(err.Error(), "the limit is 90 %") ||
						!strings.Contains(err.Error(), fmt.Sprintf("full by %d %%", step.percent)) {
						t.Errorf("round %d, %s at %d %%: %v", round, base(disk.dir), step.percent, err)
					}
				}
			}
			must(t, os.Remove(filepath.Join(root, "filler")))
			_, err := d.s.Retain(context.Background())
			must(t, err)
		}
	}
	if h := d.s.Health(); h != nil {
		t.Errorf("in the end: %v", h)
	}
}

// A disk without limits that runs full: the append that finds no room says so, the condition
// ends when there is room, though nobody appends, and so does that of the checkpoint.
func TestCase39NoRoomLeft(t *testing.T) {
	d := newDisks39(t, warmlog.Retention{})
	ctx := context.Background()
	must(t, d.append())
	must(t, d.s.Dispatched(ctx))
	for range 3 {
		for _, root := range []string{d.logDisk, d.queues} {
			filler := fill(t, root)
			if root == d.logDisk {
				var err error
				for range 1000 {
					if err = d.append(); err != nil {
						break
					}
				}
				if !errors.Is(err, warmlog.ErrNoSpace) || !strings.Contains(err.Error(), filepath.Dir(d.log)) || d.names(d.log) != warmlog.NoSpace {
					t.Errorf("%v; %q", err, d.names(d.log))
				}
			} else {
				must(t, d.append()) // the log has room
			}
			must(t, d.s.Dispatched(ctx))
			// The queue's file has room for what it had before; the disk of the log has none for
			// what a checkpoint writes anew.
			if err := d.s.Checkpoint(ctx); err != nil && d.names(filepath.Dir(d.log)) != warmlog.NoCheckpoint {
				t.Errorf("checkpoint: %v; %q", err, d.names(filepath.Dir(d.log)))
			}
			must(t, os.Remove(filler))
			_, err := d.s.Retain(ctx) // measures
			must(t, err)
			must(t, d.s.Checkpoint(ctx))
			if h := d.s.Health(); h != nil || len(d.s.Stats().Conditions) > 0 {
				t.Errorf("with room: %v, %+v", h, d.s.Stats().Conditions)
			}
			must(t, d.append())
		}
	}
	wholeQueue(t, d.s, "orders", 0, d.next)
}

// A deletion hangs, for as long as the file system with the log is frozen: the disks are
// measured meanwhile, appends are refused for what is measured and let in again.
func TestCase39SlowDeletion(t *testing.T) {
	d := newDisks39(t, warmlog.Retention{MaxBytes: 2 << 20, RefuseAbove: 90})
	ctx := context.Background()
	for range 1200 {
		must(t, d.append())
	}
	must(t, d.s.Dispatched(ctx))
	must(t, d.s.Checkpoint(ctx))
	command(t, "fsfreeze", "-f", d.logDisk)
	thawed := false
	thaw := func() {
		if !thawed {
			thawed = true
			command(t, "fsfreeze", "-u", d.logDisk)
		}
	}
	defer thaw()
	gone := make(chan []warmlog.Expired)
	go func() {
		all, err := d.s.Retain(ctx)
		if err != nil {
			t.Error(err)
		}
		gone <- all
	}()
	await(t, "a deletion that hangs", func() bool { return inCall(t, unix.SYS_UNLINKAT) })
	fillTo(t, d.queues, 95)
	await(t, "the condition of the queues' disk", func() bool { return d.names(d.queues) == warmlog.DiskFull })
	if err := d.append(); !errors.Is(err, warmlog.ErrNoSpace) || !strings.Contains(err.Error(), d.queues) {
		t.Errorf("append: %v", err)
	}
	must(t, os.Remove(filepath.Join(d.queues, "filler")))
	await(t, "its end", func() bool { return d.names(d.queues) == "" })
	if !inCall(t, unix.SYS_UNLINKAT) {
		t.Error("the deletion is over: nothing was shown")
	}
	thaw()
	if all := <-gone; len(all) == 0 {
		t.Error("nothing was deleted")
	}
	must(t, d.append())
}

// inCall reports whether a thread of this process is in a system call.
func inCall(t *testing.T, number int) bool {
	t.Helper()
	all, err := filepath.Glob("/proc/self/task/*/syscall")
	must(t, err)
	for _, path := range all {
		if b, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(b), fmt.Sprintf("%d ", number)) {
			return true
		}
	}
	return false
}
