package keyindex_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

// edit changes one number of an image.
func edit(image []byte, at int64, v int32) {
	copy(image[at:], []byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
}

// Each kind of disagreement is named with file, place and kind, and only it.
func TestCheckerNamesPlaces(t *testing.T) {
	l := newLog()
	for i := range 12 {
		l.put(t, now+2000*int64(i)+300*int64(min(i, 1)), "T", "", []string{"a b", "c"}[i%2], "")
	}
	layout := keyindex.Layout{Slots: 7, Entries: 28}
	x := build(l, layout.Slots, layout.Entries, false)
	clean := x.files[0].Bytes()
	entry := func(n int32) keyindex.Entry { return keyindex.ParseEntry(clean[layout.EntryAt(n):]) }
	slot := func(n int32) int64 { return layout.SlotAt(entry(n).Hash % layout.Slots) }
	last := keyindex.ParseHeader(clean).Keys() // 18: six times a, b, c
	if last != 18 || slot(last) == slot(last-1) || slot(last-1) == slot(last-2) {
		t.Fatalf("%d keys", last)
	}
	for _, c := range []struct {
		name string
		edit func(image []byte)
		kind error
		at   int64
	}{
		{"used slots", func(b []byte) { edit(b, 32, 1) }, keyindex.ErrHeader, 32},
		{"begin time, by less than a second", func(b []byte) { b[7] ^= 1 }, keyindex.ErrHeader, 0},
		{"end time, by less than a second", func(b []byte) { b[15] ^= 1 }, keyindex.ErrHeader, 8},
		{"a slot without its newest", func(b []byte) { edit(b, slot(last), entry(last).Prev) }, keyindex.ErrHeader, slot(last)},
		{"an empty slot", func(b []byte) { edit(b, slot(last-1), 0) }, keyindex.ErrSlot, slot(last - 1)},
		{"a slot beyond the count", func(b []byte) { edit(b, slot(last-2), last+3) }, keyindex.ErrSlot, slot(last - 2)},
		{"a link", func(b []byte) { edit(b, layout.EntryAt(9)+16, entry(9).Prev-1) }, keyindex.ErrChain, layout.EntryAt(9) + 16},
		{"seconds", func(b []byte) { edit(b, layout.EntryAt(9)+12, 1) }, keyindex.ErrTime, layout.EntryAt(9) + 12},
		{"a hash", func(b []byte) { edit(b, layout.EntryAt(9), 12345) }, keyindex.ErrWrongKey, layout.EntryAt(9)},
		{"the first hash", func(b []byte) { edit(b, layout.EntryAt(7), 12345) }, keyindex.ErrWrongKey, layout.EntryAt(7)},
		{"a negative hash", func(b []byte) { edit(b, layout.EntryAt(8), -5) }, keyindex.ErrWrongKey, layout.EntryAt(8)},
		{"an offset far away", func(b []byte) { edit(b, layout.EntryAt(9)+4, 1) }, keyindex.ErrPlace, layout.EntryAt(9) + 4},
	} {
		image := slices.Clone(clean)
		c.edit(image)
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, name(0)), image)
		_, bad := check(t, open(t, dir, keyindex.Options{}), l)
		if len(bad) != 1 || !errors.Is(bad[0], c.kind) || bad[0].Offset != c.at || bad[0].File != filepath.Join(dir, name(0)) || !errors.Is(bad[0], message.ErrDamaged) {
			t.Errorf("%s: %v", c.name, bad)
		}
	}
}

// Keys that were left out, put twice under another record, or put for no record.
func TestCheckerAgainstLog(t *testing.T) {
	l := newLog()
	for i := range 10 {
		l.put(t, now+int64(i), "T", "U", "a b", "tag")
	}
	layout := keyindex.Layout{Slots: 7, Entries: 100}
	all := func(put func(b *keyindex.Builder, i int, h []int32, at, store int64)) string {
		b := keyindex.NewBuilder(layout, nil)
		for i, at := range l.offsets {
			v := l.views[at]
			put(b, i, keyindex.KeyHashes(nil, &v, true), at, v.StoreTimestamp())
		}
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, name(0)), b.Bytes())
		return dir
	}
	for _, c := range []struct {
		name  string
		put   func(i int, h []int32) []int32
		kinds []error
		want  keyindex.Summary
	}{
		{"with tags", func(i int, h []int32) []int32 { return h }, nil, keyindex.Summary{Entries: 40}},
		{"without tags", func(i int, h []int32) []int32 { return h[:3] }, nil, keyindex.Summary{Entries: 30}},
		{"an upgrade in between", func(i int, h []int32) []int32 { return h[:3+i/5] }, nil, keyindex.Summary{Entries: 35}},
		{"the last record again", func(i int, h []int32) []int32 { return append(h, h[:4*(i/9)]...) }, nil, keyindex.Summary{Entries: 44, Repeats: 4}},
		{"a put that was cut, and again", func(i int, h []int32) []int32 {
			if i == 9 {
				return append(h[:2:2], h...)
			}
			return h
		}, nil, keyindex.Summary{Entries: 42, Repeats: 4}},
		{"not there yet", func(i int, h []int32) []int32 { return h[:4*(7-min(i, 7))/max(1, 7-i)] }, nil, keyindex.Summary{Entries: 28, Behind: 9}},
		{"a record left out", func(i int, h []int32) []int32 {
			if i == 4 {
				return nil
			}
			return h
		}, []error{keyindex.ErrMissingKey, keyindex.ErrMissingKey, keyindex.ErrMissingKey}, keyindex.Summary{Entries: 36, Damage: 3}},
		{"a key left out", func(i int, h []int32) []int32 {
			if i == 4 {
				return slices.Delete(h, 1, 2)
			}
			return h
		}, []error{keyindex.ErrMissingKey}, keyindex.Summary{Entries: 39, Damage: 1}},
		{"the last key left out", func(i int, h []int32) []int32 {
			if i == 4 {
				return h[:2]
			}
			return h
		}, []error{keyindex.ErrMissingKey}, keyindex.Summary{Entries: 38, Damage: 1}},
		{"a key too much", func(i int, h []int32) []int32 {
			if i == 4 {
				return append(h, 4711)
			}
			return h
		}, []error{keyindex.ErrWrongKey}, keyindex.Summary{Entries: 41, Damage: 1}},
	} {
		dir := all(func(b *keyindex.Builder, i int, h []int32, at, store int64) {
			for _, h := range c.put(i, h) {
				b.Add(h, at, store)
			}
		})
		sum, bad := check(t, open(t, dir, keyindex.Options{Slots: 7}), l)
		c.want.Files, c.want.Records = 1, 10
		if sum != c.want || !slices.EqualFunc(bad, c.kinds, func(e *message.DamageError, k error) bool { return errors.Is(e, k) }) {
			t.Errorf("%s: %+v %v, want %+v", c.name, sum, bad, c.want)
		}
	}
	for _, c := range []struct {
		name string
		at   func(i int, at int64) int64
		kind error
	}{
		{"no such record", func(i int, at int64) int64 { return at + int64(i/5*(9-i)/4%2) }, keyindex.ErrNoRecord},
		{"the log was cut", func(i int, at int64) int64 { return at + int64(i/9)*1000 }, keyindex.ErrNoRecord},
	} {
		dir := all(func(b *keyindex.Builder, i int, h []int32, at, store int64) {
			for _, h := range h {
				b.Add(h, c.at(i, at), store)
			}
		})
		if _, bad := check(t, open(t, dir, keyindex.Options{Slots: 7}), l); !slices.ContainsFunc(bad, func(e *message.DamageError) bool { return errors.Is(e, c.kind) }) {
			t.Errorf("%s: %v", c.name, bad)
		}
	}
}

func TestCheckerMisuse(t *testing.T) {
	l, layout := smallStore(t)
	dir := build(l, layout.Slots, layout.Entries, false).write(t, t.TempDir())
	x := open(t, dir, keyindex.Options{Slots: layout.Slots})
	c, err := x.NewChecker(func(e *message.DamageError) { t.Error(e) })
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range l.offsets {
		v := l.views[at]
		c.Record(&v)
		c.Record(&v) // once too often
	}
	if sum, err := c.Finish(); err == nil || sum.Records != int64(len(l.offsets)) {
		t.Errorf("%+v, %v", sum, err)
	}
	c.Close()
	c.Close()
	// An empty log says nothing against an index.
	c, _ = x.NewChecker(func(e *message.DamageError) { t.Error(e) })
	if sum, err := c.Finish(); err != nil || sum.Below != 13 {
		t.Errorf("%+v, %v", sum, err)
	}
	// A check that is given up, or whose files vanish, holds nothing.
	c, _ = x.NewChecker(func(e *message.DamageError) { t.Error(e) })
	v := l.views[0]
	c.Record(&v)
	c.Close()
	if _, err := c.Finish(); err != nil {
		t.Error(err)
	}
	c, _ = x.NewChecker(func(e *message.DamageError) { t.Error(e) })
	os.Remove(filepath.Join(dir, name(0)))
	c.Record(&v)
	if sum, err := c.Finish(); err != nil || sum.Files != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		for _, fd := range fds {
			if p, _ := os.Readlink("/proc/self/fd/" + fd.Name()); bytes.HasPrefix([]byte(p), []byte(dir)) {
				t.Errorf("%s is open", p)
			}
		}
	}
}

// A header of zeros over a file that is full of keys, as a lost first page leaves it.
func TestCheckerLostHeader(t *testing.T) {
	l, layout := smallStore(t)
	image := build(l, layout.Slots, layout.Entries, false).files[0].Bytes()
	clear(image[:40])
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, name(0)), image)
	x := open(t, dir, keyindex.Options{Slots: layout.Slots})
	sum, bad := check(t, x, l)
	if len(bad) != 3 || !errors.Is(bad[0], keyindex.ErrSlot) || sum.Behind == 0 {
		t.Errorf("%+v %v", sum, bad)
	}
	if got, r := whole(t, x, l, keyindex.Query{Topic: "T", Key: "a"}); len(got) != 4 || r.Offsets != nil {
		t.Errorf("%v %+v", got, r)
	}
}
