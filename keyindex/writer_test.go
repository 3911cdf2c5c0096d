package keyindex_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

// fastDir is a directory for tests that sync often: in memory where there is one.
func fastDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "keyindex")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// randomLog has records with no, one and many keys, the same key twice, keys of one hash,
// rollbacks, and store times that fall now and then.
func randomLog(t tester, r *rand.Rand, n int) *log {
	l := newLog()
	keys := []string{"", "a", "b", "a a", "Aa BB", "a b c", minKey, "x y z x y z", "k1 k2 k3 k4 k5 k6 k7 k8 k9 k10 k11 k12"}
	store := int64(now)
	for range n {
		store += r.Int64N(3000) - 500
		k := keys[r.IntN(len(keys))]
		if r.IntN(10) == 0 {
			at := l.end
			v := record(t, at, store, message.SysFlagRollback, "T", string(message.AppendProperty(nil, message.PropKeys, "a b")))
			l.add(at, v, int64(v.Size()))
			continue
		}
		unique := ""
		if r.IntN(2) == 0 {
			unique = fmt.Sprint("U", r.IntN(1000))
		}
		l.put(t, store, "T", unique, k, []string{"", "tag"}[r.IntN(2)])
	}
	return l
}

func openWriter(t tester, dir string, end int64, o keyindex.WriterOptions) *keyindex.Writer {
	t.Helper()
	w, err := keyindex.OpenWriter(dir, end, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func addTo(t tester, w *keyindex.Writer, l *log, from, to int) {
	t.Helper()
	for _, at := range l.offsets[from:to] {
		v := l.views[at]
		must(t, w.Add(&v))
	}
}

// equal compares the files in dir with those of the Builder.
func equal(t tester, dir string, x *indexer) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	if len(names) != len(x.files) {
		t.Fatalf("%d files, want %d", len(names), len(x.files))
	}
	for i, path := range names {
		got, err := os.ReadFile(path)
		must(t, err)
		want := x.files[i].Bytes()
		for at := range want {
			if at >= len(got) || got[at] != want[at] {
				t.Fatalf("file %d of %d, %+v, want %+v: first difference at %d", i, len(names), keyindex.ParseHeader(got), x.files[i].Header(), at)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("file %d has %d bytes", i, len(got))
		}
	}
}

// sound is what every moment must look like to readers.
func sound(t tester, dir string, l *log, slots int32) {
	t.Helper()
	x := open(t, dir, keyindex.Options{Slots: slots})
	for _, key := range []string{"a", "b", "k1", "Aa", minKey} {
		q := keyindex.Query{Topic: "T", Key: key, Max: 1000}
		if got, r := whole(t, x, l, q); r.Damaged != nil || !slices.Equal(got, l.scan(q)) {
			t.Fatalf("%s: got %v, want %v, %v", key, got, l.scan(q), r.Damaged)
		}
	}
	if sum, bad := check(t, x, l); bad != nil {
		t.Fatalf("%+v %v", sum, bad)
	}
}

// The files are those of the Builder, whatever is flushed, synced, closed, killed and given
// again in between.
func TestWriterEqualsBuilder(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := randomLog(t, r, 1+r.IntN(120))
		layout := keyindex.Layout{Slots: 1 + r.Int32N(40), Entries: 2 + r.Int32N(60)}
		dir := filepath.Join(fastDir(t), "store", "index")
		o := keyindex.WriterOptions{Layout: layout, MaxBuffered: 1 + r.IntN(50)}
		w := openWriter(t, dir, 0, o)
		for i := 0; i < len(l.offsets); i++ {
			addTo(t, w, l, i, i+1)
			switch r.IntN(12) {
			case 0:
				must(t, w.Flush())
				if end, ok := w.End(); !ok || end < l.offsets[i] || end >= l.end {
					t.Fatalf("seed %d: end %d, %v, want %d", seed, end, ok, l.offsets[i])
				}
			case 1:
				must(t, w.Sync())
			case 2:
				if r.IntN(2) == 0 {
					must(t, w.Close())
				} else {
					w.Kill() // what was buffered is lost
				}
				next := 0 // the first record that is not known to be done
				if end, ok := w.End(); ok {
					next, _ = slices.BinarySearch(l.offsets, end)
					next++
				}
				i = next - r.IntN(next+1)
				end := l.end
				if i < len(l.offsets) {
					end = l.offsets[i]
				}
				w = openWriter(t, dir, end, o)
				if known, ok := w.End(); ok && known >= l.end {
					t.Fatal(known)
				}
				i--
			}
		}
		must(t, w.Close())
		b := build(l, layout.Slots, layout.Entries, false)
		if b.files[0].Header().Count == 0 {
			b.files = nil
		}
		equal(t, dir, b)
		want := int64(0)
		for _, f := range b.files {
			if f.Header().Count == layout.Entries {
				want = f.Header().EndTimestamp
			}
		}
		if got := w.FilledTime(); got != want {
			t.Fatalf("seed %d: filled %d, want %d", seed, got, want)
		}
		sound(t, dir, l, layout.Slots)
	}
}

var errKilled = errors.New("killed here")

// A kill before or within any write leaves what readers accept, and what a new writer goes
// on from, to the same files.
func TestWriterKilledAnywhere(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	l := randomLog(t, r, 40)
	moments := 0
	for _, o := range []keyindex.WriterOptions{
		{Layout: keyindex.Layout{Slots: 5, Entries: 23}, MaxBuffered: 9},
		{Layout: keyindex.Layout{Slots: 9000, Entries: 40}, MaxBuffered: 30}, // several windows
		{Layout: keyindex.Layout{Slots: 30, Entries: 1000}, MaxBuffered: 4},
	} {
		want := build(l, o.Layout.Slots, o.Layout.Entries, false)
		for kill := 0; ; kill++ {
			dir := fastDir(t)
			w := openWriter(t, dir, 0, o)
			calls := 0
			w.SetHook(func(n int) (int, error) {
				if calls++; calls > kill {
					if n <= keyindex.HeaderSize || calls > kill+1 {
						return 0, errKilled
					}
					return r.IntN(n+1) &^ 3, errKilled
				}
				return 0, nil
			})
			var err error
			i := 0
			for ; i < len(l.offsets) && err == nil; i++ {
				v := l.views[l.offsets[i]]
				err = w.Add(&v)
			}
			if err == nil {
				err = w.Flush()
			}
			if err == nil {
				w.SetHook(nil)
				must(t, w.Close())
				equal(t, dir, want)
				break
			}
			if !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			moments++
			sound(t, dir, l, o.Layout.Slots)
			from := 0
			if end, ok := w.End(); ok {
				from, _ = slices.BinarySearch(l.offsets, end)
				from++
			}
			if kill%2 == 0 { // the process lives on, and tries again
				w.SetHook(nil)
				must(t, w.Flush())
				sound(t, dir, l, o.Layout.Slots)
				addTo(t, w, l, max(i-1, 0), len(l.offsets))
			} else {
				w.Kill()
				w = openWriter(t, dir, l.offsets[from], o)
				addTo(t, w, l, from, len(l.offsets))
			}
			must(t, w.Close())
			equal(t, dir, want)
		}
	}
	t.Logf("%d moments", moments)
}

// After a cut the files are those of the shorter log as soon as a key follows, also when
// Truncate was killed at any write.
func TestWriterTruncate(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 3))
		l := randomLog(t, r, 60)
		o := keyindex.WriterOptions{Layout: keyindex.Layout{Slots: 1 + r.Int32N(30), Entries: 2 + r.Int32N(80)}, MaxBuffered: 1 + r.IntN(60)}
		cut := r.IntN(len(l.offsets))
		end := l.offsets[cut]
		short := newLog()
		for _, at := range l.offsets[:cut] {
			short.add(at, l.views[at], int64(viewSize(l.views[at])))
		}
		grown := newLog()
		*grown = *short
		grown.views = l.views
		grown.offsets = slices.Clone(short.offsets)
		for range 20 {
			grown.put(t, now+100_000+r.Int64N(5000), "T", "", "c d", "")
		}
		want := build(grown, o.Layout.Slots, o.Layout.Entries, false)
		for kill := 0; ; kill++ {
			dir := fastDir(t)
			w := openWriter(t, dir, 0, o)
			l2 := randomLog(t, rand.New(rand.NewPCG(seed, 3)), 60)
			addTo(t, w, l2, 0, len(l2.offsets))
			if seed%2 == 0 {
				must(t, w.Flush())
			}
			calls := 0
			w.SetHook(func(n int) (int, error) {
				if calls++; calls > kill {
					return 0, errKilled
				}
				return 0, nil
			})
			err := w.Truncate(end)
			next := cut
			if err != nil {
				if !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
				w.Kill()
				sound(t, dir, l2, o.Layout.Slots)
				w = openWriter(t, dir, end, o)
				must(t, w.Truncate(end))
				next = 0
			} else {
				w.SetHook(nil)
			}
			if known, ok := w.End(); ok && known >= end {
				t.Fatalf("end %d of %d", known, end)
			}
			sound(t, dir, short, o.Layout.Slots)
			addTo(t, w, grown, next, len(grown.offsets))
			must(t, w.Close())
			equal(t, dir, want)
			if err == nil {
				break
			}
		}
	}
}

func viewSize(v message.View) int32 { return v.Size() }

func TestWriterDeleteBelow(t *testing.T) {
	l := randomLog(t, rand.New(rand.NewPCG(5, 5)), 200)
	layout := keyindex.Layout{Slots: 5, Entries: 20}
	dir := fastDir(t)
	w := openWriter(t, dir, 0, keyindex.WriterOptions{Layout: layout})
	if n, b, err := w.DeleteBelow(1 << 60); n != 0 || b != 0 || err != nil {
		t.Fatal(n, b, err)
	}
	addTo(t, w, l, 0, len(l.offsets))
	must(t, w.Flush())
	x := open(t, dir, keyindex.Options{})
	files, _, err := x.Files()
	must(t, err)
	edge := files[3].Header.EndOffset
	if n, _, err := w.DeleteBelow(edge); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	if n, b, err := w.DeleteBelow(edge + 1); n != 1 || b != layout.Size() || err != nil {
		t.Fatal(n, b, err)
	}
	if n, _, err := w.DeleteBelow(1 << 60); n != len(files)-5 || err != nil {
		t.Fatal(n, err, len(files))
	}
	at := l.put(t, now, "T", "", "last", "")
	addTo(t, w, l, len(l.offsets)-1, len(l.offsets))
	must(t, w.Close())
	if r := find(t, x, l, "last"); !slices.Equal(r, []int64{at}) {
		t.Error(r)
	}
}

func find(t tester, x *keyindex.Index, l *log, key string) []int64 {
	got, r := whole(t, x, l, keyindex.Query{Topic: "T", Key: key})
	if r.Damaged != nil {
		t.Fatal(r.Damaged)
	}
	return got
}

// A last file that is damaged refuses by name, and stays as it is where the writer may go on.
func TestWriterPastDamage(t *testing.T) {
	l := randomLog(t, rand.New(rand.NewPCG(9, 9)), 60)
	layout := keyindex.Layout{Slots: 50, Entries: 200}
	clean := build(l, layout.Slots, layout.Entries, false).files[0].Bytes()
	for at := range int64(keyindex.HeaderSize) {
		dir := fastDir(t)
		image := slices.Clone(clean)
		image[at] ^= 0x40
		path := filepath.Join(dir, name(0))
		writeFile(t, path, image)
		o := keyindex.WriterOptions{Layout: layout, MaxBuffered: 10}
		w, err := keyindex.OpenWriter(dir, l.end, o)
		if err == nil {
			w.Kill()
			continue // less than a second, and the like: see TestFlipEveryBit
		}
		var bad *message.DamageError
		if !errors.Is(err, message.ErrDamaged) || !errors.As(err, &bad) || bad.File != path {
			t.Fatalf("at %d: %v", at, err)
		}
		o.PastDamage = true
		w = openWriter(t, dir, 0, o)
		addTo(t, w, l, 0, len(l.offsets))
		must(t, w.Close())
		if again, _ := os.ReadFile(path); !bytes.Equal(again, image) {
			t.Fatal("the damaged file was written to")
		}
		files, _, _ := open(t, dir, keyindex.Options{Slots: layout.Slots}).Files()
		if len(files) != 2 || files[1].Err != nil || files[1].Header != keyindex.ParseHeader(clean) {
			t.Fatalf("at %d: %+v", at, files)
		}
		o.PastDamage = false
		must(t, openWriter(t, dir, l.end, o).Close())
	}
	// Any bytes at all: an error or a writer, and no panic.
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		dir := fastDir(t)
		image := slices.Clone(clean)
		for range 1 + r.IntN(30) {
			image[r.IntN(len(image))] = byte(r.IntN(256))
		}
		writeFile(t, filepath.Join(dir, name(0)), image[:len(image)-r.IntN(2)*r.IntN(len(image))])
		for _, o := range []keyindex.WriterOptions{{}, {Layout: layout, PastDamage: true}} {
			w, err := keyindex.OpenWriter(dir, 0, o)
			if err != nil {
				if o.PastDamage {
					t.Fatal(err)
				}
				continue
			}
			more := newLog()
			more.end = 1 << 40
			for range 50 {
				more.put(t, now, "T", "", "a b c", "")
			}
			addTo(t, w, more, 0, 50)
			_ = w.Flush()
			_ = w.Truncate(1<<40 + 500)
			_, _, _ = w.DeleteBelow(1 << 41)
			_ = w.Close()
		}
	}
}

// A slot that is found damaged while it is needed: the error names it once, and the keys go
// to a new file.
func TestWriterDamagedSlot(t *testing.T) {
	l := randomLog(t, rand.New(rand.NewPCG(2, 2)), 30)
	layout := keyindex.Layout{Slots: 1, Entries: 2000}
	dir := fastDir(t)
	w := openWriter(t, dir, 0, keyindex.WriterOptions{Layout: layout})
	addTo(t, w, l, 0, 20)
	must(t, w.Close())
	path, _ := filepath.Glob(filepath.Join(dir, "*"))
	w = openWriter(t, dir, l.end, keyindex.WriterOptions{})
	image, _ := os.ReadFile(path[0])
	edit(image, keyindex.HeaderSize, 1500)
	writeFile(t, path[0], image)
	addTo(t, w, l, 20, 30)
	err := w.Flush()
	var bad *message.DamageError
	if !errors.As(err, &bad) || !errors.Is(err, keyindex.ErrSlot) || bad.Offset != keyindex.HeaderSize {
		t.Fatal(err)
	}
	must(t, w.Flush())
	must(t, w.Close())
	files, _, _ := open(t, dir, keyindex.Options{}).Files()
	if len(files) != 2 || files[1].Err != nil || files[1].Header.Keys() == 0 {
		t.Fatalf("%+v", files)
	}
}

func TestWriterNames(t *testing.T) {
	dir := fastDir(t)
	writeFile(t, filepath.Join(dir, "99991231235959998"), nil)
	writeFile(t, filepath.Join(dir, "20261130000000000.tmp"), []byte("left"))
	l := liveLog(t, 20)
	w := openWriter(t, dir, 0, keyindex.WriterOptions{Layout: keyindex.Layout{Slots: 3, Entries: 11}})
	addTo(t, w, l, 0, len(l.offsets))
	must(t, w.Close())
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(names) < 3 || filepath.Base(names[1]) != "99991231235959999" || filepath.Base(names[2]) != "99991231235960000" {
		t.Error(names)
	}
	if err := w.Flush(); err == nil {
		t.Error("closed")
	}
	if _, err := keyindex.OpenWriter(dir, -1, keyindex.WriterOptions{}); err == nil {
		t.Error("a negative end")
	}
}

// Entries that real brokers left at the end: goes on behind them.
func TestWriterAfterReal(t *testing.T) {
	stores(t, func(t *testing.T, s *realStore) {
		if s.torn() || s.skipped() || s.sample {
			t.Skip("log and index are not of one piece, or files too large")
		}
		x := open(t, s.index, keyindex.Options{})
		before, _ := check(t, x, s.log)
		w := openWriter(t, s.index, s.log.min, keyindex.WriterOptions{})
		addTo(t, w, s.log, 0, len(s.log.offsets))
		must(t, w.Close())
		after, bad := check(t, x, s.log)
		if bad != nil || after.Entries != before.Entries+before.Behind || after.Behind != 0 || after.Repeats != before.Repeats {
			t.Errorf("%+v, then %+v, %v", before, after, bad)
		}
	})
}

// Readers beside the writer.
func TestWriterLive(t *testing.T) {
	l := liveLog(t, 3000)
	l.scan(keyindex.Query{})
	dir := fastDir(t)
	x := open(t, dir, keyindex.Options{Slots: 250})
	var done atomic.Bool
	var wg sync.WaitGroup
	w := openWriter(t, dir, 0, keyindex.WriterOptions{Layout: keyindex.Layout{Slots: 250, Entries: 1000}, MaxBuffered: 100})
	for n := range 3 {
		wg.Go(func() {
			for i := n; !done.Load() && !t.Failed(); i++ {
				q := keyindex.Query{Topic: "T", Key: []string{"a", "b", "c", "Aa"}[i%4], Max: 5000}
				got, r := whole(t, x, l, q)
				if want := l.scan(q); !slices.Equal(got, want) || r.Damaged != nil {
					t.Errorf("%+v: %d, want %d, %v", q, len(got), len(want), r.Damaged)
				}
				w.End()
				w.FilledTime()
				if i%20 == 0 {
					if _, bad := check(t, x, l); bad != nil {
						t.Error(bad)
					}
				}
			}
		})
	}
	addTo(t, w, l, 0, len(l.offsets))
	must(t, w.Close())
	done.Store(true)
	wg.Wait()
	equal(t, dir, build(l, 250, 1000, false))
}

// A failed sync ends the writer: what the kernel dropped no later sync would name. What was
// given is given again to a new one.
func TestWriterFailedSync(t *testing.T) {
	l := liveLog(t, 100)
	layout := keyindex.Layout{Slots: 8, Entries: 30}
	dir := fastDir(t)
	w := openWriter(t, dir, 0, keyindex.WriterOptions{Layout: layout})
	addTo(t, w, l, 0, len(l.offsets))
	must(t, w.Flush())
	w.SetHook(func(int) (int, error) { return 0, errKilled })
	if err := w.Sync(); !errors.Is(err, errKilled) || w.FilledTime() != 0 {
		t.Fatal(err, w.FilledTime())
	}
	w.SetHook(nil)
	v := l.views[l.offsets[0]]
	for _, err := range []error{w.Sync(), w.Flush(), w.Add(&v), w.Truncate(0), w.Close()} {
		if !errors.Is(err, errKilled) {
			t.Error(err)
		}
	}
	w = openWriter(t, dir, 0, keyindex.WriterOptions{})
	addTo(t, w, l, 0, len(l.offsets))
	must(t, w.Close())
	equal(t, dir, build(l, layout.Slots, layout.Entries, false))
	if w.FilledTime() == 0 {
		t.Error("no file is full")
	}
}

// Records of an ordinary store into files of the default size; no allocation per record.
func BenchmarkWriterAdd(b *testing.B) {
	l := newLog()
	const n = 20_000
	for i := range n {
		l.put(b, now+int64(i), "orders", fmt.Sprintf("7F0000010%023d", i), fmt.Sprintf("order%d", i), "t")
	}
	views := make([]message.View, n)
	for i, at := range l.offsets {
		views[i] = l.views[at]
	}
	w := openWriter(b, b.TempDir(), 0, keyindex.WriterOptions{})
	b.ReportAllocs()
	i, round := 0, int64(0)
	for b.Loop() {
		if i == n { // the same keys again, further on in the log
			i = 0
			round++
			b.StopTimer()
			for j := range views {
				views[j] = record(b, round*l.end+l.offsets[j], views[j].StoreTimestamp(), 0, "orders", string(views[j].Properties()))
			}
			b.StartTimer()
		}
		if err := w.Add(&views[i]); err != nil {
			b.Fatal(err)
		}
		i++
	}
	w.Kill()
}
