package warmlog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
)

// The disk fails while a store is written: what it has not stored before it does not take any
// more. (The file that it is made of lies in a file system that is full.) Every producer gets
// the error, and what was acknowledged as flushed is there when the disk works again: after the
// file system was mounted anew, or before. (Not tried: a Written store that is opened, and
// closed in order, between the failure and the new mount. It rewrites nothing and so takes for
// durable what the kernel only says is.)
func TestCrashFailingDevice(t *testing.T) {
	for _, row := range []struct{ flushed, before bool }{{true, false}, {true, true}, {false, false}} {
		t.Run(fmt.Sprintf("flushed %v before %v", row.flushed, row.before), func(t *testing.T) {
			d := newDisk(t, 96)
			p := plan{Dir: filepath.Join(d.dir, "store"), Flushed: row.flushed}
			var j journal
			c := j.start(t, p)
			select {
			case <-j.opened:
			case <-j.ended:
			}
			time.Sleep(50 * time.Millisecond)
			ballast := fill(t, d.outer)
			if err := j.finish(c); err != nil {
				t.Errorf("the child: %v\n%.3000s", err, c.output.String())
			}
			acks := j.told(true)
			t.Logf("%d acknowledged, then %.400q", len(acks), j.errors)
			if !strings.Contains(strings.Join(j.errors, "\n"), warmlog.ErrFailed.Error()) {
				t.Error("nobody was told")
			}
			must(t, os.Remove(ballast))
			command(t, "sync", "-f", d.outer) // its blocks are free when that is on disk
			if row.before {
				if s, err := warmlog.Open(p.Dir, p.options()); err == nil {
					entire(t, s, acks)
					must(t, s.Close())
				} else {
					t.Logf("open: %v", err) // the file system may be read-only by now
				}
			}
			unmount(t, d.dir)
			command(t, "mount", "-o", "loop", d.image, d.dir)
			reopen(t, p, acks)
		})
	}
}
