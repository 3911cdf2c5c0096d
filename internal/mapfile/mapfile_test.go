package mapfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/warmlog/warmlog/message"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if n := Mapped(); n != 0 {
			fmt.Println("mappings left behind:", n)
			code = 1
		}
		os.Exit(code)
	}))
}

const page = 4096

func write(t testing.TB, name string, b []byte) string {
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenRefusesWhatWouldFault(t *testing.T) {
	path := write(t, "f", make([]byte, 100))
	for _, size := range []int64{0, -1, 101, page} {
		if f, err := Open(path, size, ReadOnly); err == nil {
			f.Close()
			t.Errorf("mapped %d bytes of 100", size)
		}
	}
	if f, err := Open(filepath.Dir(path), 1, ReadOnly); err == nil {
		f.Close()
		t.Error("mapped a directory")
	}
	if _, err := Open(path+"x", 1, ReadOnly); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestBytesOutliveNameAndOwner(t *testing.T) {
	want := bytes.Repeat([]byte("warm"), page)
	f, err := Open(write(t, "f", want), int64(len(want)), ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	if !f.Acquire() {
		t.Fatal("a new file refuses a reader")
	}
	if err := os.Remove(f.Path()); err != nil {
		t.Fatal(err)
	}
	f.Close()
	f.Close() // gives back nothing
	if !bytes.Equal(f.Bytes(), want) {
		t.Error("other bytes after removing and closing")
	}
	f.Release()
	if f.Acquire() {
		t.Error("a file without references can be acquired")
	}
	defer func() {
		if recover() == nil {
			t.Error("one release too many went unseen")
		}
	}()
	f.Release()
}

// The interleaving that a load followed by an add gets wrong: the last release between.
func TestAcquireRacesLastRelease(t *testing.T) {
	path := write(t, "f", make([]byte, page))
	for range 300 {
		f, err := Open(path, page, ReadOnly)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for f.Acquire() {
					_ = f.Bytes()[0] // faults if it was unmapped
					f.Release()
				}
			})
		}
		f.Close()
		wg.Wait()
	}
}

func TestGuardNamesFileAndOffset(t *testing.T) {
	path := write(t, "f", bytes.Repeat([]byte{7}, 4*page))
	other, err := Open(write(t, "other", make([]byte, page)), page, ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	f, err := Open(path, 4*page, ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, page+100); err != nil {
		t.Fatal(err)
	}
	sum := 0
	if err := Guard(func() { sum = int(f.Bytes()[page+99]) + int(f.Bytes()[page+100]) }); err != nil || sum != 7 {
		t.Errorf("within the last page: %v, sum %d: the rest of it reads as zeros", err, sum)
	}
	for _, at := range []int{2 * page, 2*page + 5, 4*page - 1} {
		err := Guard(func() { sum += int(f.Bytes()[at]) })
		var damage *message.DamageError
		if !errors.As(err, &damage) || damage.File != path || damage.Offset != int64(at) || !errors.Is(err, ErrFault) || !errors.Is(err, message.ErrDamaged) {
			t.Errorf("touching byte %d: %v", at, err)
		}
	}
	// copy faults inside the runtime's assembly, at an address within the range.
	if err := Guard(func() { copy(make([]byte, 4*page), f.Bytes()) }); !errors.Is(err, ErrFault) {
		t.Errorf("copying: %v", err)
	}
	if n, err := f.ReadAt(make([]byte, page), 2*page); n != 0 || err == nil {
		t.Errorf("reading by system call: %d, %v", n, err)
	}
}

func TestGuardLetsOtherPanicsPass(t *testing.T) {
	for name, do := range map[string]func(){
		"a panic":              func() { panic("mine") },
		"an index":             func() { _ = make([]byte, 1)[len(os.Args)+5] },
		"a nil pointer":        func() { var f *File; _ = f.data },
		"a fault off the maps": func() { faultElsewhere(t) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not pass", name)
				}
			}()
			if err := Guard(do); err != nil {
				t.Errorf("%s became %v", name, err)
			}
		}()
	}
}

// faultElsewhere faults on a mapping that is not registered.
func faultElsewhere(t testing.TB) {
	path := write(t, "x", make([]byte, page))
	f, err := Open(path, page, ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { register(f); f.Close() }()
	unregister(f)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	_ = bytes.Count(f.Bytes(), []byte{1})
}

func TestSlotsStayUnderTheCeiling(t *testing.T) {
	const limit, files = 4, 32
	c := NewCache(limit)
	var slots []*Slot
	dir := t.TempDir()
	for i := range files {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(path, bytes.Repeat([]byte{byte(i)}, page), 0o644); err != nil {
			t.Fatal(err)
		}
		slots = append(slots, c.Slot(path, page, ReadOnly))
	}
	held, err := slots[0].Acquire()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 20 * files {
				want := (i*7 + g) % files
				f, err := slots[want].Acquire()
				if err != nil {
					t.Error(err)
					return
				}
				if f.Bytes()[page-1] != byte(want) {
					t.Errorf("slot %d has the bytes of %d", want, f.Bytes()[page-1])
				}
				f.Release()
			}
		})
	}
	wg.Wait()
	if n := c.Open(); n > limit {
		t.Errorf("%d open, limit %d", n, limit)
	}
	if held.Bytes()[0] != 0 {
		t.Error("an evicted file's bytes changed under its reader")
	}
	held.Release()
	for _, s := range slots {
		s.Close()
		s.Close()
	}
	if n := c.Open(); n != 0 {
		t.Errorf("%d open after closing", n)
	}
	if _, err := slots[3].Acquire(); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed slot: %v", err)
	}
}

func TestRecentlyUsedStays(t *testing.T) {
	c := NewCache(2)
	dir := t.TempDir()
	slot := func(name string) *Slot {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, make([]byte, page), 0o644); err != nil {
			t.Fatal(err)
		}
		s := c.Slot(path, page, ReadOnly)
		t.Cleanup(func() { s.Close() })
		return s
	}
	use := func(s *Slot) *File {
		f, err := s.Acquire()
		if err != nil {
			t.Fatal(err)
		}
		f.Release()
		return f
	}
	hot := slot("hot")
	first := use(hot)
	for i := range 10 {
		use(slot(fmt.Sprint(i)))
		if use(hot) != first && i > 0 {
			t.Fatalf("the file in use was closed for file %d", i)
		} else if i == 0 {
			first = use(hot)
		}
	}
}

func BenchmarkGuard(b *testing.B) {
	b.ReportAllocs()
	sum := 0
	for b.Loop() {
		if err := Guard(func() { sum++ }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSlotAcquire(b *testing.B) {
	s := NewCache(1).Slot(write(b, "f", make([]byte, page)), page, ReadOnly)
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		f, err := s.Acquire()
		if err != nil {
			b.Fatal(err)
		}
		f.Release()
	}
}

// What is not used is closed by the second sweep; what is used stays open.
func TestSweepClosesWhatIsIdle(t *testing.T) {
	dir := t.TempDir()
	c := NewCache(0)
	slot := func(name string) *Slot {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
			t.Fatal(err)
		}
		return c.Slot(path, 4096, ReadOnly)
	}
	use := func(s *Slot) *File {
		f, err := s.Acquire()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	busy, idle, held := slot("busy"), slot("idle"), slot("held")
	before := Mapped()
	use(idle).Release()
	kept := use(held)
	for range 3 {
		use(busy).Release() // opened
		use(busy).Release() // used again
		c.Sweep()
	}
	if c.Open() != 1 || Mapped() != before+2 { // busy, and what somebody holds
		t.Errorf("%d open, %d mapped more", c.Open(), Mapped()-before)
	}
	kept.Release()
	if use(idle).Release(); c.Open() != 2 {
		t.Error("what was idle does not come back")
	}
	if c.SetLimit(1); c.Open() != 1 {
		t.Errorf("%d open, the limit is 1", c.Open())
	}
	busy.Close()
	idle.Close()
	held.Close()
	if Mapped() != before {
		t.Errorf("%d files are still mapped", Mapped()-before)
	}
}
