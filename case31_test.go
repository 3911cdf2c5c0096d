package warmlog_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

// tree is everything that can be seen of a directory but when it was read.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	seen := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := os.Lstat(path)
		if err != nil {
			return err
		}
		content := ""
		switch {
		case st.Mode()&fs.ModeSymlink != 0:
			content, err = os.Readlink(path)
		case st.Mode().IsRegular():
			var b []byte
			b, err = os.ReadFile(path)
			content = fmt.Sprintf("%x", sha256.Sum256(b))
		}
		rel, _ := filepath.Rel(dir, path)
		seen[rel] = fmt.Sprint(st.Mode(), st.Size(), st.ModTime().UnixNano(), content)
		return err
	}))
	return seen
}

// useAll reads a store in every way there is and closes it.
func useAll(t testing.TB, dir string, o warmlog.Options) error {
	t.Helper()
	o.ReadOnly = true
	store, err := warmlog.Open(dir, o)
	if err != nil {
		return err
	}
	defer store.Close()
	ctx := context.Background()
	var b getmessage.Batch
	for _, q := range store.Queues() {
		for off := int64(-1); off < 300; off += 7 {
			_ = store.Get(ctx, &getmessage.Request{Topic: q.Topic, QueueID: q.ID, Offset: off}, &b)
		}
		for range store.Messages(ctx, q.Topic, q.ID, 0) {
		}
		_, _ = store.OffsetByTime(ctx, q.Topic, q.ID, 1700000000100, consumequeue.Upper)
	}
	b.Release()
	for range store.Records(ctx, 0) {
	}
	_, _ = store.FindByKey(ctx, warmlog.KeyQuery{Topic: "orders", Key: "k7"})
	_, _ = store.FindByKey(ctx, warmlog.KeyQuery{Topic: "orders", Key: "no such"})
	_, _ = store.Inspect(ctx)
	_, _ = store.Verify(ctx, func(*message.DamageError) {})
	return nil
}

// unchanged runs test, and checks that nothing in a directory has changed by it.
func unchanged(t testing.TB, dir string, test func()) {
	t.Helper()
	before := tree(t, dir)
	test()
	after := tree(t, dir)
	for name := range maps.Keys(before) {
		if after[name] != before[name] {
			t.Errorf("%s has changed: %s, was %s", name, after[name], before[name])
		}
	}
	for name := range maps.Keys(after) {
		if _, ok := before[name]; !ok {
			t.Errorf("%s was made", name)
		}
	}
}

// five is a store of five segments, three queues of several files, and two index files.
func five(t *testing.T) *built {
	s := build(t, storetest.Options{SegmentSize: 8 << 10, QueueFileSize: 20 * 20, Index: keyindex.Layout{Slots: 10, Entries: 40}})
	for n := 0; s.Pos() < 5*8<<10-1000; n++ {
		m := s.Message("orders", int32(n)%3, 100+n*37%200)
		m.Keys = fmt.Sprintf("k%d", n%20)
		s.all = append(s.all, s.Put(m))
	}
	return s
}

// Files that do not belong to the store, or are not of the right size.
func TestCase31OddSegments(t *testing.T) {
	const size = 8 << 10
	log := func(s *built, name string) string { return filepath.Join(s.Paths.CommitLog(), name) }
	seg := func(s *built, n int64) string { path, _ := s.Segment(n * size); return path }
	rows := map[string]struct {
		spoil func(t *testing.T, s *built)
		end   func(s *built) int64 // physical offset behind the last record; nil: as it was
		note  string               // a name that is noted
		fails func(s *built) (path string, words []string)
	}{
		"an empty last segment": {func(t *testing.T, s *built) { must(t, os.WriteFile(seg(s, 5), nil, 0o644)) }, nil, layout.FileName(5 * size), nil},
		"an empty last segment beside one made in advance": {func(t *testing.T, s *built) {
			must(t, os.WriteFile(seg(s, 5), make([]byte, size), 0o644))
			must(t, os.WriteFile(seg(s, 6), nil, 0o644))
		}, nil, layout.FileName(6 * size), nil},
		"a last segment cut behind the tail":  {func(t *testing.T, s *built) { must(t, os.Truncate(seg(s, 4), s.Pos()%size)) }, nil, layout.FileName(4 * size), nil},
		"a last segment cut a page behind it": {func(t *testing.T, s *built) { must(t, os.Truncate(seg(s, 4), size-1)) }, nil, layout.FileName(4 * size), nil},
		"a last segment cut within a record":  {func(t *testing.T, s *built) { must(t, os.Truncate(seg(s, 4), s.all[len(s.all)-4].Offset%size+50)) }, func(s *built) int64 { return s.all[len(s.all)-4].Offset }, layout.FileName(4 * size), nil},
		"a last segment cut between records":  {func(t *testing.T, s *built) { must(t, os.Truncate(seg(s, 4), s.all[len(s.all)-4].Offset%size)) }, func(s *built) int64 { return s.all[len(s.all)-4].Offset }, layout.FileName(4 * size), nil},
		"a last segment of one byte":          {func(t *testing.T, s *built) { must(t, os.Truncate(seg(s, 4), 1)) }, func(s *built) int64 { return 4 * size }, layout.FileName(4 * size), nil},
		"a short middle segment":              {func(t *testing.T, s *built) { must(t, os.Truncate(seg(s, 2), 5000)) }, nil, "", func(s *built) (string, []string) { return seg(s, 2), []string{"5000", "8192"} }},
		"an empty middle segment":             {func(t *testing.T, s *built) { must(t, os.Truncate(seg(s, 2), 0)) }, nil, "", func(s *built) (string, []string) { return seg(s, 2), []string{"0", "8192"} }},
		"a long middle segment":               {func(t *testing.T, s *built) { must(t, os.Truncate(seg(s, 2), size+1)) }, nil, "", func(s *built) (string, []string) { return seg(s, 2), []string{"8193", "8192"} }},
		"a long last segment":                 {func(t *testing.T, s *built) { must(t, os.Truncate(seg(s, 4), 2*size)) }, nil, "", func(s *built) (string, []string) { return seg(s, 4), []string{"16384", "8192"} }},
		"a short first segment":               {func(t *testing.T, s *built) { must(t, os.Truncate(seg(s, 0), 5000)) }, nil, "", func(s *built) (string, []string) { return seg(s, 0), []string{"5000", "8192"} }},
		"a segment at an odd offset": {func(t *testing.T, s *built) {
			must(t, os.WriteFile(log(s, layout.FileName(size+1)), make([]byte, size), 0o644))
		}, nil, "", func(s *built) (string, []string) { return log(s, layout.FileName(size+1)), nil }},
		"lost+found": {func(t *testing.T, s *built) { must(t, os.Mkdir(log(s, "lost+found"), 0o700)) }, nil, "lost+found", nil},
		"an editor's file": {func(t *testing.T, s *built) {
			must(t, os.WriteFile(log(s, ".00000000000000000000.swp"), []byte("x"), 0o600))
		}, nil, ".00000000000000000000.swp", nil},
		"a backup of a segment":             {func(t *testing.T, s *built) { copyFile(t, seg(s, 1), seg(s, 1)+".bak") }, nil, layout.FileName(size) + ".bak", nil},
		"a file with 19 digits":             {func(t *testing.T, s *built) { copyFile(t, seg(s, 1), log(s, "0000000000000008192")) }, nil, "0000000000000008192", nil},
		"a number beyond int64":             {func(t *testing.T, s *built) { copyFile(t, seg(s, 1), log(s, "99999999999999999999")) }, nil, "99999999999999999999", nil},
		"a directory with a segment's name": {func(t *testing.T, s *built) { must(t, os.Mkdir(seg(s, 5), 0o755)) }, nil, layout.FileName(5 * size), nil},
		"a pipe with a segment's name":      {func(t *testing.T, s *built) { must(t, unix.Mkfifo(seg(s, 5), 0o644)) }, nil, layout.FileName(5 * size), nil},
		"a link to nowhere":                 {func(t *testing.T, s *built) { must(t, os.Symlink("/nowhere/at/all", seg(s, 5))) }, nil, layout.FileName(5 * size), nil},
		"a link to itself":                  {func(t *testing.T, s *built) { must(t, os.Symlink(seg(s, 5), seg(s, 5))) }, nil, layout.FileName(5 * size), nil},
		"a link to a directory":             {func(t *testing.T, s *built) { must(t, os.Symlink("/tmp", seg(s, 5))) }, nil, layout.FileName(5 * size), nil},
		"a segment on another disk by a link": {func(t *testing.T, s *built) {
			elsewhere := filepath.Join(t.TempDir(), "segment")
			copyFile(t, seg(s, 2), elsewhere)
			must(t, os.Remove(seg(s, 2)))
			must(t, os.Symlink(elsewhere, seg(s, 2)))
		}, nil, "", nil},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			s := five(t)
			s.Close()
			row.spoil(t, s)
			unchanged(t, s.Dir(), func() {
				err := useAll(t, s.Dir(), warmlog.Options{})
				if row.fails != nil {
					path, words := row.fails(s)
					var d *message.DamageError
					if !errors.As(err, &d) || !errors.Is(err, layout.ErrFileSize) || d.File != path || !noted([]string{err.Error()}, words...) {
						t.Errorf("open: %v, want %s and %v", err, path, words)
					}
					return
				}
				if err != nil {
					t.Errorf("open: %v", err)
				}
			})
			if row.fails != nil {
				return
			}
			store := open(t, s.Dir(), warmlog.Options{})
			want := s.all
			if row.end != nil {
				end := row.end(s)
				want = slices.DeleteFunc(slices.Clone(want), func(r storetest.Record) bool { return r.Offset >= end })
			}
			holds(t, store, want)
			for _, seg := range store.Segments() {
				if seg.Size == 0 {
					t.Errorf("a segment of no byte is one of the log's: %+v", seg)
				}
			}
			notes := 0
			for _, line := range store.Notes() {
				if row.note != "" && strings.Contains(line, row.note) {
					notes++
				}
			}
			if row.note != "" && notes != 1 {
				t.Errorf("%s is noted %d times in %q", row.note, notes, store.Notes())
			}
		})
	}
}

// A segment size that is not the files' is refused; the right one and none are taken.
func TestCase31AnotherSegmentSize(t *testing.T) {
	const size = 8 << 10
	s := five(t)
	s.Close()
	for _, wrong := range []int64{size / 2, size * 2, size + 1, 1 << 30, 1} {
		_, err := warmlog.Open(s.Dir(), warmlog.Options{ReadOnly: true, SegmentSize: wrong})
		if !errors.Is(err, layout.ErrFileSize) || !noted([]string{err.Error()}, s.Paths.CommitLog(), "8192", fmt.Sprint(wrong)) {
			t.Errorf("segments of %d bytes: %v", wrong, err)
		}
	}
	for _, right := range []int64{0, size} {
		holds(t, open(t, s.Dir(), warmlog.Options{SegmentSize: right}), s.all)
	}
	if _, err := warmlog.Open(s.Dir(), warmlog.Options{ReadOnly: true, SegmentSize: -size}); err == nil {
		t.Error("a negative size is accepted")
	}
	for _, wrong := range []int64{20 * 10, 20 * 40, 6000000} {
		_, err := warmlog.Open(s.Dir(), warmlog.Options{ReadOnly: true, QueueFileSize: wrong})
		if !errors.Is(err, layout.ErrFileSize) || !noted([]string{err.Error()}, "400", fmt.Sprint(wrong)) {
			t.Errorf("queue files of %d bytes: %v", wrong, err)
		}
	}
	for _, right := range []int64{0, 20 * 20} {
		holds(t, open(t, s.Dir(), warmlog.Options{QueueFileSize: right}), s.all)
	}
	for _, wrong := range []int64{-20, 21} {
		if _, err := warmlog.Open(s.Dir(), warmlog.Options{ReadOnly: true, QueueFileSize: wrong}); err == nil {
			t.Errorf("queue files of %d bytes are accepted", wrong)
		}
	}
}

// Queue files and index files are derived: whatever they look like, the answers are right.
func TestCase31OddQueueAndIndexFiles(t *testing.T) {
	queue := func(s *built, n int64) string { path, _ := s.QueueFile("orders", 1, n*20); return path }
	rows := map[string]func(t *testing.T, s *built){
		"an empty last queue file":          func(t *testing.T, s *built) { must(t, os.Truncate(queue(s, lastFile(s)), 0)) },
		"one queue file too many and empty": func(t *testing.T, s *built) { must(t, os.WriteFile(queue(s, lastFile(s)+1), nil, 0o644)) },
		"one queue file too many and zero":  func(t *testing.T, s *built) { must(t, os.WriteFile(queue(s, lastFile(s)+1), make([]byte, 400), 0o644)) },
		"a short last queue file":           func(t *testing.T, s *built) { must(t, os.Truncate(queue(s, lastFile(s)), 45)) },
		"a short middle queue file":         func(t *testing.T, s *built) { must(t, os.Truncate(queue(s, 0), 399)) },
		"an empty middle queue file":        func(t *testing.T, s *built) { must(t, os.Truncate(queue(s, 0), 0)) },
		"a long queue file":                 func(t *testing.T, s *built) { must(t, os.Truncate(queue(s, 0), 800)) },
		"a missing middle queue file":       func(t *testing.T, s *built) { must(t, os.Remove(queue(s, 0))) },
		"a queue file at an odd place": func(t *testing.T, s *built) {
			must(t, os.WriteFile(filepath.Join(filepath.Dir(queue(s, 0)), layout.FileName(20)), make([]byte, 400), 0o644))
		},
		"a stray queue file far away": func(t *testing.T, s *built) {
			must(t, os.WriteFile(filepath.Join(filepath.Dir(queue(s, 0)), layout.FileName(400<<40)), make([]byte, 400), 0o644))
		},
		"foreign files beside queues": func(t *testing.T, s *built) {
			copyFile(t, queue(s, 0), queue(s, 0)+".bak")
			must(t, os.Mkdir(filepath.Join(filepath.Dir(queue(s, 0)), "lost+found"), 0o755))
		},
		"a file among the topics": func(t *testing.T, s *built) {
			must(t, os.WriteFile(filepath.Join(s.Paths.ConsumeQueue(), "README"), nil, 0o644))
		},
		"a file among the queues": func(t *testing.T, s *built) {
			must(t, os.WriteFile(filepath.Join(s.Paths.ConsumeQueue(), "orders", "7"), nil, 0o644))
		},
		"a queue that is no number": func(t *testing.T, s *built) {
			must(t, os.Mkdir(filepath.Join(s.Paths.ConsumeQueue(), "orders", "01"), 0o755))
		},
		"a directory as a queue file": func(t *testing.T, s *built) { must(t, os.Remove(queue(s, 0))); must(t, os.Mkdir(queue(s, 0), 0o755)) },
		"a queue file by a link": func(t *testing.T, s *built) {
			must(t, os.Rename(queue(s, 0), s.Dir()+"/elsewhere"))
			must(t, os.Symlink(s.Dir()+"/elsewhere", queue(s, 0)))
		},
		"a queue file by a link to nowhere": func(t *testing.T, s *built) {
			must(t, os.Remove(queue(s, 0)))
			must(t, os.Symlink("/nowhere", queue(s, 0)))
		},
		"no queues at all":     func(t *testing.T, s *built) { must(t, os.RemoveAll(s.Paths.ConsumeQueue())) },
		"an empty index file":  func(t *testing.T, s *built) { must(t, os.Truncate(s.IndexFiles()[0], 0)) },
		"a short index file":   func(t *testing.T, s *built) { must(t, os.Truncate(s.IndexFiles()[0], 41)) },
		"a long index file":    func(t *testing.T, s *built) { must(t, os.Truncate(s.IndexFiles()[0], 5000)) },
		"a missing index file": func(t *testing.T, s *built) { must(t, os.Remove(s.IndexFiles()[1])) },
		"foreign files beside the index": func(t *testing.T, s *built) {
			copyFile(t, s.IndexFiles()[0], s.IndexFiles()[0]+".bak")
			must(t, os.Mkdir(filepath.Join(s.Paths.Index(), "20231114221320123"), 0o755))
		},
		"the same index file twice": func(t *testing.T, s *built) {
			copyFile(t, s.IndexFiles()[0], filepath.Join(s.Paths.Index(), "20991114221320123"))
		},
		"an index file by a link": func(t *testing.T, s *built) {
			must(t, os.Rename(s.IndexFiles()[0], s.Dir()+"/elsewhere"))
			must(t, os.Symlink(s.Dir()+"/elsewhere", s.IndexFiles()[0]))
		},
		"an index file by a link to nowhere": func(t *testing.T, s *built) {
			must(t, os.Remove(s.IndexFiles()[0]))
			must(t, os.Symlink("/nowhere", s.IndexFiles()[0]))
		},
		"a pipe as an index file": func(t *testing.T, s *built) {
			must(t, os.Remove(s.IndexFiles()[0]))
			must(t, unix.Mkfifo(s.IndexFiles()[0], 0o644))
		},
		"no index at all":    func(t *testing.T, s *built) { must(t, os.RemoveAll(s.Paths.Index())) },
		"no checkpoint":      func(t *testing.T, s *built) { must(t, os.Remove(s.Paths.Checkpoint())) },
		"a short checkpoint": func(t *testing.T, s *built) { must(t, os.Truncate(s.Paths.Checkpoint(), 7)) },
		"a checkpoint of noise": func(t *testing.T, s *built) {
			must(t, os.WriteFile(s.Paths.Checkpoint(), storetest.Body("x", 0, 0, 4096), 0o644))
		},
		"tables of noise": func(t *testing.T, s *built) {
			must(t, os.Mkdir(s.Paths.Config(), 0o755))
			for _, name := range []string{"topics.json", "consumerOffset.json", "subscriptionGroup.json"} {
				must(t, os.WriteFile(filepath.Join(s.Paths.Config(), name), storetest.Body(name, 0, 0, 500), 0o644))
			}
		},
	}
	each(t, modes, func(t *testing.T, leave func(*built)) {
		for name, spoil := range rows {
			t.Run(name, func(t *testing.T) {
				s := five(t)
				leave(s)
				spoil(t, s)
				unchanged(t, s.Dir(), func() { must(t, useAll(t, s.Dir(), warmlog.Options{})) })
				store := open(t, s.Dir(), warmlog.Options{})
				holds(t, store, s.all)
				for n := range 21 {
					var want []int64
					for i, r := range s.all {
						if i%20 == n {
							want = append(want, r.Offset)
						}
					}
					got, err := store.FindByKey(context.Background(), warmlog.KeyQuery{Topic: "orders", Key: fmt.Sprintf("k%d", n)})
					must(t, err)
					if fmt.Sprint(got.Offsets) != fmt.Sprint(want) || got.More {
						t.Errorf("k%d: %v, want %v, more %v", n, got.Offsets, want, got.More)
					}
				}
			})
		}
	})
}

// lastFile returns the number of the last file of queue 1.
func lastFile(s *built) int64 { return int64(len(s.of("orders", 1))-1) / 20 }

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, b, 0o644))
}

// A store may lie in a directory of any name.
func TestCase31NamesOfTheDirectory(t *testing.T) {
	s := five(t)
	s.Close()
	for _, name := range []string{"a b", "Größe", "100%", "-x", ".hidden", "a,b", "a\nb"} {
		dir := filepath.Join(t.TempDir(), name)
		must(t, os.CopyFS(dir, os.DirFS(s.Dir())))
		store, err := warmlog.Open(dir, warmlog.Options{ReadOnly: true})
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		holds(t, store, s.all)
		store.Close()
	}
}

// What cannot be a store is refused, and nothing is made of it.
func TestCase31NoStore(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
	for _, name := range []string{"none", "file"} {
		if _, err := warmlog.Open(filepath.Join(dir, name), warmlog.Options{ReadOnly: true}); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	unchanged(t, dir, func() { must(t, useAll(t, dir, warmlog.Options{})) }) // an empty store
}

const lockVariable = "WARMLOG_TEST_LOCK"

// TestCase31Child is no test: it is the process that takes a store's lock, as Java does.
func TestCase31Child(t *testing.T) {
	path := os.Getenv(lockVariable)
	if path == "" {
		t.Skip("for TestCase31NoLockIsHeld")
	}
	takeLock(t, path)
	fmt.Println("locked")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent lets go
}

// takeLock locks a store for this process, until it ends.
func takeLock(t *testing.T, path string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Len: 1}
	must(t, unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock))
}

// lockedByAnother makes another process hold a store's lock until the test ends, or until
// release is called. It fails where that process cannot have it.
func lockedByAnother(t *testing.T, path string) (pid int, release func()) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run", "^TestCase31Child$", "-test.v")
	child.Env = append(os.Environ(), lockVariable+"="+path)
	in, err := child.StdinPipe()
	must(t, err)
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	release = sync.OnceFunc(func() { in.Close(); _ = child.Wait() })
	t.Cleanup(release)
	if !readUntil(out, "locked") {
		t.Fatal("another process cannot take the lock")
	}
	return child.Process.Pid, release
}

// While a store is read, another process can take its lock; it is seen, and reading it does
// not take it away.
func TestCase31NoLockIsHeld(t *testing.T) {
	s := five(t)
	s.Kill()
	store := open(t, s.Dir(), warmlog.Options{})
	must(t, useAll(t, s.Dir(), warmlog.Options{}))
	locker, release := lockedByAnother(t, s.Paths.Lock())
	info, err := store.Inspect(context.Background())
	must(t, err)
	if !info.Running || info.PID != locker {
		t.Errorf("running %v, pid %d, want that of %d", info.Running, info.PID, locker)
	}
	unchanged(t, s.Dir(), func() { must(t, useAll(t, s.Dir(), warmlog.Options{})) })
	if held, pid, err := layout.Holder(s.Paths.Lock()); !held || pid != locker || err != nil {
		t.Errorf("the lock went away by reading: %v, %d, %v", held, pid, err)
	}
	release()
	if info, err = store.Inspect(context.Background()); err != nil || info.Running {
		t.Errorf("still running when it is not: %v", err)
	}
}

// readUntil reads until a line, and reports whether it came.
func readUntil(r io.Reader, line string) bool {
	var all []byte
	b := make([]byte, 4096)
	for {
		n, err := r.Read(b)
		all = append(all, b[:n]...)
		if bytes.Contains(all, []byte(line)) {
			return true
		}
		if err != nil {
			return false
		}
	}
}
