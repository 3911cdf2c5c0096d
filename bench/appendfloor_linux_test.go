package bench

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	mmap "github.com/edsrzf/mmap-go"
	"golang.org/x/sys/unix"
)

// appendFloor is what appending costs without an engine: a record is copied and its body
// checksummed, and a queue entry of 20 bytes is made.
type appendFloor struct {
	b      testing.TB
	dir    string
	record []byte
	crc    *crc32.Table
	entry  [20]byte
	sum    uint32

	file *os.File
	size int64 // bytes of a file
	at   int64
	n    int // files made

	buf  []byte // of the floor that writes by system call
	data mmap.MMap
}

const floorFile = 256 << 20

func newAppendFloor(b testing.TB, body int) *appendFloor {
	return &appendFloor{b: b, dir: b.TempDir(), record: make([]byte, body+120), crc: crc32.MakeTable(crc32.Castagnoli), size: floorFile, at: floorFile}
}

func (f *appendFloor) compute() {
	f.sum += crc32.Checksum(f.record, f.crc)
	binary.BigEndian.PutUint64(f.entry[:], uint64(f.at))
	binary.BigEndian.PutUint32(f.entry[8:], uint32(len(f.record)))
}

// next begins another file, with its space reserved.
func (f *appendFloor) next(mapped bool) {
	f.close()
	var err error
	f.file, err = os.Create(filepath.Join(f.dir, "f"+string(rune('a'+f.n%2))))
	check(f.b, err)
	f.n++
	check(f.b, unix.Fallocate(int(f.file.Fd()), 0, 0, f.size))
	if mapped {
		f.data, err = mmap.MapRegion(f.file, int(f.size), mmap.RDWR, 0, 0)
		check(f.b, err)
	}
	f.at = 0
}

func (f *appendFloor) close() {
	if f.data != nil {
		check(f.b, f.data.Unmap())
		f.data = nil
	}
	if f.file != nil {
		check(f.b, f.file.Close())
		f.file = nil
	}
}

const populate = 4 << 20

// mapping stores records into a mapping whose pages are made ready 4 MiB at a time.
func (f *appendFloor) mapping(n int) {
	for range n {
		if f.at+int64(len(f.record)) > f.size {
			f.next(true)
		}
		if f.at%populate < int64(len(f.record)) || f.at == 0 {
			from := f.at - f.at%populate
			_ = unix.Madvise(f.data[from:min(from+populate, f.size)], unix.MADV_POPULATE_WRITE) // else they fault
		}
		f.compute()
		copy(f.data[f.at:], f.record)
		f.at += int64(len(f.record))
	}
}

// recycled stores records into pages that were stored into before, over and over.
func (f *appendFloor) recycled(n int) {
	const window = 32 << 20
	if f.data == nil {
		f.next(true)
		clear(f.data[:window])
	}
	for range n {
		if f.at+int64(len(f.record)) > window {
			f.at = 0
		}
		f.compute()
		copy(f.data[f.at:], f.record)
		f.at += int64(len(f.record))
	}
}

// buffer collects records and writes 64 KiB at a time.
func (f *appendFloor) buffer(n int) {
	const full = 64 << 10
	if f.buf == nil {
		f.buf = make([]byte, 0, full+len(f.record))
	}
	for range n {
		f.compute()
		f.buf = append(f.buf, f.record...)
		if len(f.buf) < full {
			continue
		}
		if f.at+int64(len(f.buf)) > f.size {
			f.next(false)
		}
		_, err := f.file.WriteAt(f.buf, f.at)
		check(f.b, err)
		f.at += int64(len(f.buf))
		f.buf = f.buf[:0]
	}
}

// group is the least that n flushed appends of so many writers do: one write of a record each,
// 4 KiB at the least, and one sync for all of them.
func (f *appendFloor) group(writers int) func(n int) {
	return func(n int) {
		if f.file == nil {
			f.next(false)
			check(f.b, writeZeros(f.file, f.size))
		}
		block := make([]byte, max(4096, writers*len(f.record)))
		for i := 0; i < n; i += writers {
			if f.at+int64(len(block)) > f.size {
				f.at = 0
			}
			for range writers {
				f.compute()
			}
			_, err := f.file.WriteAt(block, f.at)
			check(f.b, err)
			check(f.b, unix.Fdatasync(int(f.file.Fd())))
			f.at += int64(len(block))
		}
	}
}

func writeZeros(file *os.File, n int64) error {
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < n; at += int64(len(zeros)) {
		if _, err := file.WriteAt(zeros, at); err != nil {
			return err
		}
	}
	return file.Sync()
}
