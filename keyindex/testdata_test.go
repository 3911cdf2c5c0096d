package keyindex_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The archives in testdata hold what the index of a real store needs of it: index files as
// they were, records without bodies, and what the real store said. They are made anew by
//
//	WARMLOG_TESTDATA=DIR go test -run TestMakeTestdata ./keyindex
//
// from a directory of unpacked fixtures. WARMLOG_STORES=DIR[:DIR] lets the tests of real stores
// run over all stores found below those directories as well.
const (
	makeVariable   = "WARMLOG_TESTDATA"
	storesVariable = "WARMLOG_STORES"
)

// stores calls f for each real store at hand, as a test of its own.
func stores(t *testing.T, f func(t *testing.T, s *realStore)) {
	archives, _ := filepath.Glob("testdata/*.tar.gz")
	if len(archives) == 0 {
		t.Fatal("no test data")
	}
	for _, path := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".tar.gz"), func(t *testing.T) { f(t, unpack(t, path)) })
	}
	for _, root := range filepath.SplitList(os.Getenv(storesVariable)) {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() || d.Name() != "index" {
				return err
			}
			if _, err := os.Stat(filepath.Join(path, "../commitlog")); err != nil {
				return nil
			}
			name, _ := filepath.Rel(root, filepath.Dir(path))
			t.Run(filepath.Base(root)+"/"+name, func(t *testing.T) { f(t, readStore(t, filepath.Dir(path))) })
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// readStore reads a store directory, and the files of the lab beside it.
func readStore(t *testing.T, dir string) *realStore {
	s := &realStore{name: filepath.Base(filepath.Dir(dir)), index: filepath.Join(dir, "index"), log: readSegments(t, filepath.Join(dir, "commitlog")), sample: true}
	if s.torn() {
		// The last record may be one whose properties were torn: no checksum covers them.
		n := len(s.log.offsets) - 1
		s.log.end = s.log.offsets[n]
		s.log.offsets = s.log.offsets[:n]
	}
	if b, err := os.ReadFile(filepath.Join(dir, "../messages.jsonl")); err == nil {
		s.messages = lines[told](t, bytes.NewReader(b))
	}
	if b, err := os.ReadFile(filepath.Join(dir, "../answers.jsonl")); err == nil {
		for _, a := range lines[asked](t, bytes.NewReader(b)) {
			if a.Ask == "key" {
				s.answers = append(s.answers, a)
			}
		}
	}
	return s
}

// torn reports whether the lab damaged the end of the log, after the store was halted: then
// the index is ahead of the log, and what a real store said of it is not the truth.
func (s *realStore) torn() bool { return strings.Contains(s.name, "-torn-") }

// skipped reports whether the store is a slave with broker id 0, as the lab makes them:
// RocketMQ then takes a record that has come only in part for damage, and skips the rest
// of the segment. Those records are in no queue and in no index.
func (s *realStore) skipped() bool { return strings.Contains(s.name, "-slave-") }

// unpack reads an archive of the test data.
func unpack(tb testing.TB, path string) *realStore {
	tb.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		tb.Fatal(err)
	}
	s := &realStore{name: strings.TrimSuffix(filepath.Base(path), ".tar.gz"), index: tb.TempDir()}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return s
		}
		if err != nil {
			tb.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			tb.Fatal(err)
		}
		switch h.Name {
		case "records.tsv":
			s.log = readRecords(tb, b)
		case "messages.jsonl":
			s.messages = lines[told](tb, bytes.NewReader(b))
		case "answers.jsonl":
			s.answers = lines[asked](tb, bytes.NewReader(b))
		default:
			writeFile(tb, filepath.Join(s.index, filepath.Base(h.Name)), b)
		}
	}
}

// A store whose archive is kept here, in a directory of unpacked fixtures.
var kept = []string{"rocketmq-4.9.7-rich", "rocketmq-5.3.3-rich", "rocketmq-5.3.3-headless", "rocketmq-5.5.0-clean", "rocketmq-4.9.7-repeats"}

func TestMakeTestdata(t *testing.T) {
	root := os.Getenv(makeVariable)
	if root == "" {
		t.Skip(makeVariable + " is not set")
	}
	for _, name := range kept {
		s := readStore(t, filepath.Join(root, name, "store"))
		var packed bytes.Buffer
		z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		w := tar.NewWriter(z)
		add := func(name string, b []byte) {
			if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(b))}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		var records bytes.Buffer
		for _, at := range s.log.offsets {
			v := s.log.views[at]
			fmt.Fprintf(&records, "%d\t%d\t%d\t%d\t%q\t%q\n", at, v.Size(), v.StoreTimestamp(), v.SysFlag()&0xC, v.Topic(), []byte(v.Properties()))
		}
		add("records.tsv", records.Bytes())
		add("messages.jsonl", jsonLines(t, s.messages))
		add("answers.jsonl", jsonLines(t, s.answers))
		files, _ := filepath.Glob(filepath.Join(s.index, "*"))
		for _, path := range files {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			add("index/"+filepath.Base(path), b)
		}
		if err := errors.Join(w.Close(), z.Close()); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join("testdata", name+".tar.gz"), packed.Bytes())
	}
}

func jsonLines[T any](t *testing.T, all []T) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, v := range all {
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}
