package warmlog_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/storetest"
)

// copied is a copy of a store that runs: what it has after a kill.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	must(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// The end of a log is damaged in the middle of its last records. Those behind the damage are
// cut off and kept aside, and do not come back when later records end where they began.
func TestCrashTailStaysCut(t *testing.T) {
	const n, bad = 20, 12
	for _, d := range []warmlog.Durability{warmlog.Written, warmlog.Flushed} {
		dir := t.TempDir()
		s := create(t, dir, warmlog.Options{Durability: d, SegmentSize: 1 << 20})
		var places [n]warmlog.Appended
		add := func(s *warmlog.Store, off int64) warmlog.Appended {
			r, err := s.Append(context.Background(), storetest.Message("orders", 0, off, 30_000)) // more than zeros are laid over
			must(t, err)
			return r
		}
		for off := range places {
			places[off] = add(s, int64(off))
		}
		killed := copied(t, dir)
		must(t, s.Close())

		segment := filepath.Join(layout.Store(killed).CommitLog(), layout.FileName(0))
		put(t, segment, places[bad].PhysicalOffset+100, []byte("damage"))
		s = create(t, killed, warmlog.Options{Durability: d, SegmentSize: 1 << 20})
		wholeQueue(t, s, "orders", 0, bad)
		if !noted(s.Notes(), segment, "set aside") {
			t.Errorf("nothing about the tail: %q", s.Notes())
		}
		// A real broker, or a shorter record here, would else come to a record that was.
		end := places[n-1].PhysicalOffset + int64(places[n-1].Size)
		if tail := bytesOf(t, segment, places[bad].PhysicalOffset, int(end-places[bad].PhysicalOffset)); len(bytes.Trim(tail, "\x00")) > 0 {
			t.Error("the tail is still in its place")
		}
		if r := add(s, bad); r.PhysicalOffset != places[bad].PhysicalOffset || r.Size != places[bad].Size {
			t.Fatalf("appended %+v instead of %+v", r, places[bad])
		}
		again := copied(t, killed)
		must(t, s.Close())

		s = create(t, again, warmlog.Options{Durability: d, SegmentSize: 1 << 20})
		wholeQueue(t, s, "orders", 0, bad+1)
		must(t, s.Close())
		if _, damage := verify(t, again); len(damage) > 0 {
			t.Error(damage)
		}
		aside, err := os.ReadDir(layout.Store(killed).Aside())
		if err != nil || len(aside) != 1 {
			t.Errorf("set aside: %v, %v", aside, err)
		}
	}
}
