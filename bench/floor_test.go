package bench

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	mmap "github.com/edsrzf/mmap-go"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/internal/layout"
)

// floor is what reading costs without an engine: mapped segments and queue files, an entry
// looked up, a slice handed out, 8 bytes of it touched.
type floor struct {
	segment  int64
	segments [][]byte
	queues   [][][]byte // files of each queue
	slices   [][]byte
	sum      uint64
	zero     uint64 // is 0, which the compiler does not know
}

func (s *logStore) floor(b testing.TB, segment int64) *floor {
	b.Helper()
	f := &floor{segment: segment}
	paths := layout.Store(s.dir)
	logs, err := filepath.Glob(filepath.Join(paths.CommitLog(), "*"))
	check(b, err)
	for _, path := range logs {
		f.segments = append(f.segments, mapWhole(b, path))
	}
	for q := range s.queues {
		paths, err := filepath.Glob(filepath.Join(consumequeue.Dir(paths.ConsumeQueue(), topic, int32(q)), "*"))
		check(b, err)
		var files [][]byte
		for _, path := range paths {
			files = append(files, mapWhole(b, path))
		}
		f.queues = append(f.queues, files)
	}
	return f
}

func mapWhole(b testing.TB, path string) []byte {
	file, err := os.Open(path)
	check(b, err)
	defer file.Close()
	m, err := mmap.Map(file, mmap.RDONLY, 0)
	check(b, err)
	b.Cleanup(func() { check(b, m.Unmap()) })
	return m
}

// get hands out n messages of a queue from an offset on.
func (f *floor) get(queue int, off int64, n int) {
	f.slices = f.slices[:0]
	const per = consumequeue.DefaultFileSize / consumequeue.EntrySize
	off += int64(f.sum & f.zero) // a consumer asks again when it has the answer, not before
	entries := f.queues[queue][off/per][off%per*consumequeue.EntrySize:]
	for i := range n {
		e := entries[i*consumequeue.EntrySize:]
		pos, size := int64(binary.BigEndian.Uint64(e)), int64(binary.BigEndian.Uint32(e[8:]))
		at := pos % f.segment
		f.slices = append(f.slices, f.segments[pos/f.segment][at:at+size])
	}
	for _, s := range f.slices {
		f.sum += binary.LittleEndian.Uint64(s)
	}
}
