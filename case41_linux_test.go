package warmlog_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/pagecache"
	"golang.org/x/sys/unix"
)

// Recovery of a long log: it reads what the last checkpoint does not cover, goes on where one
// that was killed had come, tells how far it is, and leaves the page cache as it was.

// A writer is killed: the next start reads the log above the last checkpoint, once.
func TestCase41ReadsWhatNoCheckpointCovers(t *testing.T) {
	const segments, size = 200, 32 << 10
	p := plan{Dir: t.TempDir(), SegmentSize: size, Queues: 2, Messages: segments * size / 3 / 800}
	var j journal
	c := j.start(t, p)
	must(t, j.finish(c)) // stopped in order
	covered := stateOf(t, p.Dir).Dispatched
	if covered < segments*size*9/10 {
		t.Fatalf("the log has %d bytes only", covered)
	}
	p.Messages, p.Pause = 0, 100
	c = j.start(t, p)
	for grown := false; !grown; {
		select {
		case <-j.ended:
			t.Fatal("the child has ended: ", j.errors, c.output.String())
		default:
		}
		for _, a := range j.told(false) {
			grown = grown || a.pos > covered+2*size
		}
	}
	j.kill(c)
	if at := stateOf(t, p.Dir).Dispatched; at != covered {
		t.Skip("there was a checkpoint meanwhile") // on a machine that is very slow
	}
	s, err := openCrashed(p)
	must(t, err)
	_, end := s.Bounds()
	must(t, s.Close())
	var last warmlog.Progress
	o := p.options()
	o.Progress = func(p warmlog.Progress) { last = p }
	used := cost(t, func() {
		if s, err = warmlog.Open(p.Dir, o); err != nil {
			t.Fatal(err)
		}
	})
	// The rest of the last segment is looked at for what lies behind the end; queues, small files
	// and the trial of how to ask about residency take the remainder.
	if most := end - covered + size + 256<<10; used.bytes > most {
		t.Errorf("%d bytes read; the checkpoint does not cover %d", used.bytes, end-covered)
	}
	t.Logf("%d bytes read in %d calls, %d not covered, of %d", used.bytes, used.calls, end-covered, end)
	if last.Total < end-covered || last.Done > last.Total {
		t.Errorf("the last progress told: %+v", last)
	}
	entire(t, s, j.told(false))
	must(t, s.Close())
	reopen(t, p, j.told(false))
}

func stateOf(t *testing.T, dir string) layout.State {
	t.Helper()
	st, err := layout.ReadState(layout.Store(dir).State())
	if err != nil && !os.IsNotExist(err) && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return st
}

// forgotten is a store of a broker that was killed and whose checkpoint has no times, as that
// of a slave that never updates them: all of its log has to be read.
func forgotten(t *testing.T, segments int64) *built {
	b := build(t, storetest.Options{SegmentSize: 64 << 10, QueueFileSize: 20 * 500})
	for n := 0; b.Pos() < segments*64<<10-2000; n++ {
		b.add("crash", int32(n)%7, 300+n*37%900)
		if n%500 == 0 {
			b.add("crash", 100+int32(n)/500, 100) // the only message of its queue
		}
	}
	b.Kill()
	b.Checkpoint(layout.Checkpoint{})
	return b
}

// A watchdog kills the recovery each time it has read a part of the log: it comes to its end
// all the same.
func TestCase41KilledRecoveriesConverge(t *testing.T) {
	for _, what := range []string{"all", "no queues"} {
		t.Run(what, func(t *testing.T) {
			b := forgotten(t, 100)
			if what == "no queues" {
				must(t, os.RemoveAll(b.Paths.ConsumeQueue()))
			}
			p := plan{Dir: b.Dir(), Messages: -1, DieAt: 3 << 19}
			total := convergence(t, p, func(s layout.State) int64 { return s.Dispatched })
			if end := b.Pos(); total < end*9/10 {
				t.Errorf("a total of %d bytes was told, of %d", total, end)
			}
			store, err := warmlog.Open(p.Dir, p.options())
			must(t, err)
			holds(t, store, b.all)
			sound(t, store)
			must(t, store.Close())
		})
	}
}

// convergence recovers a store by children that kill themselves, until one does not. Each has to
// come farther than the one before. It returns the greatest total that Open has told.
func convergence(t *testing.T, p plan, far func(layout.State) int64) (total int64) {
	t.Helper()
	kills, noted := 0, far(stateOf(t, p.Dir))
	for {
		if kills > 200 {
			t.Fatalf("%d kills, and the recovery has come to %d", kills, noted)
		}
		j := journal{progress: func(_, of int64) { total = max(total, of) }}
		c := j.start(t, p)
		<-j.ended
		j.kill(c)
		if len(j.errors) > 0 {
			t.Fatal("the child: ", j.errors)
		}
		if j.finished {
			break
		}
		kills++
		at := far(stateOf(t, p.Dir))
		if at <= noted {
			t.Fatalf("the recovery was killed at %d, and had come to %d before", at, noted)
		}
		noted = at
	}
	t.Logf("%d kills, the last at %d", kills, noted)
	if kills < 3 {
		t.Error("hardly a recovery was killed")
	}
	return total
}

// So does the recovery of a store that was Flushed, of which the end has to be written again:
// where it is killed while it reads, and where it is killed while it writes.
func TestCase41KilledRecoveriesOfAFlushedStoreConverge(t *testing.T) {
	const segments, size = 100, 64 << 10
	was := plan{Dir: t.TempDir(), Flushed: true, SegmentSize: size, Queues: 3}
	var j journal
	c := j.start(t, was)
	for far := false; !far; time.Sleep(time.Millisecond) {
		select {
		case <-j.ended:
			t.Fatal("the child has ended: ", j.errors, c.output.String())
		default:
		}
		for _, a := range j.told(true) {
			far = far || a.pos > segments*size
		}
	}
	j.kill(c)
	acks := j.told(true)
	if st := stateOf(t, was.Dir); st.Durable > size {
		t.Skip("there was a checkpoint meanwhile") // on a machine that is very slow
	}
	for _, row := range []struct {
		phase string
		dieAt int64
		far   func(layout.State) int64
	}{
		{"reading", 3 << 19, func(s layout.State) int64 { return min(s.Durable, s.Dispatched) }},
		// Sixteen segments at a time when a note is taken, and those above the last note in the end.
		{"writing", 8 * size, func(s layout.State) int64 { return s.Durable }},
	} {
		t.Run(row.phase, func(t *testing.T) {
			p := was
			p.Dir = copied(t, was.Dir)
			p.Messages, p.DieIn, p.DieAt = -1, row.phase, row.dieAt
			convergence(t, p, row.far)
			reopen(t, p, acks)
		})
	}
}

// Reading the log for a recovery leaves no page of it in memory that was not there, but for the
// last segment's; what was there stays.
func TestCase41LeavesThePageCacheAsItWas(t *testing.T) {
	b := forgotten(t, 40)
	command(t, "sync", "-f", b.Dir())
	paths, err := filepath.Glob(filepath.Join(b.Paths.CommitLog(), "*"))
	must(t, err)
	const warm = 3
	for i, path := range paths {
		if i != warm {
			evict(t, path)
		}
	}
	for i, path := range paths[:len(paths)-1] {
		if n := inMemory(t, path); (n > 0) != (i == warm) {
			t.Skipf("%s: %d pages in memory: they cannot be evicted here", base(path), n)
		}
	}
	store, err := warmlog.Open(b.Dir(), warmlog.Options{})
	must(t, err)
	defer store.Close()
	for i, path := range paths[:len(paths)-1] {
		switch n := inMemory(t, path); {
		case i == warm && n != 16:
			t.Errorf("%s: %d of 16 pages in memory, all were", base(path), n)
		case i != warm && i < len(paths)-2 && n > 0: // entries at the end are compared with records
			t.Errorf("%s: %d pages in memory, none was", base(path), n)
		}
	}
	holds(t, store, b.all)
}

func evict(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	must(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
}

// inMemory returns how many pages of a segment of 64 KiB are in memory.
func inMemory(t *testing.T, path string) int {
	t.Helper()
	f, err := mapfile.Open(path, 64<<10, mapfile.ReadOnly)
	must(t, err)
	defer f.Close()
	n := 16
	for _, r := range pagecache.MappedAbsent(f.Bytes()) {
		n -= int(r[1]-r[0]) / os.Getpagesize()
	}
	return n
}
