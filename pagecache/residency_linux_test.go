package pagecache

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// Whatever is in memory, counts and runs of any range are those of the kernel's own list.
func TestResidencyEqualsTruth(t *testing.T) {
	equal := func(t *testing.T, p *Prober) {
		const pages = 700
		f := newFile(t, t.TempDir(), pages)
		m := mapped(t, f)
		seed := rand.Uint64()
		t.Log("seed", seed)
		rnd := rand.New(rand.NewPCG(seed, 0))
		for _, share := range []int{0, 1, 20, 50, 95, 100} {
			cool(t, f)
			for page := range pages {
				if rnd.IntN(100) < share {
					warm(t, f, page)
				}
			}
			is := truth(t, f)
			for i := range 60 {
				mapping := m
				if i%2 == 0 {
					mapping = nil
				}
				off := rnd.Int64N(pages * pageSize)
				n := rnd.Int64N(pages*pageSize - off)
				if i%3 == 0 {
					n = min(n, 5*pageSize)
				}
				equalsTruth(t, p, f, mapping, is, off, n)
			}
			equalsTruth(t, p, f, m, is, 0, pages*pageSize)
		}
	}
	each(t, equal)
	t.Run("both", func(t *testing.T) {
		if p := NewProber(ProberOptions{Dir: t.TempDir()}); p.Method() == Cachestat|Mincore {
			equal(t, p)
		} else {
			t.Skip("not to be had here: ", p)
		}
	})
}

func equalsTruth(t *testing.T, p *Prober, f *os.File, mapping []byte, is []bool, off, n int64) {
	t.Helper()
	c, err := p.Resident(f, mapping, off, n)
	want := Count{Method: p.first()}
	lists := map[bool][][2]int64{}
	for at := off; at < off+n; {
		page := at / pageSize
		to := min((page+1)*pageSize, off+n)
		want.Pages++
		if is[page] {
			want.Resident++
		}
		l := lists[is[page]]
		if last := len(l) - 1; last >= 0 && l[last][1] == at {
			l[last][1] = to
		} else {
			l = append(l, [2]int64{at, to})
		}
		lists[is[page]] = l
		at = to
	}
	if c != want || err != nil {
		t.Errorf("%d bytes at %d: %+v, %v; want %+v", n, off, c, err, want)
	}
	runs, known, err := p.Runs(nil, f, mapping, off, n)
	if !slices.Equal(runs, lists[true]) || !known || err != nil {
		t.Errorf("%d bytes at %d: runs %v, %v, %v; want %v", n, off, runs, known, err, lists[true])
	}
	kept := [2]int64{off - 1, off} // what was there before is not ours
	absent, known, err := p.Absent([][2]int64{kept}, f, mapping, off, n)
	if absent[0] != kept || !slices.Equal(absent[1:], lists[false]) || !known || err != nil {
		t.Errorf("%d bytes at %d: absent %v, %v, %v; want %v", n, off, absent, known, err, lists[false])
	}
}

// More pages than one answer of mincore holds.
func TestResidencyOfManyPages(t *testing.T) {
	each(t, func(t *testing.T, p *Prober) {
		f := newFile(t, t.TempDir(), 8)
		const pages = 3*(64<<10) + 5 // sparse: a hole has pages as well
		must(t, f.Truncate(pages*pageSize))
		for _, page := range []int{1, 2, 65535, 65536, 131072, pages - 1} {
			warm(t, f, page)
		}
		c, err := p.Resident(f, nil, 0, pages*pageSize)
		if want := (Count{pages, 6, p.Method()}); c != want || err != nil {
			t.Errorf("%+v, %v; want %+v", c, err, want)
		}
		runs, _, err := p.Runs(nil, f, nil, 0, pages*pageSize)
		want := [][2]int64{{1, 3}, {65535, 65537}, {131072, 131073}, {pages - 1, pages}}
		for i := range want {
			want[i][0] *= pageSize
			want[i][1] *= pageSize
		}
		if !slices.Equal(runs, want) || err != nil {
			t.Errorf("%v, %v; want %v", runs, err, want)
		}
	})
}

func TestLookingWarmsNothing(t *testing.T) {
	each(t, func(t *testing.T, p *Prober) {
		const pages = 600
		f := newFile(t, t.TempDir(), pages)
		m := mapped(t, f)
		warm(t, f, 300)
		for _, mapping := range [][]byte{nil, m} {
			for _, n := range []int64{1, pageSize, 100 * pageSize, pages * pageSize} {
				for _, off := range []int64{0, pages*pageSize - n} {
					_, err1 := p.Resident(f, mapping, off, n)
					_, _, err2 := p.Runs(nil, f, mapping, off, n)
					_, _, err3 := p.Absent(nil, f, mapping, off, n)
					must(t, errors.Join(err1, err2, err3))
				}
			}
		}
		if is := truth(t, f); in(is) != 1 || !is[300] {
			t.Errorf("%d pages are in memory, 1 was", in(is))
		}
	})
}

// A file or mapping that ends before the range does is no danger: nothing is touched.
func TestRangeBeyondTheEnd(t *testing.T) {
	each(t, func(t *testing.T, p *Prober) {
		f := newFile(t, t.TempDir(), 64)
		m := mapped(t, f)
		must(t, f.Truncate(10*pageSize+1))
		warm(t, f, 0, 9, 10)
		for _, mapping := range [][]byte{nil, m} {
			c, err := p.Resident(f, mapping, 5*pageSize, 59*pageSize)
			if want := (Count{59, 2, p.Method()}); c != want || err != nil {
				t.Errorf("%+v, %v; want %+v", c, err, want)
			}
			runs, known, err := p.Runs(nil, f, mapping, 0, 64*pageSize)
			if want := [][2]int64{{0, pageSize}, {9 * pageSize, 11 * pageSize}}; !slices.Equal(runs, want) || !known || err != nil {
				t.Errorf("%v, %v, %v; want %v", runs, known, err, want)
			}
		}
		if c, err := p.Resident(f, nil, 1<<50, 1); c.Resident != 0 || !c.Known() && err == nil {
			t.Errorf("far behind the end: %+v, %v", c, err)
		}
	})
}

func TestBadRanges(t *testing.T) {
	each(t, func(t *testing.T, p *Prober) {
		f := newFile(t, t.TempDir(), 4)
		m := mapped(t, f)
		for _, bad := range []struct {
			mapping []byte
			off, n  int64
		}{{nil, -1, 1}, {nil, 0, -1}, {nil, math.MaxInt64, 1}, {nil, 1, math.MaxInt64},
			{nil, math.MaxInt64 - 9, 5}, {m, 4 * pageSize, 1}, {m, 0, 4*pageSize + 1}} {
			_, err1 := p.Resident(f, bad.mapping, bad.off, bad.n)
			_, _, err2 := p.Runs(nil, f, bad.mapping, bad.off, bad.n)
			_, err3 := p.Evict(f, bad.mapping, bad.off, bad.n, false)
			for _, err := range []error{err1, err2, err3} {
				if !errors.Is(err, ErrRange) || !strings.Contains(err.Error(), fmt.Sprintf("%s: %d bytes at %d", f.Name(), bad.n, bad.off)) {
					t.Errorf("%d bytes at %d: %v", bad.n, bad.off, err)
				}
			}
		}
		if c, err := p.Resident(f, m, 4*pageSize, 0); !c.All() || c.Pages != 0 || err != nil {
			t.Errorf("nothing: %+v, %v", c, err)
		}
		f.Close()
		if c, err := p.Resident(f, nil, 0, 1); c.Known() || !strings.Contains(fmt.Sprint(err), f.Name()) {
			t.Errorf("a closed file: %+v, %v", c, err)
		}
	})
}

func TestResidentAllocatesNothing(t *testing.T) {
	each(t, func(t *testing.T, p *Prober) {
		f := newFile(t, t.TempDir(), fewPages)
		m := mapped(t, f)
		warm(t, f, 1, 8)
		var few [4][2]int64
		for _, mapping := range [][]byte{m, nil} {
			for _, pages := range []int64{1, 16, fewPages} {
				if n := testing.AllocsPerRun(100, func() { _, _ = p.Resident(f, mapping, 0, pages*pageSize) }); n != 0 {
					t.Errorf("%d pages: %v allocations", pages, n)
				}
				if n := testing.AllocsPerRun(100, func() { _, _, _ = p.Absent(few[:0], f, mapping, 0, pages*pageSize) }); n != 0 {
					t.Errorf("absent of %d pages: %v allocations", pages, n)
				}
			}
		}
	})
}

// What cannot be believed is not asked.
func TestUnknown(t *testing.T) {
	f := newFile(t, t.TempDir(), 4)
	for _, p := range []*Prober{new(Prober), NewProber(ProberOptions{}), NewProber(ProberOptions{Dir: t.TempDir(), Methods: 1 << 7})} {
		c, err := p.Resident(f, nil, 0, pageSize)
		if c.Known() || c.All() || c.Pages != 1 || err != nil {
			t.Errorf("%+v, %v", c, err)
		}
		for _, list := range []func([][2]int64, *os.File, []byte, int64, int64) ([][2]int64, bool, error){p.Runs, p.Absent} {
			if runs, known, err := list(nil, f, nil, 0, pageSize); runs != nil || known || err != nil {
				t.Errorf("%v, %v, %v", runs, known, err)
			}
		}
	}
}

func TestMappedAbsent(t *testing.T) {
	f := newFile(t, t.TempDir(), 300)
	warm(t, f, 0, 100, 101)
	want := [][2]int64{{pageSize, 100 * pageSize}, {102 * pageSize, 300 * pageSize}}
	if got := MappedAbsent(mapped(t, f)); !slices.Equal(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
	if got := MappedAbsent(nil); got != nil {
		t.Error(got)
	}
}
