package pagecache

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// tryPages are how many pages a method is tried on: more than one, since a page can be in
// use, and few, since they may be somebody's.
const tryPages = 16

// try finds out what may be believed.
//
//	Dir    write, sync ─────────────┐
//	File   some in memory, not all? ─ no ┐     yes: a method that says so is no constant
//	                                read them      who says that they are absent lies
//	                                evict them     who says that they are in memory lies, if
//	                                               anybody else sees them gone
func try(o ProberOptions) []Finding {
	if o.Methods == 0 {
		o.Methods = Cachestat | Mincore
	}
	list, err := tryDir(o)
	if err != nil && o.Unnamed {
		return nothing(o.Methods, err)
	}
	if err != nil {
		if fromFile, errFile := tryFile(o); errFile == nil {
			return fromFile
		} else if o.Dir == "" {
			err = errFile
		}
		return nothing(o.Methods, err)
	}
	if o.File == "" {
		return list
	}
	// A method that tells the truth of a file of our own need not do so of other people's.
	for i, f := range list {
		if f.Believed {
			if err := mayAskOf(f.Method, o.File); err != nil {
				list[i] = Finding{Method: f.Method, Err: err}
			}
		}
	}
	return list
}

// mayAskOf is mayAsk of a file that is not open.
func mayAskOf(m Method, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return mayAsk(m, f)
}

// nothing finds that nothing can be believed.
func nothing(allowed Method, err error) []Finding {
	var list []Finding
	for _, m := range methods {
		if m&allowed == 0 {
			list = append(list, Finding{Method: m, Err: ErrNotTried})
		} else {
			list = append(list, Finding{Method: m, Err: err})
		}
	}
	return list
}

var errNothingToTry = errors.New("there is nothing to try it on")

// tryDir tries the methods on a file that it makes.
func tryDir(o ProberOptions) ([]Finding, error) {
	if o.Dir == "" {
		return nil, errNothingToTry
	}
	f, err := newTried(o)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Not zeros, for which some file systems keep no pages.
	if _, err := f.Write(bytes.Repeat([]byte("warmlog\n"), tryPages*int(pageSize)/8)); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil { // dirty pages cannot be evicted
		return nil, err
	}
	return newTrial(f, 0, tryPages).run(o.Methods), nil
}

// newTried makes the file that the methods are tried on, which nobody finds by a name.
func newTried(o ProberOptions) (*os.File, error) {
	if o.Unnamed {
		return unnamed(o.Dir)
	}
	f, err := os.CreateTemp(o.Dir, "residency-*.tmp")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil { // now, so that a crash leaves nothing behind
		f.Close()
		return nil, err
	}
	return f, nil
}

// tryFile tries the methods on a file of the store.
func tryFile(o ProberOptions) ([]Finding, error) {
	if o.File == "" {
		return nil, errNothingToTry
	}
	f, err := os.Open(o.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	pages := st.Size() / pageSize
	if !st.Mode().IsRegular() || pages < 4 {
		return nil, fmt.Errorf("%s: %w", o.File, errNothingToTry)
	}
	noReadAhead(f) // or looking at a page would bring in its neighbours
	t := newTrial(f, pages/3, min(tryPages, pages/3))
	t.survey = pages - pages/4
	return t.run(o.Methods), nil
}

// trial tries the methods on a range of a file.
type trial struct {
	file         *os.File
	first, pages int64 // what may be evicted
	survey       int64 // pages of the file to look at before; 0: it is known that nothing is missing
	count        func(m Method, first, pages int64) (int64, error)
	absent       func(page int64) bool
}

func newTrial(f *os.File, first, pages int64) *trial {
	return &trial{file: f, first: first, pages: pages,
		count: func(m Method, first, pages int64) (int64, error) {
			if m == Cachestat {
				return cachestat(f, first, pages)
			}
			return mincore(f, nil, first, pages, nil)
		},
		absent: func(page int64) bool { return seenAbsent(f, page) }}
}

// said is what one method said of the trial's pages.
type said struct {
	mixed                 bool  // of the survey: both absent and in memory
	before, read, evicted int64 // how many are in memory
	err                   error
}

func (t *trial) run(allowed Method) []Finding {
	all := make([]said, len(methods))
	open := 0 // how many are not decided yet
	for i, m := range methods {
		s := &all[i]
		if m&allowed == 0 {
			s.err = ErrNotTried
			continue
		}
		if s.before, s.err = t.count(m, t.first, t.pages); s.err == nil && t.survey > 0 {
			var n int64
			n, s.err = t.count(m, 0, t.survey)
			s.mixed = n > 0 && n < t.survey
		}
		if s.err == nil && !s.mixed {
			open++
		}
	}
	gone := false
	if open > 0 {
		gone = t.evict(all)
	}
	list := make([]Finding, len(methods))
	for i, m := range methods {
		list[i] = all[i].finding(m, t.pages, gone, func() error { return mayAsk(m, t.file) })
	}
	return list
}

// evict reads the pages, evicts them, notes what the methods say to each, and puts things
// back as they were. It reports whether anybody saw that the pages went.
func (t *trial) evict(all []said) (gone bool) {
	// Without a method that can be believed this has to do. It errs on the side of reading
	// pages back that were not there, rather than evicting those that were.
	had := !t.missing()
	for range 3 { // a page that went may be back before it is looked for
		if gone = t.round(all); gone {
			break
		}
	}
	for _, s := range all {
		if s.err == nil && s.read == t.pages && s.evicted < t.pages {
			had = s.before > 0
			break
		}
	}
	_ = t.read() // also as a page that is on its way cannot be dropped
	if !had {
		t.drop()
	}
	return gone
}

func (t *trial) round(all []said) (gone bool) {
	ask := func(what func(*said) *int64) {
		for i, m := range methods {
			if s := &all[i]; s.err == nil {
				*what(s), s.err = t.count(m, t.first, t.pages)
			}
		}
	}
	if err := t.read(); err != nil {
		for i := range all {
			all[i].err = errors.Join(all[i].err, err)
		}
		return false
	}
	ask(func(s *said) *int64 { return &s.read })
	t.drop()
	ask(func(s *said) *int64 { return &s.evicted })
	for _, s := range all {
		gone = gone || s.err == nil && s.read == t.pages && s.evicted < t.pages
	}
	return gone || t.missing()
}

func (t *trial) read() error {
	_, err := io.ReadFull(io.NewSectionReader(t.file, t.first*pageSize, t.pages*pageSize), make([]byte, t.pages*pageSize))
	return err
}

func (t *trial) drop() {
	Drop(t.file, [][2]int64{{t.first * pageSize, (t.first + t.pages) * pageSize}})
}

// missing says whether a page of the range was seen to be absent by who is told the truth. It
// brings the pages in up to that one, and may not see any: they arrive fast.
func (t *trial) missing() bool {
	for page := t.first; page < t.first+t.pages; page++ {
		if t.absent(page) {
			return true
		}
	}
	return false
}

// finding judges what a method said. Where pages could not be evicted the method's contract
// has to do, of which right tells whether this process may ask.
func (s said) finding(m Method, pages int64, gone bool, right func() error) Finding {
	f := Finding{Method: m, Err: s.err}
	switch {
	case s.err != nil:
	case s.mixed:
		f.Believed = true
	case s.read < pages:
		f.Err = ErrReadAbsent
	case s.evicted < pages:
		f.Believed = true
	case gone:
		f.Err = ErrEvictedResident
	default:
		f.Err = right()
		if f.Believed = f.Err == nil; f.Believed {
			f.Err = ErrCannotTell
		}
	}
	return f
}
