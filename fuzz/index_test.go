package fuzz_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

// The shape of an input of FuzzIndexFile: bits.
const (
	indexStore  = 0x1
	indexSecond = 0x2  // there is a second file
	indexPatch  = 0x4  // the bytes are changes to right files: 2 bytes for where, 1 to xor
	indexAbort  = 0x8  // the store was not stopped in order
	indexRaw    = 0x10 // the second file is not of the size of the first
	indexWindow = 0x20 // from and to are times near those of the log; else as they are
	indexAsk    = 6    // by this many bits to the left: 2 bits, which of the questions
)

var indexNames = []string{"20231114221320123", "20231114221320999"}

// indexedStore is a store of which the index files are written again and again.
type indexedStore struct {
	dir   string
	log   *madeLog
	files fileSet
	right [2][]byte // right files
	// written is what the files hold now.
	written [2][]byte
}

func newIndexedStores(f *testing.F) (all []*indexedStore) {
	for i, l := range []*madeLog{smallLog(0, 0), smallLog(2048, 6)} {
		s := &indexedStore{dir: f.TempDir(), log: l, files: fileSet{}}
		l.write(f, s.files, s.dir)
		l.writeQueues(f, s.files, s.dir, entriesPerFile, queueName{})
		// Room for about half of the keys in the first file.
		b := keyindex.NewBuilder(keyindex.Layout{Slots: 5, Entries: 20}, nil)
		file := 0
		for j := range l.records {
			rec := &l.records[j]
			v, err := message.Decode(rec.raw)
			if err != nil {
				f.Fatal(err)
			}
			for _, hash := range keyindex.KeyHashes(nil, &v, i == 1) {
				if !b.Add(hash, rec.pos, rec.store) {
					s.right[file] = bytes.Clone(b.Bytes())
					full := b.Header()
					b = keyindex.NewBuilder(keyindex.Layout{Slots: 5, Entries: 20}, &full)
					if file++; file == 2 {
						b = keyindex.NewBuilder(keyindex.Layout{Slots: 5, Entries: 20}, nil)
						file = 1
					}
					b.Add(hash, rec.pos, rec.store)
				}
			}
		}
		s.right[file] = bytes.Clone(b.Bytes())
		all = append(all, s)
	}
	return all
}

// FuzzIndexFile gives any bytes as index files. What is found has the key. What has the key
// is found, unless the index lies: then comparing it with the log must show it.
func FuzzIndexFile(f *testing.F) {
	stores := newIndexedStores(f)
	for i, s := range stores {
		shape := uint8(i)
		f.Add(s.right[0], s.right[1], shape|indexSecond, int64(0), int64(0), 0)
		f.Add(s.right[0], s.right[1], shape, int64(0), int64(0), 3)
		f.Add(s.right[1], []byte{}, shape|indexSecond|indexRaw, int64(5), int64(9), 1)
		f.Add([]byte{}, []byte{}, shape|indexSecond|indexPatch|indexWindow, int64(5), int64(9000), 2)
		for _, at := range []byte{3, 15, 23, 31, 35, 39, 43, 47, 60 + 3, 60 + 20 + 3, 60 + 20 + 11, 60 + 20 + 15, 60 + 20 + 19} {
			f.Add([]byte{0, at, 1}, []byte{0, at, 0x80}, shape|indexSecond|indexPatch, int64(0), int64(0), 0)
		}
	}
	for _, b := range seedFiles(f, 6000, "store/index/*") {
		f.Add(b, b[:400], uint8(indexSecond), int64(0), int64(0), 64)
	}
	f.Fuzz(func(t *testing.T, a, b []byte, shape uint8, from, to int64, most int) {
		defer watch(hangs)()
		s := stores[int(shape&indexStore)]
		s.prepare(t, [2][]byte{a, b}, shape)
		if shape&indexWindow != 0 {
			first := s.log.records[0].store
			from, to = first+from%20000, first+to%20000
		}
		s.check(t, shape, from, to, most)
	})
}

func (s *indexedStore) prepare(t *testing.T, content [2][]byte, shape uint8) {
	t.Helper()
	for i, name := range indexNames {
		path := filepath.Join(s.dir, "index", name)
		b := content[i]
		if shape&indexPatch != 0 {
			image := bytes.Clone(s.right[i])
			for ; len(b) >= 3; b = b[3:] {
				image[int(binary.BigEndian.Uint16(b))%len(image)] ^= b[2]
			}
			b = image
		}
		switch {
		case i == 1 && shape&indexSecond == 0:
			s.files.remove(t, path)
			s.written[i] = nil
			continue
		case i == 1 && shape&indexRaw == 0 && shape&indexPatch == 0:
			b = append(bytes.Clone(b[:min(len(b), len(content[0]))]), make([]byte, max(0, len(content[0])-len(b)))...)
		}
		s.files.write(t, path, b)
		s.written[i] = b
	}
	if abort := filepath.Join(s.dir, "abort"); shape&indexAbort != 0 {
		s.files.write(t, abort, nil)
	} else {
		s.files.remove(t, abort)
	}
}

func (s *indexedStore) check(t *testing.T, shape uint8, from, to int64, most int) {
	t.Helper()
	ctx := context.Background()
	index, err := keyindex.Open(filepath.Join(s.dir, "index"), keyindex.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sum, reported := s.compare(t, index)
	if (sum.Damage > 0) != (reported > 0) || int64(reported) > sum.Damage {
		t.Fatalf("%d damages, %d reported", sum.Damage, reported)
	}
	// An index that says the same as the log must answer as the log does.
	lies := sum.Damage > 0
	store, err := openStore(s.dir, warmlog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	q := questions[int(uint(shape)>>indexAsk+uint(uint8(most))*4)%len(questions)]
	for _, window := range [][2]int64{{0, 0}, {from, to}} {
		q.From, q.To, q.Max = window[0], window[1], most
		s.ask(t, store, index, q, lies)
	}
	if most == 0 {
		if _, err := store.Verify(ctx, func(d *message.DamageError) {}); err != nil {
			t.Fatal(err)
		}
	}
}

var questions = []warmlog.KeyQuery{{Topic: "T", Key: "k"}, {Topic: "T", Key: "Aa"}, {Topic: "U", Key: "k"}, {Topic: "T", Key: "t"},
	{Topic: "T", Key: "u3"}, {Topic: "T", Key: "BB"}, {Topic: "T", Key: "T#tag"}, {Topic: "none", Key: "k"}}

// compare compares the index with the log, by its own Checker.
func (s *indexedStore) compare(t *testing.T, index *keyindex.Index) (keyindex.Summary, int) {
	t.Helper()
	reported := 0
	c, err := index.NewChecker(func(d *message.DamageError) {
		if !isDamage(d) {
			t.Fatalf("reported: %v", d)
		}
		reported++
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.log.records {
		v, err := message.Decode(s.log.records[i].raw)
		if err != nil {
			t.Fatal(err)
		}
		c.Record(&v)
	}
	sum, err := c.Finish()
	if err != nil || sum.Records != int64(len(s.log.records)) {
		t.Fatalf("%+v, %v", sum, err)
	}
	return sum, reported
}

// having returns where the records with a key lie, in ascending order.
func (s *indexedStore) having(q *warmlog.KeyQuery) (all []int64) {
	for i := range s.log.records {
		m := &s.log.records[i]
		if m.topic == q.Topic && slices.Contains(m.keys, q.Key) && m.store >= q.From && (m.store <= q.To || q.To == 0) {
			all = append(all, m.pos)
		}
	}
	return all
}

func (s *indexedStore) ask(t *testing.T, store *warmlog.Store, index *keyindex.Index, q warmlog.KeyQuery, lies bool) {
	t.Helper()
	ctx := context.Background()
	all := s.having(&q)
	limit := q.Max
	if limit == 0 {
		limit = 64
	}
	direct, err := index.Find(ctx, keyindex.Query{Topic: q.Topic, Key: q.Key, From: q.From, To: q.To, Max: q.Max, LogMin: s.log.base, LogEnd: s.log.end}, s)
	if q.Max < 0 {
		if _, err2 := store.FindByKey(ctx, q); !errors.Is(err, keyindex.ErrQuery) || !errors.Is(err2, keyindex.ErrQuery) {
			t.Fatalf("limit %d: %v, %v", q.Max, err, err2)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	sound(t, &q, direct.Offsets, all, limit)
	s.checkCover(t, &q, &direct, all, lies)

	found, err := store.FindByKey(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	sound(t, &q, found.Offsets, all, limit)
	if want := all[max(0, len(all)-limit):]; !lies && (!slices.Equal(found.Offsets, want) || found.More != (len(all) > limit)) {
		t.Fatalf("%+v: %v, more %v; the log has %v", q, found.Offsets, found.More, all)
	}
}

// sound checks that an answer has nothing that was not asked for.
func sound(t *testing.T, q *warmlog.KeyQuery, got, all []int64, limit int) {
	t.Helper()
	if len(got) > limit {
		t.Fatalf("%+v: %d answers", *q, len(got))
	}
	for i, off := range got {
		if !slices.Contains(all, off) || i > 0 && got[i-1] >= off {
			t.Fatalf("%+v: %v; the log has %v", *q, got, all)
		}
	}
}

// checkCover checks that what the index says it cannot speak for is within the log, and that
// the rest of its answer is whole.
func (s *indexedStore) checkCover(t *testing.T, q *warmlog.KeyQuery, r *keyindex.Result, all []int64, lies bool) {
	t.Helper()
	at := s.log.base
	for i, gap := range r.Uncovered {
		if gap.From < at || gap.To <= gap.From || gap.To > s.log.end || i > 0 && gap.From == at {
			t.Fatalf("%+v: not covered are %v of %d to %d", *q, r.Uncovered, s.log.base, s.log.end)
		}
		at = gap.To
	}
	keys := 0
	for _, b := range s.written {
		if len(b) >= keyindex.HeaderSize {
			keys += int(keyindex.ParseHeader(b).Keys())
		}
	}
	if r.Limited || r.Steps > keys || r.Reads > r.Steps {
		t.Fatalf("%+v: %d steps and %d reads over %d keys", *q, r.Steps, r.Reads, keys)
	}
	if r.SearchedFrom < s.log.base || !r.More && !r.Limited && r.SearchedFrom != s.log.base {
		t.Fatalf("%+v: %+v", *q, r)
	}
	for _, off := range all {
		inGap := slices.ContainsFunc(r.Uncovered, func(gap keyindex.Range) bool { return off >= gap.From && off < gap.To })
		if !lies && !inGap && off >= r.SearchedFrom && !slices.Contains(r.Offsets, off) {
			t.Fatalf("%+v: %+v lacks %d; the log has %v", *q, r, off, all)
		}
	}
}

// Record gives the index the records of the log.
func (s *indexedStore) Record(off int64) (message.View, error) {
	if off < s.log.base || off >= s.log.end {
		return message.View{}, keyindex.ErrGone
	}
	i := slices.IndexFunc(s.log.records, func(m made) bool { return m.pos == off })
	if i < 0 {
		return message.View{}, &message.DamageError{File: "log", Offset: off, Err: message.ErrMagic}
	}
	return message.Decode(s.log.records[i].raw)
}
