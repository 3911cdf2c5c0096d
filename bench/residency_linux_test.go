package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/warmlog/warmlog/pagecache"
	"golang.org/x/sys/unix"
)

// BenchmarkResidency asks how many pages of a range are in memory, of a file all of which is.
// The floor is the bare system call of the method.
func BenchmarkResidency(b *testing.B) {
	dir := b.TempDir()
	f, err := os.Create(filepath.Join(dir, "file"))
	check(b, err)
	b.Cleanup(func() { f.Close() })
	const most = 65536
	page := int64(os.Getpagesize())
	block := make([]byte, 1<<20)
	for n := int64(0); n < most*page; n += int64(len(block)) {
		_, err := f.Write(block)
		check(b, err)
	}
	check(b, f.Sync())
	mapping := mapWhole(b, f.Name())
	vector := make([]byte, most)
	bare := map[pagecache.Method]func(pages int64){
		pagecache.Cachestat: func(pages int64) {
			where := unix.CachestatRange{Len: uint64(pages * page)}
			var what unix.Cachestat_t
			check(b, unix.Cachestat(uint(f.Fd()), &where, &what, 0))
		},
		pagecache.Mincore: func(pages int64) {
			_, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mapping[0])), uintptr(pages*page), uintptr(unsafe.Pointer(&vector[0])))
			if e != 0 {
				b.Fatal(e)
			}
		},
	}
	for _, method := range []pagecache.Method{pagecache.Cachestat, pagecache.Mincore} {
		p := pagecache.NewProber(pagecache.ProberOptions{Dir: dir, Methods: method})
		for _, pages := range []int64{1, 16, 256, most} {
			b.Run(fmt.Sprintf("pages=%d/%s", pages, method), func(b *testing.B) {
				if p.Method() != method {
					b.Skip(p)
				}
				b.ReportAllocs()
				alternate(b, 1, func(n int) {
					for range n {
						c, err := p.Resident(f, mapping, 0, pages*page)
						check(b, err)
						if !c.All() {
							b.Fatalf("%+v", c)
						}
					}
				}, func(n int) {
					for range n {
						bare[method](pages)
					}
				})
			})
		}
	}
}
