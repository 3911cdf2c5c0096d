package bench

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/message"
)

const (
	topic    = "bench"
	bodySize = 1024 - 91 - len(topic) - 40 // a record of about 1 KiB
)

// work is the package's directory, gone when the tests end.
var work string

func TestMain(m *testing.M) {
	var err error
	if work, err = os.MkdirTemp("", "warmlog-bench"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(work)
	os.Exit(code)
}

// logStore is a store of one log with a few queues, as a broker leaves it.
type logStore struct {
	dir      string
	messages int64 // in each queue
	queues   int
}

var built = map[string]*logStore{}

// build writes a store of a log of bytes, once.
func build(b testing.TB, bytes int64, queues int, segment int64) *logStore {
	b.Helper()
	name := fmt.Sprintf("%d-%d-%d", bytes, queues, segment)
	if s := built[name]; s != nil {
		return s
	}
	s := &logStore{dir: filepath.Join(work, name), queues: queues}
	m := &message.Message{Topic: topic, Tags: "paid", Properties: []message.Property{{Name: "UNIQ_KEY", Value: "0123456789ABCDEF01234567"}},
		Body: make([]byte, bodySize), BornTimestamp: 1700000000000, BornHost: netip.MustParseAddrPort("127.0.0.1:50000")}
	for i := range m.Body {
		m.Body[i] = byte(i * 7)
	}
	w := &segments{b: b, dir: layout.Store(s.dir).CommitLog(), size: segment}
	entries := make([][]byte, queues)
	for n := 0; w.pos < bytes; n++ {
		q := n % queues
		m.QueueID = int32(q)
		off := int64(len(entries[q]) / consumequeue.EntrySize)
		rec := message.AppendRecord(w.rec[:0], m, m.BornHost, false)
		w.rec = rec
		pos := w.place(int64(len(rec)))
		message.Stamp(rec, off, pos, 1700000000000+int64(n), false)
		w.write(rec)
		v, err := message.Decode(rec)
		check(b, err)
		entries[q] = consumequeue.EntryOf(&v, pos).AppendTo(entries[q])
	}
	w.close()
	for q, e := range entries {
		writeQueue(b, consumequeue.Dir(layout.Store(s.dir).ConsumeQueue(), topic, int32(q)), e, consumequeue.DefaultFileSize)
	}
	s.messages = int64(len(entries[queues-1]) / consumequeue.EntrySize)
	built[name] = s
	return s
}

// segments writes a log.
type segments struct {
	b    testing.TB
	dir  string
	size int64
	pos  int64
	file *os.File
	w    *bufio.Writer
	rec  []byte
}

// place returns where a record of n bytes goes, after a blank where it does not fit.
func (s *segments) place(n int64) int64 {
	if left := s.size - s.pos%s.size; n+message.BlankSize > left {
		var blank [message.BlankSize]byte
		message.PutBlank(blank[:], int32(left))
		s.write(blank[:])
		s.pos += left - message.BlankSize
	}
	return s.pos
}

func (s *segments) write(p []byte) {
	if s.file == nil || s.pos%s.size == 0 {
		s.close()
		check(s.b, os.MkdirAll(s.dir, 0o755))
		f, err := os.Create(filepath.Join(s.dir, layout.FileName(s.pos)))
		check(s.b, err)
		check(s.b, f.Truncate(s.size))
		s.file, s.w = f, bufio.NewWriterSize(f, 1<<20)
	}
	_, err := s.w.Write(p)
	check(s.b, err)
	s.pos += int64(len(p))
}

func (s *segments) close() {
	if s.file != nil {
		check(s.b, s.w.Flush())
		check(s.b, s.file.Close())
		s.file = nil
	}
}

func writeQueue(b testing.TB, dir string, entries []byte, fileSize int) {
	check(b, os.MkdirAll(dir, 0o755))
	for at := 0; at < len(entries); at += fileSize {
		path := filepath.Join(dir, layout.FileName(int64(at)))
		check(b, os.WriteFile(path, entries[at:min(at+fileSize, len(entries))], 0o644))
		check(b, os.Truncate(path, int64(fileSize)))
	}
}

// open opens the store with every record checked, as those are that a running engine wrote.
func (s *logStore) open(b testing.TB) *warmlog.Store {
	b.Helper()
	store, err := warmlog.Open(s.dir, warmlog.Options{ReadOnly: true, CheckBytes: -1})
	check(b, err)
	b.Cleanup(func() { store.Close() })
	return store
}

func check(b testing.TB, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}
