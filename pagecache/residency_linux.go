package pagecache

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fewPages is how many are asked of without allocating; the answer fits on the stack.
const fewPages = 256

// vectors are the answers about more pages: 64 KiB each, for 256 MiB in pages of 4 KiB.
var vectors = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// notTold says whether a system call's error means that the kernel does not tell this process
// about this file, or at all.
func notTold(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}

// cachestat counts the pages of a file that are in memory.
func cachestat(f *os.File, first, pages int64) (int64, error) {
	where := unix.CachestatRange{Off: uint64(first * pageSize), Len: uint64(pages * pageSize)}
	var what unix.Cachestat_t
	err := unix.Cachestat(uint(f.Fd()), &where, &what, 0)
	runtime.KeepAlive(f)
	return min(int64(what.Cache), pages), err
}

// mincore counts the pages of a file that are in memory, and tells r each where r is not nil.
func mincore(f *os.File, mapping []byte, first, pages int64, r *runs) (resident int64, err error) {
	if mapping != nil {
		return mincoreAt(unsafe.Add(unsafe.Pointer(unsafe.SliceData(mapping)), first*pageSize), first, pages, r)
	}
	// Never touched, so it costs no memory and warms nothing. (Not Mmap, which allocates.)
	addr, err := unix.MmapPtr(int(f.Fd()), first*pageSize, nil, uintptr(pages*pageSize), unix.PROT_READ, unix.MAP_SHARED)
	runtime.KeepAlive(f)
	if err != nil {
		return 0, os.NewSyscallError("mmap", err)
	}
	resident, err = mincoreAt(addr, first, pages, r)
	_ = unix.MunmapPtr(addr, uintptr(pages*pageSize)) // ours: it cannot fail
	return resident, err
}

// mincoreAt asks about pages that are mapped from addr on; first is the file's at addr.
func mincoreAt(addr unsafe.Pointer, first, pages int64, r *runs) (resident int64, err error) {
	if pages <= fewPages {
		var few [fewPages]byte
		return mincoreInto(few[:pages], addr, first, r)
	}
	vector := vectors.Get().(*[64 << 10]byte)
	defer vectors.Put(vector)
	for done := int64(0); done < pages; {
		n := min(pages-done, int64(len(vector)))
		m, err := mincoreInto(vector[:n], unsafe.Add(addr, done*pageSize), first+done, r)
		if err != nil {
			return 0, err
		}
		resident += m
		done += n
	}
	return resident, nil
}

// mincoreInto asks about as many pages as the vector has bytes.
func mincoreInto(vector []byte, addr unsafe.Pointer, first int64, r *runs) (resident int64, err error) {
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(addr), uintptr(int64(len(vector))*pageSize), uintptr(unsafe.Pointer(unsafe.SliceData(vector))))
	if errno != 0 {
		return 0, os.NewSyscallError("mincore", errno)
	}
	for i, v := range vector {
		resident += int64(v & 1) // the other bits are reserved
		if r != nil {
			r.add(first+int64(i), 1, v&1 != 0)
		}
	}
	return resident, nil
}
