package fuzz_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/warmlog/warmlog/internal/fixtures"
	"github.com/warmlog/warmlog/message"
)

// archives holds the stores that seeds are taken from, unpacked in memory once per process.
var archives struct {
	sync.Mutex
	files map[string]map[string][]byte
}

// archive returns the files of a fixture by their path within it.
func archive(t testing.TB, name string) map[string][]byte {
	t.Helper()
	archives.Lock()
	defer archives.Unlock()
	if files := archives.files[name]; files != nil {
		return files
	}
	files, err := untar(fixtures.Archive(name))
	if err != nil {
		t.Fatal(name, err)
	}
	if archives.files == nil {
		archives.files = map[string]map[string][]byte{}
	}
	archives.files[name] = files
	return files
}

func untar(path string) (map[string][]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeDir || strings.HasSuffix(h.Name, ".jsonl") {
			continue
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		_, name, _ := strings.Cut(h.Name, "/")
		files[name] = b
	}
}

// everyArchive calls each for every file of every fixture.
func everyArchive(t testing.TB, each func(name string, b []byte)) {
	t.Helper()
	for _, name := range append([]string{"5.3.3-pair"}, fixtures.Stores...) {
		files := archive(t, name)
		for _, file := range slices.Sorted(maps.Keys(files)) {
			each(file, files[file])
		}
	}
}

// seedFiles returns the different contents of the fixtures' files with one of these
// patterns, of those that have most bytes at the most.
func seedFiles(t testing.TB, most int, patterns ...string) (all [][]byte) {
	t.Helper()
	seen := map[string]bool{}
	everyArchive(t, func(name string, b []byte) {
		for _, p := range patterns {
			for dir := name; dir != "."; dir = path.Dir(dir) {
				if ok, _ := path.Match(p, dir); ok && len(b) <= most && !seen[string(b)] {
					seen[string(b)] = true
					all = append(all, b)
				}
			}
		}
	})
	if len(all) == 0 {
		t.Fatal("no fixture has ", patterns)
	}
	return all
}

// seedRecords returns one record of the fixtures of each shape: version, flags, lengths of
// a kind, names of its properties.
func seedRecords(t testing.TB) (all [][]byte) {
	t.Helper()
	type shape struct {
		version     int
		sysFlag     int32
		body, topic int
		names       string
	}
	seen := map[shape]bool{}
	everyArchive(t, func(name string, b []byte) {
		dir, _ := path.Split(name)
		if !strings.HasSuffix(dir, "commitlog/") {
			return
		}
		for len(b) >= message.BlankSize {
			v, err := message.Decode(b)
			if err != nil {
				return
			}
			b = b[v.Size():]
			s := shape{version: v.Version(), sysFlag: v.SysFlag(), body: min(len(v.Body()), 2), topic: len(v.Topic()) / 60}
			for name := range v.Properties().All() {
				s.names += string(name) + " "
			}
			if v.Size() <= 1024 && !seen[s] {
				seen[s] = true
				all = append(all, bytes.Clone(v.Raw()))
			}
		}
	})
	if len(all) < 20 {
		t.Fatal("only ", len(all), " shapes of records in the fixtures")
	}
	return all
}
