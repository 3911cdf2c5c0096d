package pagecache

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// again opens a file once more, with the kernel's usual reading ahead.
func again(t *testing.T, f *os.File) *os.File {
	g, err := os.Open(f.Name())
	must(t, err)
	t.Cleanup(func() { g.Close() })
	return g
}

func TestUncachedReadLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, p *Prober) {
		const pages = 500
		f := newFile(t, t.TempDir(), pages)
		want, err := os.ReadFile(f.Name())
		must(t, err)
		seed := rand.Uint64()
		t.Log("seed", seed)
		rnd := rand.New(rand.NewPCG(seed, 0))
		for _, share := range []int{0, 10, 90, 100} {
			cool(t, f)
			for page := range pages {
				if rnd.IntN(100) < share {
					warm(t, f, page)
				}
			}
			before := truth(t, f)
			g := again(t, f)
			read := func(off, n int64) {
				t.Helper()
				b := make([]byte, n)
				if got, err := p.ReadUncached(g, nil, b, off); int64(got) != n || err != nil || !bytes.Equal(b, want[off:off+n]) {
					t.Errorf("%d bytes at %d: %d, %v", n, off, got, err)
				}
				for page, is := range truth(t, f) {
					if is != before[page] {
						t.Fatalf("after %d bytes at %d page %d: in memory is %v, was %v", n, off, page, is, before[page])
					}
				}
			}
			for off := int64(0); off < pages*pageSize; off += 50 * pageSize { // in order: the kernel would read ahead
				read(off, 50*pageSize)
			}
			for range 20 {
				off := rnd.Int64N(pages * pageSize)
				read(off, rnd.Int64N(min(pages*pageSize-off, 40*pageSize)))
			}
		}
	})
}

func TestUncachedReadOfTheEnd(t *testing.T) {
	each(t, func(t *testing.T, p *Prober) {
		f := newFile(t, t.TempDir(), 4)
		must(t, f.Truncate(3*pageSize+100)) // which dirties the last page
		must(t, f.Sync())
		cool(t, f)
		b := make([]byte, 2*pageSize)
		if n, err := p.ReadUncached(f, nil, b, 3*pageSize); n != 100 || err != io.EOF {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := p.ReadUncached(f, nil, b, 9*pageSize); n != 0 || err != io.EOF {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := p.ReadUncached(f, nil, b, -1); n != 0 || !errors.Is(err, ErrRange) {
			t.Errorf("%d, %v", n, err)
		}
		if n := in(truth(t, f)); n != 0 {
			t.Errorf("%d pages stay", n)
		}
	})
}

// Where nothing is known the kernel is asked to drop what it read itself.
func TestUncachedReadWithoutAnAnswer(t *testing.T) {
	f := newFile(t, t.TempDir(), 100)
	warm(t, f, 3, 50)
	want, err := os.ReadFile(f.Name())
	must(t, err)
	cool(t, f)
	warm(t, f, 3, 50)
	p := NewProber(ProberOptions{})
	g := again(t, f)
	NoReadAhead(g)
	for off := int64(0); off < 60*pageSize; off += 10 * pageSize { // in order: the kernel would read ahead
		b := make([]byte, 10*pageSize)
		if n, err := p.ReadUncached(g, nil, b, off); n != len(b) || err != nil || !bytes.Equal(b, want[off:off+int64(n)]) {
			t.Errorf("at %d: %d, %v", off, n, err)
		}
	}
	if n, err := p.ReadUncached(g, nil, make([]byte, 2*pageSize), 99*pageSize); int64(n) != pageSize || err != io.EOF {
		t.Errorf("%d, %v", n, err)
	}
	if p.noDontCache.Load() {
		t.Skip("no RWF_DONTCACHE here: everything stays")
	}
	if is := truth(t, f); in(is) != 2 || !is[3] || !is[50] {
		t.Errorf("%d pages are in memory, 2 were", in(is))
	}
}

// Prefetched pages go when they are given back, those that were there do not.
func TestPrefetchReadDrop(t *testing.T) {
	each(t, func(t *testing.T, p *Prober) {
		f := newFile(t, t.TempDir(), 300)
		warm(t, f, 100, 120, 121, 299)
		off, n := 90*pageSize+17, 100*pageSize
		absent, known, err := p.Absent(nil, f, nil, off, n)
		if !known || err != nil {
			t.Fatal(known, err)
		}
		must(t, Prefetch(f, off, n))
		_, err = again(t, f).ReadAt(make([]byte, n), off)
		must(t, err)
		if is := truth(t, f); in(is) != 102 {
			t.Errorf("%d pages after reading 101, and one was there", in(is))
		}
		Drop(f, absent)
		if is := truth(t, f); in(is) != 4 || !is[100] || !is[120] || !is[121] || !is[299] {
			t.Errorf("%d pages are in memory, 4 were", in(is))
		}
	})
}

// A device that reads ahead little takes up a large request in part, and says nothing.
func TestPrefetchIsWholeAndExact(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a device with a small read-ahead")
	}
	image := filepath.Join(t.TempDir(), "image")
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, 32*mib))
	out, err := exec.Command("losetup", "--find", "--show", image).CombinedOutput()
	if err != nil {
		t.Skip("no loop device: ", err, " ", string(out))
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() { must(t, exec.Command("losetup", "--detach", device).Run()) })
	for _, name := range []string{"read_ahead_kb", "max_sectors_kb"} {
		must(t, os.WriteFile(filepath.Join("/sys/block", filepath.Base(device), "queue", name), []byte("128"), 0))
	}
	f, err := os.Open(device)
	must(t, err)
	defer f.Close()
	p := NewProber(ProberOptions{Dir: t.TempDir(), Methods: Cachestat}) // it counts what is on its way
	if p.Method() == 0 {
		t.Skip("not to be had here: ", p)
	}
	_, err = p.Evict(f, nil, 0, 32*mib, false)
	must(t, err)
	const off, n = 5*mib + 123, 16*mib + 1
	must(t, Prefetch(f, off, n))
	runs, known, err := p.Runs(nil, f, nil, 0, 32*mib)
	if want := [][2]int64{{off / pageSize * pageSize, (off + n + pageSize - 1) / pageSize * pageSize}}; !slices.Equal(runs, want) || !known || err != nil {
		t.Errorf("%v, %v, %v; want %v", runs, known, err, want)
	}
	if err := Prefetch(f, -1, 1); !errors.Is(err, ErrRange) {
		t.Error(err)
	}
}

func TestEvict(t *testing.T) {
	each(t, func(t *testing.T, p *Prober) {
		const pages = 64
		f := newFile(t, t.TempDir(), pages)
		m := mapped(t, f)
		evict := func(what string, stay int64, sync bool) {
			t.Helper()
			stayed, err := p.Evict(f, m, 0, pages*pageSize, sync)
			if want := (Count{pages, stay, p.Method()}); stayed != want || err != nil {
				t.Errorf("%s: %+v, %v; want %+v", what, stayed, err, want)
			}
			if n := in(truth(t, f)); n != stay {
				t.Errorf("%s: %d pages are in memory, want %d", what, n, stay)
			}
		}
		sum := byte(0)
		for page := range int64(pages) {
			sum += m[page*pageSize]
		}
		Drop(f, [][2]int64{{0, pages * pageSize}})
		if n := in(truth(t, f)); n != pages {
			t.Errorf("%d of %d mapped pages: they went although they are in a page table, sum %d", n, pages, sum)
		}
		evict("mapped", 0, false)

		warm(t, f, 10)
		_, err := f.WriteAt([]byte("dirty"), 10*pageSize)
		must(t, err)
		evict("dirty and synced", 0, true)

		must(t, unix.Mlock(m[20*pageSize:24*pageSize]))
		warm(t, f, 30)
		evict("locked", 4, true)
		must(t, unix.Munlock(m[20*pageSize:24*pageSize]))
		evict("unlocked", 0, false)
	})
}

func TestUncachedReadAllocatesNothing(t *testing.T) {
	each(t, func(t *testing.T, p *Prober) {
		f := newFile(t, t.TempDir(), 16)
		m := mapped(t, f)
		b := make([]byte, 16*pageSize)
		for _, what := range []string{"cold", "hot"} {
			if n := testing.AllocsPerRun(50, func() { _, _ = p.ReadUncached(f, m, b, 0) }); n != 0 {
				t.Errorf("%s: %v allocations", what, n)
			}
			for page := range 16 {
				warm(t, f, page)
			}
		}
	})
}
