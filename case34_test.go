package warmlog_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/keyindex"
)

// usage is what this process has read so far by system calls.
type usage struct{ bytes, calls int64 }

func used(t testing.TB) usage {
	t.Helper()
	f, err := os.Open("/proc/self/io")
	if err != nil {
		t.Skip("the kernel does not say what a process has read: ", err)
	}
	defer f.Close()
	var u usage
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "rchar":
			u.bytes = n
		case "syscr":
			u.calls = n
		}
	}
	return u
}

// cost returns what a function reads.
func cost(t testing.TB, f func()) usage {
	t.Helper()
	a := used(t)
	b := used(t) // the price of asking
	f()
	c := used(t)
	return usage{c.bytes - b.bytes - (b.bytes - a.bytes), c.calls - b.calls - (b.calls - a.calls)}
}

// wide is a store of 200 segments and 500 queues. "new" has 480 queues with messages all
// over the log, "old" 20 queues with messages in its first fifth only.
type wide struct {
	*built
	by map[queueID][]storetest.Record
}

const wideSegment = 32 << 10

func newWide(t *testing.T) wide {
	s := wide{build(t, storetest.Options{SegmentSize: wideSegment, QueueFileSize: 20 * 20, Index: keyindex.Layout{Slots: 500, Entries: 2000}}), map[queueID][]storetest.Record{}}
	rng := rand.New(rand.NewPCG(34, 0))
	for n := 0; s.Pos() < 200*wideSegment-2000; n++ {
		q := queueID{"new", rng.Int32N(480)}
		if s.Pos() < 40*wideSegment && n%5 == 0 {
			q = queueID{"old", rng.Int32N(20)}
		}
		m := s.Message(q.topic, q.id, 200+n%150)
		m.Keys = fmt.Sprintf("k%d", n%1000)
		r := s.Put(m)
		s.all = append(s.all, r)
		s.by[q] = append(s.by[q], r)
	}
	s.Close()
	return s
}

// right checks everything of one queue.
func (s *wide) right(t *testing.T, store *warmlog.Store, q queueID) {
	t.Helper()
	want := s.by[q]
	low, high, err := store.QueueBounds(context.Background(), q.topic, q.id)
	if err != nil || low != 0 || high != int64(len(want)) {
		t.Errorf("%s/%d is [%d, %d), want [0, %d): %v", q.topic, q.id, low, high, len(want), err)
	}
	if got := drain(t, store, q.topic, q.id, 0); len(got.offsets) != len(want) || len(got.damaged) > 0 {
		t.Errorf("%s/%d: %d messages, want %d; damaged %v", q.topic, q.id, len(got.offsets), len(want), got.damaged)
	}
	if got, errs := messages(t, store, q.topic, q.id); len(got) != len(want) || len(errs) > 0 {
		t.Errorf("%s/%d by Messages: %d, want %d: %v", q.topic, q.id, len(got), len(want), errs)
	}
}

// One damaged queue file among 500 queues: the answers are right, and what it costs is
// bounded: other queues do not read the log for it.
func TestCase34OneDamagedQueue(t *testing.T) {
	s := newWide(t)
	logBytes := s.Pos()
	// How the file that begins with entry 0 is spoilt. Each queue has two files or more.
	kinds := map[string]func(t *testing.T, path, other string){
		"zeroed":         func(t *testing.T, path, _ string) { put(t, path, 0, make([]byte, 400)) },
		"emptied":        func(t *testing.T, path, _ string) { must(t, os.Truncate(path, 0)) },
		"truncated":      func(t *testing.T, path, _ string) { must(t, os.Truncate(path, 45)) },
		"noise":          func(t *testing.T, path, _ string) { put(t, path, 0, storetest.Body("noise", 0, 0, 400)) },
		"noise in part":  func(t *testing.T, path, _ string) { put(t, path, 95, storetest.Body("noise", 0, 0, 100)) },
		"a flipped bit":  func(t *testing.T, path, _ string) { flip(t, path, 5*20+6, 2) },
		"a flipped size": func(t *testing.T, path, _ string) { flip(t, path, 7*20+10, 0) },
		"shifted":        func(t *testing.T, path, _ string) { put(t, path, 20, bytesOf(t, path, 0, 380)) },
		"all entries one": func(t *testing.T, path, _ string) {
			put(t, path, 0, []byte(strings.Repeat(string(bytesOf(t, path, 100, 20)), 20)))
		},
		"deleted": func(t *testing.T, path, _ string) { must(t, os.Remove(path)) },
		"all deleted": func(t *testing.T, path, _ string) {
			must(t, os.RemoveAll(filepath.Dir(path)))
			must(t, os.Mkdir(filepath.Dir(path), 0o755))
		},
		"all zeroed": func(t *testing.T, path, _ string) {
			files, _ := filepath.Glob(filepath.Dir(path) + "/*")
			for _, f := range files {
				put(t, f, 0, make([]byte, 400))
			}
		},
		"swapped with another": func(t *testing.T, path, other string) {
			must(t, os.Rename(path, path+"x"))
			must(t, os.Rename(other, path))
			must(t, os.Rename(path+"x", other))
		},
		"all swapped with another": func(t *testing.T, path, other string) {
			must(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+"x"))
			must(t, os.Rename(filepath.Dir(other), filepath.Dir(path)))
			must(t, os.Rename(filepath.Dir(path)+"x", filepath.Dir(other)))
		},
		"the last file deleted": func(t *testing.T, path, _ string) {
			files, _ := filepath.Glob(filepath.Dir(path) + "/*")
			must(t, os.Remove(files[len(files)-1]))
		},
		"the last file cut": func(t *testing.T, path, _ string) {
			files, _ := filepath.Glob(filepath.Dir(path) + "/*")
			must(t, os.Truncate(files[len(files)-1], 20))
		},
		"the last entries zeroed": func(t *testing.T, path, _ string) {
			files, _ := filepath.Glob(filepath.Dir(path) + "/*")
			b, err := os.ReadFile(files[len(files)-1])
			must(t, err)
			for i := len(b) - 20; i >= 0; i -= 20 {
				if b[i+11] != 0 {
					put(t, files[len(files)-1], int64(i), make([]byte, 20))
					break
				}
			}
		},
	}
	// What a store cannot see in its files, unless it reads the log: a first file that is
	// missing may be one that retention took, a queue may end where its last entry or file
	// does. With the default CheckBytes, 1 GiB of the log's end is read for that.
	unseen := map[string][]string{"deleted": {"new", "old"}, "the last file deleted": {"old"}, "the last entries zeroed": {"old"}}
	for name, spoil := range kinds {
		for _, victim := range []queueID{{"new", 3}, {"old", 3}} {
			for _, checked := range []int64{0, 4 * wideSegment} {
				if checked == 0 && !slices.Contains([]string{"zeroed", "noise", "deleted", "all deleted", "all swapped with another", "the last entries zeroed"}, name) {
					continue
				}
				t.Run(fmt.Sprintf("%s of %s with %d checked", name, victim.topic, checked), func(t *testing.T) {
					other := queueID{victim.topic, victim.id + 1}
					path := func(q queueID) string { path, _ := s.QueueFile(q.topic, q.id, 0); return path }
					for _, q := range []queueID{victim, other} {
						dir := filepath.Dir(path(q))
						kept := t.TempDir()
						must(t, os.CopyFS(kept, os.DirFS(dir)))
						defer func() {
							must(t, os.RemoveAll(dir))
							must(t, os.CopyFS(dir, os.DirFS(kept)))
						}()
					}
					spoil(t, path(victim), path(other))
					var store *warmlog.Store
					opening := cost(t, func() { store = open(t, s.Dir(), warmlog.Options{CheckBytes: checked}) })
					defer store.Close()
					others := cost(t, func() {
						for id := int32(10); id < 15; id++ {
							s.right(t, store, queueID{"new", id})
							s.right(t, store, queueID{"old", id})
						}
					})
					if checked > 0 && slices.Contains(unseen[name], victim.topic) {
						drain(t, store, victim.topic, victim.id, 0) // what it gives is right, though it be less
						return
					}
					repair := cost(t, func() { s.right(t, store, victim) })
					s.right(t, store, other)
					again := cost(t, func() { s.right(t, store, victim) })
					t.Logf("log %d: opening read %d, ten other queues %d, the damaged one %d, and again %d", logBytes, opening.bytes, others.bytes, repair.bytes, again.bytes)
					// A queue of which the checked part has messages that its files do not lead up to
					// is completed by Open.
					if checked > 0 && opening.bytes > logBytes/8 && victim.topic == "old" {
						t.Errorf("opening read %d bytes, the log has %d, %d were to be checked", opening.bytes, logBytes, checked)
					}
					if others.bytes > logBytes/4 {
						t.Errorf("ten sound queues read %d bytes, the log has %d", others.bytes, logBytes)
					}
					if opening.bytes+repair.bytes > 3*logBytes {
						t.Errorf("opening and the damaged queue read %d bytes, the log has %d", opening.bytes+repair.bytes, logBytes)
					}
					if again.bytes > logBytes/8 {
						t.Errorf("the damaged queue read %d bytes the second time", again.bytes)
					}
				})
			}
		}
	}
}

// The same with all of the queue files: everything is made again from the log.
func TestCase34AllQueuesGone(t *testing.T) {
	s := newWide(t)
	for _, checked := range []int64{0, wideSegment, -1} {
		must(t, os.RemoveAll(s.Paths.ConsumeQueue()))
		store := open(t, s.Dir(), warmlog.Options{CheckBytes: checked})
		holds(t, store, s.all)
		store.Close()
	}
}

// One damaged index file among several: the answers are right, the file is named, and only
// its part of the log is read instead.
func TestCase34OneDamagedIndexFile(t *testing.T) {
	s := newWide(t)
	files := s.IndexFiles()
	if len(files) < 5 {
		t.Fatalf("%d index files", len(files))
	}
	ask := func(t *testing.T, store *warmlog.Store, key int) *warmlog.KeyResult {
		t.Helper()
		var all *warmlog.KeyResult
		for _, topic := range []string{"new", "old"} {
			got, err := store.FindByKey(context.Background(), warmlog.KeyQuery{Topic: topic, Key: fmt.Sprintf("k%d", key)})
			must(t, err)
			var mine []int64
			for i := key; i < len(s.all); i += 1000 {
				if s.all[i].Topic == topic {
					mine = append(mine, s.all[i].Offset)
				}
			}
			if fmt.Sprint(got.Offsets) != fmt.Sprint(mine) || got.More {
				t.Errorf("k%d of %s: %v, want %v, more %v", key, topic, got.Offsets, mine, got.More)
			}
			all = got
		}
		return all
	}
	whole := open(t, s.Dir(), warmlog.Options{CheckBytes: wideSegment})
	sound := cost(t, func() { ask(t, whole, 77) })
	if sound.bytes > s.Pos()/2 {
		t.Errorf("a question to a sound index read %d bytes of %d", sound.bytes, s.Pos())
	}
	for name, spoil := range map[string]struct {
		spoil func(path string)
		named bool // a lookup sees that the file is damaged
	}{
		"zeroed":               {func(path string) { put(t, path, 0, make([]byte, 42040)) }, false},
		"header zeroed":        {func(path string) { put(t, path, 0, make([]byte, 40)) }, false},
		"emptied":              {func(path string) { must(t, os.Truncate(path, 0)) }, false},
		"truncated":            {func(path string) { must(t, os.Truncate(path, 20000)) }, true},
		"noise":                {func(path string) { put(t, path, 0, storetest.Body("noise", 0, 0, 42040)) }, false},
		"noise as header":      {func(path string) { put(t, path, 0, storetest.Body("noise", 0, 0, 40)) }, false},
		"noise in the slots":   {func(path string) { put(t, path, 40, storetest.Body("noise", 0, 0, 2000)) }, true},
		"noise in the entries": {func(path string) { put(t, path, 2060, storetest.Body("noise", 0, 0, 39000)) }, true},
		"deleted":              {func(path string) { must(t, os.Remove(path)) }, false},
		"another's content":    {func(path string) { copyFile(t, files[0], path) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := files[2]
			kept, err := os.ReadFile(path)
			must(t, err)
			defer func() { must(t, os.WriteFile(path, kept, 0o644)) }()
			spoil.spoil(path)
			store := open(t, s.Dir(), warmlog.Options{CheckBytes: wideSegment})
			defer store.Close()
			var got *warmlog.KeyResult
			c := cost(t, func() { got = ask(t, store, 77) })
			if spoil.named && (len(got.Damaged) != 1 || got.Damaged[0].File != path) {
				t.Errorf("damage: %v, want %s", got.Damaged, path)
			}
			// Two questions; each may read the part of the log that the file covered.
			part := s.Pos() / int64(len(files))
			t.Logf("log %d, %d files: %d bytes read, of a sound index %d", s.Pos(), len(files), c.bytes, sound.bytes)
			if c.bytes > sound.bytes+2*3*part {
				t.Errorf("%d bytes were read; a sound index takes %d, and a file covers %d of the log", c.bytes, sound.bytes, part)
			}
			for key := range 20 {
				ask(t, store, key*50)
			}
			var b getmessage.Batch // and queues have nothing to do with it
			must(t, store.Get(context.Background(), &getmessage.Request{Topic: "new", QueueID: 5}, &b))
			b.Release()
		})
	}
}
