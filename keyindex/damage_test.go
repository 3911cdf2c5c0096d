package keyindex_test

import (
	"cmp"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

// smallStore is a log over several seconds with colliding keys and tags, and the layout of
// one small file that holds all its keys with room to spare.
func smallStore(t *testing.T) (*log, keyindex.Layout) {
	l := newLog()
	l.put(t, now-500, "T", "", "", "") // no key: the index begins above the log
	for i, keys := range []string{"a", "Aa", "", "BB a", "k1", "a", minKey, "a", "Aa BB"} {
		unique := ""
		if i%3 == 0 {
			unique = "U"
		}
		l.put(t, now+700*int64(i), "T", unique, keys, "a")
	}
	return l, keyindex.Layout{Slots: 5, Entries: 26}
}

// queries are all keys of smallStore at all times and in a window, and some that are none.
func queries() (all []keyindex.Query) {
	for _, key := range []string{"a", "Aa", "BB", "k1", minKey, "U", "T#a"} {
		all = append(all, keyindex.Query{Topic: "T", Key: key}, keyindex.Query{Topic: "T", Key: key, From: now + 2000, To: now + 5500})
	}
	return append(all, keyindex.Query{Topic: "T", Key: "a", Max: 2}, keyindex.Query{Topic: "T", Key: "Aa", Max: 1})
}

// damageTest writes an image into dir and compares all answers with the truth. It returns whether
// an answer was wrong, and what Find and the Checker said. An answer that is not in the log
// fails the test at once: damage may hide records, it never makes up any.
func damageTest(t *testing.T, dir string, l *log, layout keyindex.Layout, image []byte, what string) (wrong, named bool, bad []*message.DamageError) {
	t.Helper()
	writeFile(t, filepath.Join(dir, name(0)), image)
	x := open(t, dir, keyindex.Options{Slots: layout.Slots})
	for _, q := range queries() {
		got, r := whole(t, x, l, q)
		truth := l.scan(q)
		for _, at := range got {
			if !slices.Contains(truth, at) {
				t.Fatalf("%s: %+v: %d is no answer", what, q, at)
			}
		}
		want, _ := newest(truth, cmp.Or(q.Max, keyindex.DefaultMax))
		if !slices.Equal(got, want) {
			wrong = true
			if r.Damaged != nil {
				t.Errorf("%s: %+v: got %v, want %v, although %v", what, q, got, want, r.Damaged)
			}
		}
		named = named || r.Damaged != nil
	}
	_, bad = check(t, x, l)
	return wrong, named, bad
}

// part names what a byte of the file belongs to.
func part(l keyindex.Layout, at, keys int64) string {
	switch entry := (at - l.EntryAt(0)) / keyindex.EntrySize; {
	case at < 40:
		return []string{"begin time", "end time", "begin offset", "end offset", "used and count"}[at/8]
	case at < l.EntryAt(0):
		return "slot"
	case entry == 0:
		return "entry 0"
	case entry > keys:
		return "free"
	case entry == 1 && (at-l.EntryAt(1))/4 == 3:
		return "seconds of entry 1"
	}
	switch f := (at - l.EntryAt(0)) % keyindex.EntrySize; {
	case f < 4:
		return "hash"
	case f < 12:
		return "offset"
	case f < 16:
		return "seconds"
	}
	return "prev"
}

// Every bit of a small file is flipped. No answer is ever made up; whenever one is not
// whole, the Checker names the damage, and only slots, links, hashes and times can be
// changed so that Find cannot see it.
func TestFlipEveryBit(t *testing.T) {
	l, layout := smallStore(t)
	x := build(l, layout.Slots, layout.Entries, true)
	clean := x.files[0].Bytes()
	keys, dir := int64(x.files[0].Header().Keys()), t.TempDir()
	if wrong, named, bad := damageTest(t, dir, l, layout, clean, "clean"); wrong || named || bad != nil {
		t.Fatal(wrong, named, bad)
	}
	silent, unseen := map[string]int{}, map[string]int{}
	for bit := range len(clean) * 8 {
		p := part(layout, int64(bit/8), keys)
		if testing.Short() && bit%7 != 0 || p == "free" && bit%8 != 0 {
			continue
		}
		image := slices.Clone(clean)
		image[bit/8] ^= 1 << (bit % 8)
		wrong, named, bad := damageTest(t, dir, l, layout, image, p)
		if wrong {
			silent[p]++
			if bad == nil {
				t.Errorf("%s, bit %d: a wrong answer, and the checker sees nothing", p, bit)
			}
		}
		if bad == nil && !named {
			unseen[p]++
		}
	}
	t.Logf("%d keys; hidden from Find: %v; seen by nobody, and harmless: %v", keys, silent, unseen)
	for p := range silent {
		if !slices.Contains([]string{"slot", "prev", "hash", "seconds"}, p) {
			t.Errorf("wrong answers without a word after damage to %s", p)
		}
	}
	for p := range unseen {
		// The count that is lower by one and the end offset of the entry before are what
		// a writer leaves that was killed within a put.
		if !slices.Contains([]string{"entry 0", "free", "seconds of entry 1", "end offset", "used and count"}, p) {
			t.Errorf("damage to %s is not seen", p)
		}
	}
}

// Every aligned number of the file is set to odd values.
func TestOddValues(t *testing.T) {
	l, layout := smallStore(t)
	x := build(l, layout.Slots, layout.Entries, true)
	clean := x.files[0].Bytes()
	keys, dir := int64(x.files[0].Header().Keys()), t.TempDir()
	for at := int64(0); at+4 <= int64(len(clean)); at += 4 {
		for _, v := range []uint32{0, 1, 2, uint32(keys), uint32(keys) + 1, uint32(keys) + 2, 25, 26, math.MaxInt32, 1 << 31, math.MaxUint32} {
			image := slices.Clone(clean)
			copy(image[at:], []byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
			p := part(layout, at, keys)
			if wrong, _, bad := damageTest(t, dir, l, layout, image, p); wrong && bad == nil {
				t.Errorf("%s at %d set to %#x: a wrong answer, and the checker sees nothing", p, at, v)
			}
		}
	}
}

// A chain that leads back to itself ends, and says so.
func TestCycle(t *testing.T) {
	l := newLog()
	for range 10 {
		l.put(t, now, "T", "", "a", "")
	}
	x := build(l, 1, 20, false)
	image := slices.Clone(x.files[0].Bytes())
	at := keyindex.Layout{Slots: 1, Entries: 20}.EntryAt(4)
	for _, prev := range []byte{4, 5, 10, 11, 19} {
		image[at+19] = prev
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, name(0)), image)
		got, r := whole(t, open(t, dir, keyindex.Options{Slots: 1, MaxSteps: 1000}), l, keyindex.Query{Topic: "T", Key: "a"})
		if !slices.Equal(got, l.offsets) || r.Offsets != nil || r.Limited || len(r.Damaged) != 1 || !errors.Is(r.Damaged[0], keyindex.ErrChain) || r.Damaged[0].Offset != at+16 {
			t.Errorf("entry 4 links to %d: %v, %+v", prev, got, r)
		}
	}
}

// What a walk can see of damage it names with its place, and the answer stays whole.
func TestFindNamesPlaces(t *testing.T) {
	l := newLog()
	for i := range 12 {
		l.put(t, now+2000*int64(i)+300*int64(min(i, 1)), "T", "", []string{"a b", "c"}[i%2], "")
	}
	layout := keyindex.Layout{Slots: 7, Entries: 28}
	clean := build(l, layout.Slots, layout.Entries, false).files[0].Bytes()
	slot := func(key string) int64 { return layout.SlotAt(keyindex.Hash("T", key) % layout.Slots) }
	at := func(n int32) int64 { return layout.EntryAt(n) } // a, b, c, a, b, c, ...
	for _, c := range []struct {
		name string
		edit func(image []byte)
		kind error
		at   int64
	}{
		{"slot beyond the count", func(b []byte) { edit(b, slot("a"), 20) }, keyindex.ErrSlot, slot("a")},
		{"slot of another chain", func(b []byte) { edit(b, slot("a"), 14) }, keyindex.ErrChain, at(14)},
		{"hash of another chain", func(b []byte) { edit(b, at(10), 1) }, keyindex.ErrChain, at(10)},
		{"negative hash", func(b []byte) { edit(b, at(10), -7) }, keyindex.ErrChain, at(10)},
		{"link upwards", func(b []byte) { edit(b, at(10)+16, 13) }, keyindex.ErrChain, at(10) + 16},
		{"negative link", func(b []byte) { edit(b, at(10)+16, -1) }, keyindex.ErrChain, at(10) + 16},
		{"offset above the file", func(b []byte) { edit(b, at(10)+4, 1) }, keyindex.ErrPlace, at(10) + 4},
		{"offset below the next in the chain", func(b []byte) { edit(b, at(10)+8, int32(l.offsets[2])); edit(b, at(10)+12, 4) }, keyindex.ErrPlace, at(7) + 4},
		{"offset of a record without the key", func(b []byte) { edit(b, at(10)+8, int32(l.offsets[5])); edit(b, at(10)+12, 10) }, keyindex.ErrWrongKey, at(10)},
		{"offset of no record", func(b []byte) { edit(b, at(10)+8, int32(l.offsets[6]+1)) }, keyindex.ErrNoRecord, at(10) + 4},
		{"seconds", func(b []byte) { edit(b, at(10)+12, 3) }, keyindex.ErrTime, at(10) + 12},
		{"negative seconds", func(b []byte) { edit(b, at(10)+12, -3) }, keyindex.ErrTime, at(10) + 12},
	} {
		image := slices.Clone(clean)
		c.edit(image)
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, name(0)), image)
		q := keyindex.Query{Topic: "T", Key: "a"}
		got, r := whole(t, open(t, dir, keyindex.Options{}), l, q)
		if !slices.Equal(got, l.scan(q)) || r.Offsets != nil || len(r.Damaged) != 1 || !errors.Is(r.Damaged[0], c.kind) || r.Damaged[0].Offset != c.at {
			t.Errorf("%s: %v, %+v", c.name, got, r)
		}
		// Another chain of the file is as good as before.
		if _, r := whole(t, open(t, dir, keyindex.Options{}), l, keyindex.Query{Topic: "T", Key: "c"}); len(r.Offsets) != 6 || r.Damaged != nil {
			t.Errorf("%s, another key: %+v", c.name, r)
		}
	}
}

// One damaged file does not spoil the others.
func TestDamageOfOneFile(t *testing.T) {
	l := newLog()
	for i := range 50 {
		l.put(t, now+int64(i), "T", "", "a", "")
	}
	x := build(l, 3, 11, false)
	dir := x.write(t, t.TempDir())
	image := slices.Clone(x.files[2].Bytes())
	image[16] = 1 // the begin offset
	writeFile(t, filepath.Join(dir, name(2)), image)
	index := open(t, dir, keyindex.Options{Slots: 3})
	got, r := whole(t, index, l, keyindex.Query{Topic: "T", Key: "a"})
	if !slices.Equal(got, l.offsets) || len(r.Offsets) != 40 || len(r.Damaged) != 1 || r.Damaged[0].File != filepath.Join(dir, name(2)) || !errors.Is(r.Damaged[0], keyindex.ErrHeader) {
		t.Errorf("%d, %d: %+v", len(got), len(r.Offsets), r)
	}
	want := []keyindex.Range{
		{From: l.offsets[9], To: l.offsets[10] + 1}, // the edges of two neighbours that do not share a record
		{From: l.offsets[19], To: l.offsets[30] + 1},
		{From: l.offsets[39], To: l.offsets[40] + 1},
		{From: l.offsets[49], To: l.end},
	}
	if !slices.Equal(r.Uncovered, want) {
		t.Errorf("uncovered %v, want %v", r.Uncovered, want)
	}
	sum, bad := check(t, index, l)
	if len(bad) != 1 || sum.Files != 4 || sum.Outside != 10 {
		t.Errorf("%+v %v", sum, bad)
	}
}

// What is known of a full file is not believed once it was written to.
func TestFullFileEdited(t *testing.T) {
	l := newLog()
	for range 10 {
		l.put(t, now, "T", "", "a", "")
	}
	x := build(l, 2, 11, false)
	dir := x.write(t, t.TempDir())
	index := open(t, dir, keyindex.Options{Slots: 2})
	if _, r := whole(t, index, l, keyindex.Query{Topic: "T", Key: "a"}); len(r.Offsets) != 10 || r.Damaged != nil {
		t.Fatalf("%+v", r)
	}
	f, err := os.OpenFile(filepath.Join(dir, name(0)), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, v := range []byte{1, 0} {
		time.Sleep(20 * time.Millisecond) // file times may be as coarse as the clock's tick
		if _, err := f.WriteAt([]byte{v}, 24); err != nil {
			t.Fatal(err)
		}
		files, _, err := index.Files()
		if err != nil || (files[0].Err != nil) != (v == 1) {
			t.Errorf("%d: %v, %v", v, files[0].Err, err)
		}
	}
}

// Files are cut, emptied, replaced, removed and restored while they are used. Answers and
// scan together stay the truth.
func TestChangesDuringUse(t *testing.T) {
	l := newLog()
	for i := range 3000 {
		l.put(t, now+int64(i), "T", "", []string{"a", "b c", "d"}[i%3], "")
	}
	x := build(l, 100, 400, false)
	dir := x.write(t, t.TempDir())
	index := open(t, dir, keyindex.Options{})
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			r := newLog() // a log of one's own: maps are not for sharing
			r.offsets, r.views, r.min, r.end = l.offsets, l.views, l.min, l.end
			for i := 0; !stop.Load(); i++ {
				q := keyindex.Query{Topic: "T", Key: string("abcde"[i%5]), Max: 5000}
				got, res := whole(t, index, r, q)
				if want := r.scan(q); !slices.Equal(got, want) {
					t.Errorf("%+v: %d of %d, %+v", q, len(got), len(want), res.Damaged)
					return
				}
				if i%10 == 0 {
					c, err := index.NewChecker(func(*message.DamageError) {})
					if err != nil {
						t.Error(err)
						return
					}
					for _, at := range r.offsets {
						v := r.views[at]
						c.Record(&v)
					}
					if _, err := c.Finish(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	size := int64(len(x.files[0].Bytes()))
	for i := range 150 {
		n := i % len(x.files)
		path := filepath.Join(dir, name(n))
		var err error
		switch i % 6 {
		case 0:
			err = os.Truncate(path, 0)
		case 1:
			err = os.Truncate(path, size/2)
		case 2:
			err = os.Truncate(path, size-7)
		case 3:
			err = os.Remove(path)
		case 4: // another file under the name
			writeFile(t, path+".new", x.files[(n+1)%len(x.files)].Bytes())
			err = os.Rename(path+".new", path)
		case 5:
			err = os.Truncate(path, 20)
		}
		if err != nil {
			t.Error(err)
		}
		writeFile(t, path+".new", x.files[n].Bytes())
		if err := os.Rename(path+".new", path); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	wg.Wait()
}
