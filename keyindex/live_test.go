package keyindex_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

// writer puts keys into files as RocketMQ does: number by number, in the order of
// IndexFile.putKey. pause is called between any two writes.
type writer struct {
	t      *testing.T
	dir    string
	layout keyindex.Layout
	f      *os.File
	head   keyindex.Header
	files  int
	pause  func()
}

func (w *writer) put(b []byte, at int64) {
	w.pause()
	if _, err := w.f.WriteAt(b, at); err != nil {
		w.t.Error(err)
	}
}

func (w *writer) put32(v int32, at int64) { w.put(binary.BigEndian.AppendUint32(nil, uint32(v)), at) }
func (w *writer) put64(v int64, at int64) { w.put(binary.BigEndian.AppendUint64(nil, uint64(v)), at) }

func (w *writer) create() {
	if w.f != nil {
		w.f.Close()
	}
	var err error
	if w.f, err = os.Create(filepath.Join(w.dir, name(w.files))); err != nil {
		w.t.Fatal(err)
	}
	w.files++
	w.pause()
	if err := w.f.Truncate(w.layout.Size()); err != nil {
		w.t.Fatal(err)
	}
	w.head = keyindex.Header{BeginOffset: w.head.EndOffset, EndOffset: w.head.EndOffset, BeginTimestamp: w.head.EndTimestamp, EndTimestamp: w.head.EndTimestamp}
	w.put64(w.head.BeginOffset, 16)
	w.put64(w.head.EndOffset, 24)
	w.put64(w.head.BeginTimestamp, 0)
	w.put64(w.head.EndTimestamp, 8)
	w.head.Count = 1
}

func (w *writer) key(hash int32, offset, store int64) {
	if w.f == nil || w.head.Count >= w.layout.Entries {
		w.create()
	}
	n, at := w.head.Count, w.layout.SlotAt(hash%w.layout.Slots)
	var b [4]byte
	if _, err := w.f.ReadAt(b[:], at); err != nil {
		w.t.Error(err)
	}
	prev := int32(binary.BigEndian.Uint32(b[:]))
	w.put32(hash, w.layout.EntryAt(n))
	w.put64(offset, w.layout.EntryAt(n)+4)
	w.put32(keyindex.Seconds(w.head.BeginTimestamp, store), w.layout.EntryAt(n)+12)
	w.put32(prev, w.layout.EntryAt(n)+16)
	w.put32(n, at)
	if n <= 1 {
		w.head.BeginOffset, w.head.BeginTimestamp = offset, store
		w.put64(offset, 16)
		w.put64(store, 0)
	}
	if prev == 0 {
		w.head.SlotsUsed++
		w.put32(w.head.SlotsUsed, 32)
	}
	w.head.Count++
	w.put32(w.head.Count, 36)
	w.head.EndOffset, w.head.EndTimestamp = offset, store
	w.put64(offset, 24)
	w.put64(store, 8)
}

func liveLog(t *testing.T, n int) *log {
	l := newLog()
	for i := range n {
		l.put(t, now+150*int64(i)-2000*int64(i%17/16), "T", "", []string{"a b", "c", "Aa BB a", "", "a a"}[i%5], "")
	}
	return l
}

// A reader that looks in between any two writes of a put finds the truth and no damage.
// This is also what a killed writer leaves.
func TestEveryMomentOfPut(t *testing.T) {
	l := liveLog(t, 40)
	dir := t.TempDir()
	x := open(t, dir, keyindex.Options{Slots: 6})
	moments := 0
	w := &writer{t: t, dir: dir, layout: keyindex.Layout{Slots: 6, Entries: 12}}
	w.pause = func() {
		moments++
		for _, fresh := range []*keyindex.Index{x, open(t, dir, keyindex.Options{Slots: 6})} {
			for _, key := range []string{"a", "c", "Aa", "b", "z"} {
				for _, q := range []keyindex.Query{{Topic: "T", Key: key}, {Topic: "T", Key: key, From: now + 1000, To: now + 3000}, {Topic: "T", Key: key, Max: 3}} {
					got, r := whole(t, fresh, l, q)
					want := l.scan(q)
					if q.Max > 0 {
						want, _ = newest(want, q.Max)
					}
					if !slices.Equal(got, want) || r.Damaged != nil || r.Limited {
						t.Fatalf("moment %d, header %+v, %+v: got %v, want %v, %+v", moments, w.head, q, got, want, r)
					}
				}
			}
		}
		if sum, bad := check(t, x, l); bad != nil {
			t.Fatalf("moment %d, header %+v: %v, %+v", moments, w.head, bad, sum)
		}
	}
	for _, at := range l.offsets {
		v := l.views[at]
		for _, h := range keyindex.KeyHashes(nil, &v, false) {
			w.key(h, at, v.StoreTimestamp())
		}
	}
	w.f.Close()
	t.Logf("%d moments, %d files", moments, w.files)
}

// The slot is read before the header, so that the chain never begins above the count:
// Trust is asked right after the header is read, and here keys are put just then.
func TestPutBetweenReads(t *testing.T) {
	l := liveLog(t, 200)
	w := &writer{t: t, dir: t.TempDir(), layout: keyindex.Layout{Slots: 1, Entries: 1000}, pause: func() {}}
	next := 0
	put := func(n int) {
		for ; n > 0 && next < len(l.offsets); n-- {
			v := l.views[l.offsets[next]]
			for _, h := range keyindex.KeyHashes(nil, &v, false) {
				w.key(h, l.offsets[next], v.StoreTimestamp())
			}
			next++
		}
	}
	put(10)
	x := open(t, w.dir, keyindex.Options{Slots: 1, Trust: func(keyindex.Header) bool { put(3); return true }})
	for next < len(l.offsets) {
		q := keyindex.Query{Topic: "T", Key: "a", Max: 1000}
		if got, r := whole(t, x, l, q); !slices.Equal(got, l.scan(q)) || r.Damaged != nil {
			t.Fatalf("%d put: %d, want %d, %v", next, len(got), len(l.scan(q)), r.Damaged)
		}
	}
	w.f.Close()
}

// Readers beside a writer that does not wait for them.
func TestLiveWriter(t *testing.T) {
	l := liveLog(t, 3000)
	l.scan(keyindex.Query{}) // before it is shared
	dir := t.TempDir()
	x := open(t, dir, keyindex.Options{})
	var done atomic.Bool
	var wg sync.WaitGroup
	for n := range 3 {
		wg.Go(func() {
			for i := n; !done.Load(); i++ {
				q := keyindex.Query{Topic: "T", Key: []string{"a", "b", "c", "Aa"}[i%4], Max: 5000}
				got, r := whole(t, x, l, q)
				if want := l.scan(q); !slices.Equal(got, want) || r.Damaged != nil {
					t.Errorf("%+v: %d, want %d, %v", q, len(got), len(want), r.Damaged)
					return
				}
				if i%20 > 0 {
					continue
				}
				c, err := x.NewChecker(func(e *message.DamageError) { t.Error(e) })
				if err != nil {
					t.Error(err)
					return
				}
				for _, at := range l.offsets {
					v := l.views[at]
					c.Record(&v)
				}
				if _, err := c.Finish(); err != nil || t.Failed() {
					t.Error(err)
					return
				}
			}
		})
	}
	w := &writer{t: t, dir: dir, layout: keyindex.Layout{Slots: 250, Entries: 1000}, pause: func() {}}
	for _, at := range l.offsets {
		v := l.views[at]
		for _, h := range keyindex.KeyHashes(nil, &v, false) {
			w.key(h, at, v.StoreTimestamp())
		}
	}
	w.f.Close()
	done.Store(true)
	wg.Wait()
	if sum, bad := check(t, x, l); bad != nil || sum.Behind != 0 || sum.Files != w.files {
		t.Errorf("%+v %v", sum, bad)
	}
}
