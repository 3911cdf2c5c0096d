package warmlog_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// The power is cut while a child appends, at several moments. What was acknowledged as
// flushed before is there, nothing is torn, and no queue has a gap; also when the child was
// killed before, and what it left was continued by another.
func TestCrashPowerCut(t *testing.T) {
	for _, row := range []struct {
		name            string
		flushed, anyhow bool
	}{
		{"flushed", true, false},
		{"flushed, written back in any order", true, true},
		{"written", false, false},
		{"written, written back in any order", false, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			rng := chance(t)
			d := newDisk(t, 192)
			p := plan{Dir: filepath.Join(d.dir, "store"), Flushed: row.flushed, Pause: 500}
			var j journal
			for round := range rounds(3) {
				if round > 0 && round%8 == 0 { // the disk is not large
					j = journal{}
					must(t, os.RemoveAll(p.Dir))
				}
				c := j.start(t, p)
				select {
				case <-j.opened:
				case <-j.ended:
				}
				end := time.Now().Add(time.Duration(rng.IntN(700)) * time.Millisecond)
				for time.Now().Before(end) {
					time.Sleep(10 * time.Millisecond)
					if row.anyhow {
						syncNewest(p.Dir)
					}
				}
				acks := j.told(true)
				image := d.cut(t)
				time.Sleep(time.Duration(rng.IntN(50)) * time.Millisecond)
				j.kill(c)
				for _, err := range j.errors {
					t.Errorf("round %d: the child: %s", round, err)
				}
				t.Logf("round %d", round)
				after := p
				dir := mounted(t, image)
				after.Dir = filepath.Join(dir, "store")
				if _, err := os.Stat(after.Dir); err == nil || len(acks) > 0 {
					reopen(t, after, acks)
				}
				if t.Failed() {
					keep := filepath.Join(os.TempDir(), "warmlog-cut-image")
					t.Fatalf("the image: %s: %v", keep, copySparse(keep, image))
				}
				unmount(t, dir)
				must(t, os.Remove(image))
			}
		})
	}
}

// syncNewest brings the newest segment of a store to the disk, as the kernel may do at any
// time: before older ones are there.
func syncNewest(dir string) {
	segments, _ := filepath.Glob(filepath.Join(dir, "commitlog", "*"))
	if len(segments) == 0 {
		return
	}
	if f, err := os.Open(slices.Max(segments)); err == nil {
		_ = f.Sync()
		_ = f.Close()
	}
}

// After a sync that failed the kernel holds pages for clean that are not on the disk. A store
// that was written in Flushed mode and not closed writes the end of its log again: blocks
// below the cached files are zeroed, and everything is there when the power is cut later. So it
// is where that recovery was killed, and went on from where it had come.
func TestCrashTailIsWrittenAgain(t *testing.T) {
	for _, row := range []struct{ messages, kills int }{{300, 0}, {3000, 2}} {
		t.Run(fmt.Sprint("kills ", row.kills), func(t *testing.T) {
			d := newDisk(t, 96)
			p := plan{Dir: filepath.Join(d.dir, "store"), Flushed: true}
			var j journal
			c := j.start(t, p)
			for len(j.told(true)) < row.messages {
				select {
				case <-j.ended:
					t.Fatal("the child has ended", j.errors)
				case <-time.After(time.Millisecond):
				}
			}
			j.kill(c)
			acks := j.told(true)
			segments, err := filepath.Glob(filepath.Join(p.Dir, "commitlog", "*"))
			must(t, err)
			for _, path := range segments {
				d.lose(t, path)
			}
			for n := range row.kills { // while it reads, and while it writes
				killed := p
				killed.Messages, killed.DieIn, killed.DieAt = -1, [...]string{"reading", "writing"}[n%2], [...]int64{5 << 18, 300_000}[n%2]
				var j journal
				c := j.start(t, killed)
				<-j.ended
				j.kill(c)
				if j.finished || len(j.errors) > 0 {
					t.Errorf("recovery %d was not killed: %v", n, j.errors)
				}
			}
			reopen(t, p, acks)
			p.Dir = filepath.Join(mounted(t, d.cut(t)), "store")
			reopen(t, p, acks)
		})
	}
}

// lose zeros the blocks of a file on the disk. Its pages in memory stay what they are.
func (d *disk) lose(t *testing.T, path string) {
	t.Helper()
	out, err := exec.Command("filefrag", "-v", "-b1024", path).Output()
	if err != nil {
		t.Skip("the blocks of a file cannot be found:", err)
	}
	image, err := os.OpenFile(d.image, os.O_WRONLY, 0)
	must(t, err)
	defer image.Close()
	lost := 0
	for in := bufio.NewScanner(bytes.NewReader(out)); in.Scan(); {
		var n, from, to, first, last, length int64
		if _, err := fmt.Sscanf(in.Text(), "%d: %d.. %d: %d.. %d: %d:", &n, &from, &to, &first, &last, &length); err == nil {
			_, err := image.WriteAt(make([]byte, length<<10), first<<10)
			must(t, err)
			lost++
		}
	}
	if lost == 0 {
		t.Fatalf("no blocks: %s", out)
	}
}
