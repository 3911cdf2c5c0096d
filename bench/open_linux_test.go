package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/message"
	"golang.org/x/sys/unix"
)

// The log of the stores that were not stopped in order, and what of it no checkpoint covers.
const (
	uncleanLog    = 256 << 20
	uncleanTail   = 64 << 20
	uncleanSize   = 64 << 20 // of a segment
	uncleanQueues = 16
	openQueues    = 1000
)

// BenchmarkOpen opens stores that this engine wrote; what is timed is Open alone.
//
// clean: 1,000 queues, stopped in order; the floor lists and stats the tree. unclean: the
// writer was killed; of a log of 256 MiB a checkpoint covers all but 64 MiB, or queues, index,
// checkpoint and state are gone. The floor reads the same part of the log once and compares
// the checksums; where the queues are gone, it makes and writes their entries.
func BenchmarkOpen(b *testing.B) {
	b.Run("clean-1000-queues/read-only", func(b *testing.B) { benchClean(b, true) })
	b.Run("clean-1000-queues/writing", func(b *testing.B) { benchClean(b, false) })
	b.Run("unclean-checkpointed", func(b *testing.B) {
		im := uncleanImage(b)
		im.bench(b, "unclean", func() { im.scan(b, uncleanLog-uncleanTail, nil) })
	})
	b.Run("unclean-full", func(b *testing.B) {
		im := uncleanImage(b)
		im.bench(b, "", func() {
			q := queueFloor{b: b, dir: b.TempDir()}
			im.scan(b, 0, &q)
			q.write()
		})
	})
}

func benchClean(b *testing.B, readOnly bool) {
	dir := b.TempDir()
	s, err := warmlog.Open(dir, warmlog.Options{SegmentSize: 16 << 20})
	check(b, err)
	appendTo(b, s, openQueues, openQueues<<10)
	check(b, s.Close())
	openOver(b, func() string { return dir }, readOnly, func() {
		check(b, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err == nil {
				_, err = os.Stat(path)
			}
			return err
		}))
	})
}

// appendTo appends messages of about 1 KiB with a key each to the queues in turn until the log
// has grown by n bytes.
func appendTo(b *testing.B, s *warmlog.Store, queues int, n int64) {
	_, at := s.Bounds()
	body := make([]byte, bodySize-40)
	for i := range body {
		body[i] = byte(i*7) | 1
	}
	var ms []*message.Message
	for end, i := at+n, 0; at < end; {
		for ms = ms[:0]; len(ms) < 100; i++ {
			ms = append(ms, &message.Message{Topic: topic, QueueID: int32(i % queues), Tags: "paid", Keys: fmt.Sprintf("key-%d", i), Body: body})
		}
		r, err := s.AppendAll(context.Background(), ms, warmlog.StoreDefault)
		check(b, err)
		at = r[len(r)-1].PhysicalOffset
	}
}

// openOver times Open of the store that prepare names, in alternation with a floor.
func openOver(b *testing.B, prepare func() string, readOnly bool, floor func()) {
	rounds := min(max(b.N, 5), 21)
	var engines, floors, ratios []float64
	time1 := func(f func()) float64 {
		began := time.Now()
		f()
		return float64(time.Since(began).Nanoseconds())
	}
	for n := range rounds + 1 {
		dir := prepare()
		f := time1(floor)
		var s *warmlog.Store
		e := time1(func() {
			var err error
			s, err = warmlog.Open(dir, warmlog.Options{ReadOnly: readOnly})
			check(b, err)
		})
		check(b, s.Close())
		if n > 0 { // the first one warms up
			engines, floors, ratios = append(engines, e), append(floors, f), append(ratios, e/f)
		}
	}
	b.ReportMetric(median(engines), "ns/op")
	b.ReportMetric(median(floors), "floor-ns/op")
	b.ReportMetric(median(ratios), "x-floor")
}

// image is a store whose writer was killed: its log, and what else there was at the checkpoint.
type image struct {
	dir  string // of the whole store
	rest string // what else there was
}

var theImage *image

func uncleanImage(b *testing.B) *image {
	if theImage != nil {
		return theImage
	}
	dir := filepath.Join(work, "unclean")
	s, err := warmlog.Open(dir, warmlog.Options{SegmentSize: uncleanSize})
	check(b, err)
	im := &image{dir: dir, rest: filepath.Join(work, "unclean-rest")}
	appendTo(b, s, uncleanQueues, uncleanLog-uncleanTail)
	check(b, s.Dispatched(context.Background()))
	check(b, s.Checkpoint(context.Background()))
	// Entries above the checkpoint are in memory only.
	copyTree(b, im.rest, dir, func(name string) bool { return name == "commitlog" || name == "lock" })
	appendTo(b, s, uncleanQueues, uncleanTail)
	check(b, s.Close())
	theImage = im
	return im
}

// bench opens copies of the store: with all of what else there was, or the abort file alone.
func (im *image) bench(b *testing.B, name string, floor func()) {
	dir := filepath.Join(work, "unclean-copy")
	openOver(b, func() string {
		check(b, os.RemoveAll(dir))
		// Nothing is stored into the segments, so that links will do.
		logs := layout.Store(dir).CommitLog()
		check(b, os.MkdirAll(logs, 0o755))
		segments, err := os.ReadDir(layout.Store(im.dir).CommitLog())
		check(b, err)
		for _, e := range segments {
			check(b, os.Link(filepath.Join(layout.Store(im.dir).CommitLog(), e.Name()), filepath.Join(logs, e.Name())))
		}
		if name != "" {
			copyTree(b, dir, im.rest, nil)
		} else {
			check(b, os.WriteFile(layout.Store(dir).Abort(), nil, 0o644))
		}
		f, err := os.Open(dir)
		check(b, err)
		check(b, unix.Syncfs(int(f.Fd()))) // else Open would wait for what this test has written
		check(b, f.Close())
		return dir
	}, false, floor)
	check(b, os.RemoveAll(dir))
}

// copyTree copies files with their holes.
func copyTree(b *testing.B, to, from string, without func(string) bool) {
	check(b, filepath.WalkDir(from, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		switch {
		case err != nil:
			return err
		case without != nil && without(name) && e.IsDir():
			return filepath.SkipDir
		case without != nil && without(name):
			return nil
		case e.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		return copyData(filepath.Join(to, name), path)
	}))
}

func copyData(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	for at := int64(0); at < st.Size(); {
		data, err := unix.Seek(int(in.Fd()), at, unix.SEEK_DATA)
		if err != nil {
			break // a hole up to the end
		}
		if at, err = unix.Seek(int(in.Fd()), data, unix.SEEK_HOLE); err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(out, data), io.NewSectionReader(in, data, at-data)); err != nil {
			return err
		}
	}
	return out.Truncate(st.Size())
}

// scan reads the log from a physical offset on and compares the checksums of the bodies.
func (im *image) scan(b *testing.B, from int64, q *queueFloor) {
	const (
		bodyAt = 88 // of a record with IPv4 addresses
		block  = 1 << 20
	)
	be := binary.BigEndian
	whole, rest := make([]byte, 2*block), []byte(nil)
	for base := from - from%uncleanSize; ; base += uncleanSize {
		f, err := os.Open(filepath.Join(layout.Store(im.dir).CommitLog(), layout.FileName(base)))
		if os.IsNotExist(err) {
			return
		}
		check(b, err)
		at := int64(0)
		rest = rest[:0]
	segment:
		for read := int64(0); read < uncleanSize; {
			kept := copy(whole, rest)
			n, err := f.ReadAt(whole[kept:kept+block], read)
			check(b, err)
			buf := whole[:kept+n]
			read += int64(n)
			for len(buf) >= message.MinSize {
				size := int(be.Uint32(buf))
				if be.Uint32(buf[4:]) != message.MagicV1 {
					break segment
				}
				if size > len(buf) {
					break
				}
				body := buf[bodyAt:][:be.Uint32(buf[bodyAt-4:])]
				if crc32.ChecksumIEEE(body)&0x7FFFFFFF != be.Uint32(buf[8:]) {
					b.Fatalf("the floor found another checksum at %d", base+at)
				}
				if q != nil {
					q.add(int(be.Uint32(buf[12:])), base+at, size)
				}
				buf, at = buf[size:], at+int64(size)
			}
			rest = append(rest[:0], buf...)
		}
		check(b, f.Close())
	}
}

// queueFloor makes the entries of queues.
type queueFloor struct {
	b       testing.TB
	dir     string
	entries [uncleanQueues][]byte
}

func (q *queueFloor) add(id int, pos int64, size int) {
	e := binary.BigEndian.AppendUint64(q.entries[id], uint64(pos))
	e = binary.BigEndian.AppendUint32(e, uint32(size))
	q.entries[id] = binary.BigEndian.AppendUint64(e, 0)
}

func (q *queueFloor) write() {
	for id, e := range q.entries {
		writeQueue(q.b, consumequeue.Dir(q.dir, topic, int32(id)), e, consumequeue.DefaultFileSize)
	}
}
