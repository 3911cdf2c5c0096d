package getmessage_test

import (
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/message"
)

// fileLog is a mapped file of records.
type fileLog struct {
	t       testing.TB
	path    string
	file    *mapfile.File
	data    []byte   // what batches are views of: file, or a mapping that mapfile does not know
	at      []int    // where records begin
	records [][]byte // copies
}

// newFileLog writes a log of n records with bodies of size bytes, gap(i) bytes of something
// else in front of each.
func newFileLog(t testing.TB, n, size int, gap func(i int) int) *fileLog {
	t.Helper()
	l := &fileLog{t: t, path: filepath.Join(t.TempDir(), "00000000000000000000")}
	m := &message.Message{Topic: "t", BornHost: netip.MustParseAddrPort("127.0.0.1:1"), Body: make([]byte, size)}
	for j := range m.Body {
		m.Body[j] = byte(j * 7)
	}
	var log []byte
	for i := range n {
		log = append(log, make([]byte, gap(i))...)
		binary.BigEndian.PutUint16(m.Body, uint16(i))
		at := len(log)
		log = message.AppendRecord(log, m, m.BornHost, false)
		message.Stamp(log[at:], int64(i), int64(at), 1700000000000, false)
		l.at = append(l.at, at)
		l.records = append(l.records, append([]byte(nil), log[at:]...))
	}
	must(t, os.WriteFile(l.path, log, 0o644))
	var err error
	l.file, err = mapfile.Open(l.path, int64(len(log)), mapfile.ReadOnly)
	must(t, err)
	t.Cleanup(l.file.Close)
	l.data = l.file.Bytes()
	return l
}

func adjacent(int) int  { return 0 }
func scattered(int) int { return 24 }

// pull fills a batch with every record, as a Get of what is in memory does.
func (l *fileLog) pull(b *getmessage.Batch) {
	l.t.Helper()
	if !l.file.Acquire() {
		l.t.Fatal("the file is gone")
	}
	var views []message.View
	for i, at := range l.at {
		end := at + len(l.records[i])
		views = append(views, message.ViewOf(l.data[at:end:end]))
	}
	b.Fill(views, l.file)
}

// get is pull, which looks at the records.
func (l *fileLog) get(b *getmessage.Batch) {
	l.t.Helper()
	l.pull(b)
	if len(b.Records()) != len(l.records) {
		l.t.Fatalf("%d records of %d", len(b.Records()), len(l.records))
	}
}

// frame is what a peer should read: a prefix and the records.
func (l *fileLog) frame(prefix string) []byte {
	all := []byte(prefix)
	for _, r := range l.records {
		all = append(all, r...)
	}
	return all
}

func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
