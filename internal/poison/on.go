//go:build warmlogdebug

package poison

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Kept is how many pieces of released memory stay protected. Behind them the oldest gives its
// addresses back: a process may have 65,530 mappings.
const Kept = 4096

// piece is memory that was released.
type piece struct {
	memory []byte
	why    string
}

var table struct {
	mu     sync.RWMutex
	sorted []*piece // by address
	byAge  []*piece // oldest first
}

func start(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func byStart(p *piece, at uintptr) int { return cmp.Compare(start(p.memory), at) }

// New returns n bytes, zeros, for Release or Free.
func New(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

// Free gives memory of New back that nobody has seen.
func Free(memory []byte) { must(unix.Munmap(memory)) }

// Release protects memory of New. Touching it is a fault from now on; why says what was
// released, and where.
func Release(memory []byte, why string) {
	// The pages go, the addresses stay. Not every system can; then they are kept too.
	_ = unix.Madvise(memory, unix.MADV_DONTNEED)
	must(unix.Mprotect(memory, unix.PROT_NONE))
	t := &table
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &piece{memory, why}
	i, _ := slices.BinarySearchFunc(t.sorted, start(memory), byStart)
	t.sorted = slices.Insert(t.sorted, i, p)
	t.byAge = append(t.byAge, p)
	if len(t.byAge) > Kept {
		oldest := t.byAge[0]
		t.byAge = slices.Delete(t.byAge, 0, 1)
		i, _ := slices.BinarySearchFunc(t.sorted, start(oldest.memory), byStart)
		t.sorted = slices.Delete(t.sorted, i, i+1)
		Free(oldest.memory)
	}
}

// must is for calls that cannot fail on memory of New.
func must(err error) {
	if err != nil {
		panic(fmt.Sprint("poison: not memory of New, or released before: ", err))
	}
}

// Check panics if b is memory that was released.
func Check(b []byte) { CheckAddr(start(b)) }

// CheckAddr is Check of an address.
func CheckAddr(at uintptr) {
	if why, ok := find(at); ok {
		panic(why)
	}
}

func find(at uintptr) (why string, ok bool) {
	t := &table
	t.mu.RLock()
	defer t.mu.RUnlock()
	i, exact := slices.BinarySearchFunc(t.sorted, at, byStart)
	if !exact {
		i--
	}
	if i < 0 || at-start(t.sorted[i].memory) >= uintptr(len(t.sorted[i].memory)) {
		return "", false
	}
	return t.sorted[i].why, true
}
