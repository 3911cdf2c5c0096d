package pagecache

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// finds checks what was found out: per method the error, and whether it is believed.
func finds(t *testing.T, p *Prober, want ...Finding) {
	t.Helper()
	for i, f := range p.Findings() {
		if w := want[i]; f.Method != w.Method || f.Believed != w.Believed || !errors.Is(f.Err, w.Err) || (f.Err == nil) != (w.Err == nil) {
			t.Errorf("%s; want %s", f, w)
		}
		if (p.Method()&f.Method != 0) != f.Believed {
			t.Errorf("%s, but %s may be asked", f, p.Method())
		}
	}
}

func descriptors(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}

func TestProberOfDir(t *testing.T) {
	dir := t.TempDir()
	newFile(t, t.TempDir(), 1) // which skips the test where nothing can be evicted
	open := descriptors(t)
	finds(t, NewProber(ProberOptions{Dir: dir}), Finding{Cachestat, true, nil}, Finding{Mincore, true, nil})
	finds(t, NewProber(ProberOptions{Dir: dir, Methods: Mincore}), Finding{Cachestat, false, ErrNotTried}, Finding{Mincore, true, nil})
	finds(t, NewProber(ProberOptions{Dir: dir, Methods: Cachestat}), Finding{Cachestat, true, nil}, Finding{Mincore, false, ErrNotTried})
	none := NewProber(ProberOptions{Dir: filepath.Join(dir, "missing")})
	finds(t, none, Finding{Cachestat, false, os.ErrNotExist}, Finding{Mincore, false, os.ErrNotExist})
	if list, err := os.ReadDir(dir); len(list) != 0 || err != nil || descriptors(t) != open {
		t.Errorf("left behind: %v, %v, %d descriptors, were %d", list, err, descriptors(t), open)
	}
}

// Without a name, the directory is not even touched, nor is the file.
func TestProberUnnamed(t *testing.T) {
	f := newFile(t, t.TempDir(), 120) // which skips the test where nothing can be evicted
	dir := filepath.Dir(f.Name())
	if probe, err := unnamed(dir); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("no files without a name here: ", err)
	} else if err == nil {
		probe.Close()
	}
	before, err := os.Stat(dir)
	must(t, err)
	open := descriptors(t)
	finds(t, NewProber(ProberOptions{Dir: dir, File: f.Name(), Unnamed: true}), Finding{Cachestat, true, nil}, Finding{Mincore, true, nil})
	missing := filepath.Join(dir, "missing")
	finds(t, NewProber(ProberOptions{Dir: missing, File: f.Name(), Unnamed: true}), Finding{Cachestat, false, os.ErrNotExist}, Finding{Mincore, false, os.ErrNotExist})
	after, err := os.Stat(dir)
	must(t, err)
	if n := in(truth(t, f)); n != 0 || descriptors(t) != open || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("%d pages of the file are in memory, %d descriptors, were %d; the directory is of %v, was of %v", n, descriptors(t), open, after.ModTime(), before.ModTime())
	}
}

// Trying the methods on a file of the store leaves it as it was.
func TestProberOfFile(t *testing.T) {
	f := newFile(t, t.TempDir(), 120)
	open := descriptors(t)
	try := func(what string) {
		t.Helper()
		before := truth(t, f)
		finds(t, NewProber(ProberOptions{File: f.Name()}), Finding{Cachestat, true, nil}, Finding{Mincore, true, nil})
		for page, is := range truth(t, f) {
			if is != before[page] {
				t.Errorf("%s: page %d: in memory is %v, was %v", what, page, is, before[page])
			}
		}
		if n := descriptors(t); n != open {
			t.Errorf("%d descriptors are open, were %d", n, open)
		}
	}
	try("nothing in memory")
	warm(t, f, 7, 45, 46)
	try("something in memory")
	for page := range 120 {
		warm(t, f, page)
	}
	try("all in memory")
	small := filepath.Join(t.TempDir(), "small")
	must(t, os.WriteFile(small, []byte("small"), 0o600))
	finds(t, NewProber(ProberOptions{File: small}), Finding{Cachestat, false, errNothingToTry}, Finding{Mincore, false, errNothingToTry})
}

// Pages that cannot be evicted make nobody a liar, and stay.
func TestProberOfLockedPages(t *testing.T) {
	f := newFile(t, t.TempDir(), 120)
	m := mapped(t, f)
	must(t, unix.Mlock(m))
	defer unix.Munlock(m)
	p := NewProber(ProberOptions{File: f.Name()})
	finds(t, p, Finding{Cachestat, true, ErrCannotTell}, Finding{Mincore, true, ErrCannotTell})
	if c, err := p.Resident(f, m, 0, 120*pageSize); !c.All() || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestProberOnTmpfs(t *testing.T) {
	dir := mountOn(t, "tmpfs", "")
	for _, m := range methods {
		p := NewProber(ProberOptions{Dir: dir, Methods: m})
		if p.Method() != m || !strings.Contains(p.String(), m.String()+": believed, though pages cannot be evicted here to try it") {
			t.Error(p)
		}
		path := filepath.Join(dir, "file")
		must(t, os.WriteFile(path, make([]byte, 9*pageSize), 0o600))
		f, err := os.Open(path)
		must(t, err)
		if c, err := p.Resident(f, nil, 0, 9*pageSize); c != (Count{9, 9, m}) || err != nil {
			t.Errorf("%+v, %v", c, err)
		}
		must(t, f.Close())
	}
}

// On overlayfs cachestat looks at the pages of the wrong file, and finds none.
func TestProberOnOverlayfs(t *testing.T) {
	lower, upper := t.TempDir(), t.TempDir()
	for _, name := range []string{"upper", "work"} {
		must(t, os.Mkdir(filepath.Join(upper, name), 0o755))
	}
	dir := mountOn(t, "overlay", "lowerdir="+lower+",upperdir="+filepath.Join(upper, "upper")+",workdir="+filepath.Join(upper, "work"))
	f := newFile(t, dir, 120)
	warm(t, f, 5)
	for _, o := range []ProberOptions{{Dir: dir}, {File: f.Name()}} {
		p := NewProber(o)
		if p.Method()&Mincore == 0 {
			t.Error(p)
		}
		if c, err := p.Resident(f, nil, 0, 120*pageSize); c.Resident != 1 || !c.Known() || err != nil {
			t.Errorf("%s: %+v, %v", p, c, err)
		}
		t.Log(p)
	}
}

// All that a method can say, of 16 pages.
func TestFindings(t *testing.T) {
	no := errors.New("no")
	for _, c := range []struct {
		what  string
		said  said
		gone  bool
		right error
		want  Finding
	}{
		{"notices both", said{read: 16}, true, no, Finding{Mincore, true, nil}},
		{"notices that some go", said{read: 16, evicted: 15}, true, no, Finding{Mincore, true, nil}},
		{"says always all", said{before: 16, read: 16, evicted: 16}, true, nil, Finding{Mincore, false, ErrEvictedResident}},
		{"says always none", said{}, true, nil, Finding{Mincore, false, ErrReadAbsent}},
		{"misses one that was read", said{read: 15}, true, nil, Finding{Mincore, false, ErrReadAbsent}},
		{"nothing went, may ask", said{read: 16, evicted: 16}, false, nil, Finding{Mincore, true, ErrCannotTell}},
		{"nothing went, may not ask", said{read: 16, evicted: 16}, false, no, Finding{Mincore, false, no}},
		{"said both before", said{mixed: true}, false, no, Finding{Mincore, true, nil}},
		{"is refused", said{mixed: true, read: 16, err: unix.EPERM}, true, nil, Finding{Mincore, false, unix.EPERM}},
	} {
		f := c.said.finding(Mincore, 16, c.gone, func() error { return c.right })
		if f.Method != c.want.Method || f.Believed != c.want.Believed || f.Err != c.want.Err {
			t.Errorf("%s: %s; want %s", c.what, f, c.want)
		}
	}
}

// Who lies is found out by the other method, or by a read that does not wait.
func TestLiarsAreFoundOut(t *testing.T) {
	all := func(_, pages int64) (int64, error) { return pages, nil }
	none := func(int64, int64) (int64, error) { return 0, nil }
	refused := func(int64, int64) (int64, error) { return 0, unix.EPERM }
	f := newFile(t, t.TempDir(), 60)
	for _, blind := range []bool{false, true} { // whether there are no reads that do not wait
		for _, first := range []int64{0, 20} {
			run := func(cachestat, mincore func(int64, int64) (int64, error)) *Prober {
				tr := newTrial(f, first, tryPages)
				honest := tr.count
				if first > 0 {
					tr.survey = 40
				}
				tr.count = func(m Method, first, pages int64) (int64, error) {
					as := map[Method]func(int64, int64) (int64, error){Cachestat: cachestat, Mincore: mincore}[m]
					if as == nil {
						return honest(m, first, pages)
					}
					return as(first, pages)
				}
				tr.absent = func(page int64) bool { return !blind && !truth(t, f)[page] }
				p := &Prober{findings: tr.run(Cachestat | Mincore)}
				for _, f := range p.findings {
					if f.Believed {
						p.believed |= f.Method
					}
				}
				return p
			}
			finds(t, run(nil, all), Finding{Cachestat, true, nil}, Finding{Mincore, false, ErrEvictedResident})
			finds(t, run(all, nil), Finding{Cachestat, false, ErrEvictedResident}, Finding{Mincore, true, nil})
			finds(t, run(none, nil), Finding{Cachestat, false, ErrReadAbsent}, Finding{Mincore, true, nil})
			if !blind {
				finds(t, run(refused, all), Finding{Cachestat, false, unix.EPERM}, Finding{Mincore, false, ErrEvictedResident})
				finds(t, run(all, all), Finding{Cachestat, false, ErrEvictedResident}, Finding{Mincore, false, ErrEvictedResident})
			}
		}
	}
}

func TestAbsenceIsSeen(t *testing.T) {
	f := newFile(t, t.TempDir(), 60)
	const tries = 2000
	for range tries {
		cool(t, f)
		absent := seenAbsent(f, 7)
		warm(t, f, 7)
		if seenAbsent(f, 7) {
			t.Fatal("a page that was read is absent")
		}
		if absent {
			return
		}
	}
	t.Skipf("%d times a page was there before the kernel looked: this device is too fast", tries)
}
