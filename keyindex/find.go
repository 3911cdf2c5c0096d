package keyindex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/warmlog/warmlog/message"
)

// Find looks up a key. The errors are an [ErrQuery], that of the context, that of listing
// the directory, and what records returned beyond an absent or damaged record. Everything
// that is wrong with single files is in the result.
//
// Files are not left out by their begin and end times: store times fall when a clock is
// set back, so these two bound nothing. Single entries are left out where their own
// seconds prove that the record lies outside the wanted time.
func (x *Index) Find(ctx context.Context, q Query, records Records) (Result, error) {
	empty, err := q.settle()
	if err != nil {
		return Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	if empty {
		return Result{SearchedFrom: q.LogMin}, nil
	}
	files, _, err := x.Files()
	if err != nil {
		return Result{}, err
	}
	s := &search{ctx: ctx, index: x, q: &q, records: records, hash: Hash(q.Topic, q.Key)}
	s.b = x.blocks.Get().(*block)
	defer x.blocks.Put(s.b)
	if err := s.run(files); err != nil {
		return Result{}, err
	}
	s.finish(files)
	return s.res, nil
}

// search is the state of one query.
type search struct {
	ctx     context.Context
	index   *Index
	q       *Query
	records Records
	hash    int32
	b       *block
	res     Result

	found []int64 // offsets of answers, newest first, at most q.Max+1
}

var (
	// errLimit ends a search that has used up what it may use.
	errLimit = errors.New("keyindex: limit of work")
	// errReplaced takes a file out of the answer that is not the one that was listed.
	errReplaced = errors.New("keyindex: the file was replaced meanwhile")
)

// run walks through the files, the newest first.
func (s *search) run(files []File) error {
	order := make([]*File, 0, len(files))
	for i := range files {
		if files[i].usable() {
			order = append(order, &files[i])
		}
	}
	slices.SortStableFunc(order, func(a, b *File) int { return cmp.Compare(b.Header.EndOffset, a.Header.EndOffset) })
	for i, f := range order {
		if f.Header.EndOffset < max(s.q.LogMin, s.floor()) {
			break // and so do all that follow
		}
		if f.Header.BeginOffset >= s.q.LogEnd {
			continue
		}
		if err := s.ctx.Err(); err != nil {
			return err
		}
		hits, err := s.file(f)
		// Not errors.As: damage of the log within another error is none of the index.
		if _, bad := err.(*message.DamageError); bad || err == errReplaced {
			f.Err = err
			continue
		}
		if s.res.Limited = err == errLimit; err != nil && !s.res.Limited {
			return err
		}
		s.merge(hits)
		if s.res.Limited {
			if i+1 < len(order) { // in files that overlap, more is missing
				s.res.SearchedFrom = max(s.res.SearchedFrom, order[i+1].Header.EndOffset+1)
			}
			break
		}
	}
	return nil
}

// floor is the offset below which no further answer is wanted.
func (s *search) floor() int64 {
	if len(s.found) <= s.q.Max {
		return 0
	}
	return s.found[s.q.Max]
}

// merge adds the answers of one file. Files follow each other in the log, as a rule, so
// that there is nothing to sort.
func (s *search) merge(hits []int64) {
	s.found = append(s.found, hits...)
	slices.SortFunc(s.found, func(a, b int64) int { return cmp.Compare(b, a) })
	s.found = s.found[:min(len(s.found), s.q.Max+1)]
}

// file walks through one chain of one file. A DamageError makes the file damaged; with
// errLimit the answers so far are good.
func (s *search) file(f *File) ([]int64, error) {
	fd, info, err := openFile(f.Path)
	if err != nil {
		return nil, &message.DamageError{File: f.Path, Err: err}
	}
	defer fd.Close()
	open := &file{path: f.Path, at: fd, layout: f.Layout}
	c := &chain{f: open, b: s.b, slot: s.hash % f.Layout.Slots}
	*s.b = block{buf: s.b.buf}
	// The slot first: a header that is read after it counts the slot's entry, or is just
	// about to.
	value, err := open.slot(c.slot)
	if err != nil {
		return nil, err
	}
	if c.head, err = s.same(f, open, info); err != nil {
		return nil, err
	}
	if err := c.start(value); err != nil {
		return nil, err
	}
	hits, err := s.walk(c)
	if _, bad := err.(*message.DamageError); bad {
		// Not if its end was cut off meanwhile.
		if now, e := open.header(); e == nil && now.Count < c.head.Count {
			return nil, errReplaced
		}
	}
	return hits, err
}

// same reads the header again and makes sure that the open file is still the one that was
// examined, or that one grown.
func (s *search) same(f *File, open *file, info os.FileInfo) (Header, error) {
	h, err := s.index.judge(filepath.Base(f.Path), open, info)
	if err != nil {
		return h, err
	}
	if open.layout != f.Layout || h.BeginOffset != f.Header.BeginOffset || h.Count < f.Header.Count || h.EndOffset < f.Header.EndOffset {
		return h, errReplaced
	}
	return h, nil
}

// walk goes down one chain and collects answers, newest first, that are not found yet.
func (s *search) walk(c *chain) (hits []int64, err error) {
	low := max(s.q.LogMin, s.floor())
	newer := 0        // of s.found lie above the entry, or at it
	read := int64(-1) // offset of the record that was read last: its keys are neighbours
	for newer+len(hits) <= s.q.Max {
		n, e, err := c.next()
		if err != nil {
			return nil, err
		}
		if n == 0 || e.Offset < low {
			break
		}
		if s.res.Steps == s.index.opt.MaxSteps {
			s.res.SearchedFrom = e.Offset + 1
			return hits, errLimit
		}
		if s.res.Steps++; s.res.Steps%256 == 0 && s.ctx.Err() != nil {
			return nil, s.ctx.Err()
		}
		for newer < len(s.found) && s.found[newer] >= e.Offset {
			newer++
		}
		known := e.Offset == read || newer > 0 && s.found[newer-1] == e.Offset
		if e.Hash != s.hash || e.Offset >= s.q.LogEnd || known {
			continue
		}
		if lo, hi := c.head.storeTimes(n, e); hi < s.q.From || lo > s.q.To {
			continue
		}
		if s.res.Reads == s.index.opt.MaxReads {
			s.res.SearchedFrom = e.Offset + 1
			return hits, errLimit
		}
		s.res.Reads++
		read = e.Offset
		ok, err := s.compare(c, n, &e)
		if err != nil {
			return nil, err
		}
		if ok {
			hits = append(hits, e.Offset)
		}
	}
	return hits, nil
}

// compare reads the record that an entry names.
func (s *search) compare(c *chain, n int32, e *Entry) (bool, error) {
	if err := s.ctx.Err(); err != nil {
		return false, err
	}
	v, err := s.records.Record(e.Offset)
	switch {
	case errors.Is(err, ErrGone):
		s.res.Gone++
		return false, nil
	case errors.Is(err, message.ErrDamaged):
		return false, c.f.damage(c.f.layout.EntryAt(n)+4, ErrNoRecord, "entry %d names %d: %w", n, e.Offset, err)
	case err != nil:
		return false, fmt.Errorf("keyindex: record at %d: %w", e.Offset, err)
	case v.Size() == 0 || v.PhysicalOffset() != e.Offset:
		return false, c.f.damage(c.f.layout.EntryAt(n)+4, ErrNoRecord, "entry %d names %d", n, e.Offset)
	}
	if n > 1 && e.Seconds != Seconds(c.head.BeginTimestamp, v.StoreTimestamp()) {
		return false, c.f.damage(c.f.layout.EntryAt(n)+12, ErrTime, "entry %d says %d s, the record at %d has %d ms", n, e.Seconds, e.Offset, v.StoreTimestamp())
	}
	if s.q.Matches(&v) {
		return true, nil
	}
	// Another time, or another key or a tag of the same hash; or else the entry is wrong.
	if !slices.Contains(KeyHashes(nil, &v, true), s.hash) {
		return false, c.f.damage(c.f.layout.EntryAt(n), ErrWrongKey, "entry %d, record at %d", n, e.Offset)
	}
	return false, nil
}

// finish turns what was found into the result.
func (s *search) finish(files []File) {
	r := &s.res
	r.SearchedFrom = max(r.SearchedFrom, s.q.LogMin)
	if len(s.found) > s.q.Max {
		s.found = s.found[:s.q.Max]
		r.More = true
		r.SearchedFrom = max(r.SearchedFrom, s.found[len(s.found)-1])
	}
	slices.Reverse(s.found)
	r.Offsets = s.found
	r.Uncovered = uncovered(files, s.q.LogMin, s.q.LogEnd)
	for i := range files {
		var bad *message.DamageError
		if errors.As(files[i].Err, &bad) && !errors.Is(bad, fs.ErrNotExist) {
			r.Damaged = append(r.Damaged, bad)
		}
	}
}
