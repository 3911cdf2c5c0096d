package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/message"
	"golang.org/x/sys/unix"
)

// quotaUser is who has a quota: nobody that exists.
const quotaUser = 54321

// quotaDisk mounts an ext4 file system with quotas of users, whose root everybody may write to.
func quotaDisk(t *testing.T) string {
	t.Helper()
	needDisks(t)
	image := filepath.Join(t.TempDir(), "image")
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, 96<<20))
	command(t, "mkfs.ext4", "-q", "-m", "0", "-O", "quota", "-E", "quotatype=usrquota", image)
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-o", "loop,usrquota", image, dir).CombinedOutput(); err != nil {
		t.Skipf("a file system with quotas is refused (has the kernel CONFIG_QFMT_V2?): %v: %s", err, out)
	}
	t.Cleanup(func() { unmount(t, dir) })
	must(t, os.Chmod(dir, 0o777))
	must(t, os.Chmod(filepath.Dir(dir), 0o755)) // the test's own is for root only
	return dir
}

// setQuota sets how many KiB the user may have on a file system; 0: any number.
func setQuota(t *testing.T, dir string, kib uint64) {
	t.Helper()
	const setQuota, limits = 0x800008 << 8, 1 // Q_SETQUOTA of USRQUOTA, QIF_BLIMITS
	q := struct {                             // the kernel's struct if_dqblk
		hard, soft, space, inodesHard, inodesSoft, inodes, time, inodeTime uint64
		valid                                                              uint32
	}{hard: kib, valid: limits}
	f, err := os.Open(dir)
	must(t, err)
	defer f.Close()
	if _, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, f.Fd(), setQuota, quotaUser, uintptr(unsafe.Pointer(&q)), 0, 0); errno == unix.ENOSYS {
		t.Skip("the kernel has no quotactl_fd")
	} else if errno != 0 {
		t.Fatal("quotactl_fd: ", errno)
	}
}

func init() { jobs["quota"] = quotaJob }

// quotaJob appends until it is refused, says so, and waits until there is room again; so many
// times. It is refused once more then, and waits to be killed.
func quotaJob(t *testing.T, p *plan, s *warmlog.Store, tell func(string, ...any)) {
	ctx, off := context.Background(), int64(0)
	log := layout.Store(p.Dir).CommitLog()
	some := func() error {
		ms := make([]*message.Message, 20)
		for i := range ms {
			ms[i] = crashMessage(0, off+int64(i))
		}
		rs, err := s.AppendAll(ctx, ms, warmlog.StoreDefault)
		for _, r := range rs {
			tell("A 0 %d %d 1", r.QueueOffset, r.PhysicalOffset)
		}
		off += int64(len(rs))
		return err
	}
	must(t, some())
	must(t, s.Dispatched(ctx))
	must(t, s.Checkpoint(ctx)) // a queue file is there
	for round := range p.Messages + 1 {
		var err error
		for err == nil {
			err = some()
		}
		if !errors.Is(err, warmlog.ErrNoSpace) || !errors.Is(err, unix.EDQUOT) || !strings.Contains(err.Error(), p.Dir) {
			tell("X round %d: refused: %v", round, err)
		}
		is := func(c warmlog.Condition) bool { return c.Name == warmlog.NoSpace && c.Path == log && !c.Refuses }
		if st := s.Stats(); !slices.ContainsFunc(st.Conditions, is) || !errors.Is(s.Health(), warmlog.ErrNoSpace) {
			tell("X round %d: conditions: %+v; health: %v", round, st.Conditions, s.Health())
		}
		must(t, s.Dispatched(ctx))
		if n := len(drain(t, s, crashTopic, 0, 0).offsets); int64(n) != off {
			tell("X round %d: %d of %d messages are read", round, n, off)
		}
		if err := s.Checkpoint(ctx); err != nil && !errors.Is(err, unix.EDQUOT) {
			tell("X round %d: checkpoint: %v", round, err)
		}
		tell("N refused")
		for {
			if _, err := s.Retain(ctx); err != nil { // measures
				tell("X round %d: retain: %v", round, err)
			}
			if !errors.Is(s.Health(), warmlog.ErrNoSpace) {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// The quota of the user that writes is used up, on a disk that has room for others: that is as a
// full disk is, under its name, though what is free on the disk says nothing of it. When the
// quota is raised appends go on without a restart, and nothing acknowledged is lost.
func TestCase39Quota(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		t.Run(fmt.Sprint("flushed ", flushed), func(t *testing.T) {
			const rounds = 3
			dir := quotaDisk(t)
			setQuota(t, dir, 8<<10)
			p := plan{Dir: filepath.Join(dir, "store"), Flushed: flushed, SegmentSize: 1 << 20, Job: "quota", Messages: rounds, User: quotaUser}
			var j journal
			c := j.start(t, p)
			for n := range rounds + 1 {
				await(t, "a refusal", func() bool {
					j.mu.Lock()
					defer j.mu.Unlock()
					select {
					case <-j.ended:
						t.Fatalf("the child has ended: %v, %v, %s", j.errors, j.foul, c.output.String())
					default:
					}
					return len(j.notes) > n
				})
				if n < rounds {
					setQuota(t, dir, uint64(8+4*(n+1))<<10)
				}
			}
			j.kill(c)
			acks := j.told(false)
			// Nothing is left, and the store was not closed: it is opened for writing all the same.
			open := p
			open.Job = "open"
			must(t, j.finish(j.start(t, open)))
			for _, err := range j.errors {
				if strings.HasPrefix(err, "open: ") || !strings.Contains(err, unix.EDQUOT.Error()) {
					t.Errorf("opened without room: %s", err)
				}
			}
			setQuota(t, dir, 0)
			p.User = 0
			reopen(t, p, acks)
		})
	}
}
