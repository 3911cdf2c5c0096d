package mapfile

import (
	"cmp"
	"runtime/debug"
	"slices"
	"sync"
	"unsafe"

	"github.com/warmlog/warmlog/internal/poison"
	"github.com/warmlog/warmlog/message"
)

// ErrFault is the damage of a mapped page that cannot be read: its file was shortened or
// its disk failed.
var ErrFault = message.NewKind("fault", "the page cannot be read: the file was shortened or its disk fails")

// Guard runs read, which touches mapped bytes, and returns a *message.DamageError with
// [ErrFault] where a fault would have ended the process. Any other panic passes through, and
// so does a fault on a file of which read gave up the last reference, by a deferred Release.
// It costs a few ns and allocates nothing.
func Guard(read func()) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			err = FaultError(r)
		}
	}()
	read()
	return nil
}

// FaultError makes an error of a recovered panic that was a fault on a file mapped here.
// It panics again with anything else. The caller had set debug.SetPanicOnFault.
func FaultError(recovered any) error {
	fault, ok := recovered.(interface{ Addr() uintptr })
	if !ok {
		panic(recovered)
	}
	path, off, ok := locate(fault.Addr())
	if !ok {
		poison.CheckAddr(fault.Addr())
		panic(recovered)
	}
	return &message.DamageError{File: path, Offset: off, Err: ErrFault}
}

// registry knows every mapping by its address, sorted.
var registry struct {
	mu    sync.Mutex
	files []*File
}

func start(m *File) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(m.data))) }

func byStart(m *File, at uintptr) int { return cmp.Compare(start(m), at) }

func register(m *File) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	i, _ := slices.BinarySearchFunc(registry.files, start(m), byStart)
	registry.files = slices.Insert(registry.files, i, m)
}

func unregister(m *File) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if i, ok := slices.BinarySearchFunc(registry.files, start(m), byStart); ok {
		registry.files = slices.Delete(registry.files, i, i+1)
	}
}

func locate(at uintptr) (path string, off int64, ok bool) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	i, exact := slices.BinarySearchFunc(registry.files, at, byStart)
	if !exact {
		i--
	}
	if i < 0 {
		return "", 0, false
	}
	m := registry.files[i]
	if at-start(m) >= uintptr(len(m.data)) {
		return "", 0, false
	}
	return m.Path(), int64(at - start(m)), true
}

// Mapped returns how many files are mapped in this process.
func Mapped() int {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	return len(registry.files)
}
