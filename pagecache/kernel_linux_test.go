package pagecache

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Helpers that ask and tell the real kernel, without the code under test.

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// each runs a test with each method alone, as the only one that may be used.
func each(t *testing.T, do func(t *testing.T, p *Prober)) {
	for _, m := range methods {
		t.Run(m.String(), func(t *testing.T) {
			p := NewProber(ProberOptions{Dir: t.TempDir(), Methods: m})
			if p.Method() != m {
				t.Skip("not to be had here: ", p)
			}
			do(t, p)
		})
	}
}

// newFile makes a file of so many pages, on disk, that is open for reading and writing. Reads
// through it are not read ahead, and its pages come one by one, not in large folios.
func newFile(t testing.TB, dir string, pages int) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "file"))
	must(t, err)
	t.Cleanup(func() { f.Close() })
	b := make([]byte, int64(pages)*pageSize)
	for i := range b {
		b[i] = byte(i>>12) ^ byte(i*7)
	}
	_, err = f.Write(b)
	must(t, err)
	must(t, f.Sync())
	must(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM))
	cool(t, f)
	return f
}

// cool evicts a whole file; the test is skipped where that is not possible.
func cool(t testing.TB, f *os.File) {
	t.Helper()
	must(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	for page, in := range truth(t, f) {
		if in {
			t.Skipf("page %d cannot be evicted here", page)
		}
	}
}

// warm brings pages of a file into memory.
func warm(t testing.TB, f *os.File, pages ...int) {
	t.Helper()
	for _, page := range pages {
		_, err := f.ReadAt(make([]byte, 1), int64(page)*pageSize)
		must(t, err)
	}
}

// mapped maps a file from its beginning.
func mapped(t testing.TB, f *os.File) []byte {
	t.Helper()
	st, err := f.Stat()
	must(t, err)
	b, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	must(t, err)
	t.Cleanup(func() { must(t, unix.Munmap(b)) })
	return b
}

// truth is what mincore says of each page of a file that this process may write.
func truth(t testing.TB, f *os.File) []bool {
	t.Helper()
	st, err := f.Stat()
	must(t, err)
	b, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	must(t, err)
	defer unix.Munmap(b)
	vec := make([]byte, (st.Size()+pageSize-1)/pageSize)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&vec[0])))
	if errno != 0 {
		t.Fatal(errno)
	}
	in := make([]bool, len(vec))
	for i, v := range vec {
		in[i] = v&1 != 0
	}
	return in
}

// in counts what is true.
func in(pages []bool) (n int64) {
	for _, is := range pages {
		if is {
			n++
		}
	}
	return n
}

// mountOn mounts a file system on a new directory, and skips the test where that is refused.
func mountOn(t *testing.T, kind, data string) string {
	dir := filepath.Join(t.TempDir(), kind)
	must(t, os.Mkdir(dir, 0o755))
	if err := unix.Mount("none", dir, kind, 0, data); errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENODEV) {
		t.Skip("cannot mount ", kind, ": ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, 0)) })
	return dir
}
