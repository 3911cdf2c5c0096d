package pagecache

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync/atomic"
)

// pageSize is the system's, in bytes: 4, 16 or 64 KiB.
var pageSize = int64(os.Getpagesize())

// ErrRange says that there cannot be such a range of a file, or not of its mapping.
var ErrRange = errors.New("no such range")

// ProberOptions says what to try the methods on. At least one of Dir and File is needed for
// an answer other than unknown.
type ProberOptions struct {
	// Dir is a directory on the store's file system in which a file of 16 pages can be made
	// and removed again.
	Dir string
	// File is a file of the store that stands for all of them. Where Dir is set and can be
	// written only the right to ask about File is looked at. Else the methods are tried on
	// File: where all of its first three quarters are in memory, or nothing, up to 16 pages at
	// a third of it are evicted and, if they were there, read back. So it should not be the
	// file at the end of the log.
	File string
	// Unnamed makes the file in Dir without a name, so that Dir is not changed, and never tries
	// the methods on File, of which only the right to ask is looked at: for who must not touch
	// the store. Where the file system has no files without a name nothing is believed.
	Unnamed bool
	// Methods are those that may be used; 0 means all.
	Methods Method
}

// Prober asks the kernel which pages of a file are in memory, by the methods that it found to
// tell the truth. It does not change once made.
type Prober struct {
	findings []Finding
	believed Method
	// noDontCache says that this kernel or file system has no RWF_DONTCACHE.
	noDontCache atomic.Bool
}

// NewProber finds out which methods can be believed for files of a store. It always returns
// a prober: what goes wrong is in the findings, and a prober that can believe nothing answers
// that it does not know. It writes and syncs at most 16 pages, and leaves nothing behind.
func NewProber(o ProberOptions) *Prober {
	p := &Prober{findings: try(o)}
	for _, f := range p.findings {
		if f.Believed {
			p.believed |= f.Method
		}
	}
	return p
}

// Findings returns what was found out about each method.
func (p *Prober) Findings() []Finding { return append([]Finding(nil), p.findings...) }

// Method returns the methods that are believed, 0 if there are none.
func (p *Prober) Method() Method { return p.believed }

// String returns the findings: "cachestat: believed; mincore: not believed: not to be used".
func (p *Prober) String() string {
	var all []string
	for _, f := range p.findings {
		all = append(all, f.String())
	}
	return strings.Join(all, "; ")
}

// Count is an answer about the pages of a range.
type Count struct {
	Pages    int64  // of the range, rounded out to whole pages
	Resident int64  // of them in memory; pages beyond the file's end are not
	Method   Method // that said so; 0: nobody knows, and Resident means nothing
}

// Known says whether the kernel gave an answer that can be believed.
func (c Count) Known() bool { return c.Method != 0 }

// All says whether every page is known to be in memory, as those of an empty range are.
func (c Count) All() bool { return c.Known() && c.Resident == c.Pages }

// Resident counts the pages of the n bytes from off on of a file that are in memory, with one
// system call, and touches none of them. Up to 256 pages it allocates nothing.
//
// mapping is the file mapped from its beginning, or nil. Where mincore has to be asked and
// there is none, one is made of the range and given back. The caller keeps file and mapping
// open meanwhile. They may be shortened: no page is touched.
//
// An answer that is not known comes without an error where the methods are not believed, or
// the kernel does not tell about this file. The error is [ErrRange] with file and offset, or
// that of a system call.
func (p *Prober) Resident(f *os.File, mapping []byte, off, n int64) (Count, error) {
	first, pages, err := span(f, mapping, off, n)
	if err != nil {
		return Count{}, err
	}
	c := Count{Pages: pages, Method: p.first()}
	if c.Method == 0 || pages == 0 {
		return c, nil
	}
	if c.Method == Cachestat {
		c.Resident, err = cachestat(f, first, pages)
	} else {
		c.Resident, err = mincore(f, mapping, first, pages, nil)
	}
	if err != nil {
		return Count{Pages: pages}, unanswered("residency", f, off, err)
	}
	return c, nil
}

// first is the method that a count is taken by.
func (p *Prober) first() Method {
	if p.believed&Cachestat != 0 {
		return Cachestat
	}
	return p.believed
}

// unanswered is the error of a system call that did not say what is in memory. That the
// kernel does not tell is none: not of a file of somebody else's, or (by a filter) any more.
func unanswered(what string, f *os.File, off int64, err error) error {
	if notTold(err) {
		return nil
	}
	return fmt.Errorf("%s of %s at %d: %w", what, f.Name(), off, err)
}

// span returns the pages of a range.
func span(f *os.File, mapping []byte, off, n int64) (first, pages int64, err error) {
	if off < 0 || n < 0 || off > math.MaxInt64-n-pageSize {
		return 0, 0, fmt.Errorf("%s: %d bytes at %d: %w", f.Name(), n, off, ErrRange)
	}
	if n == 0 {
		return off / pageSize, 0, nil
	}
	first = off / pageSize
	pages = (off+n+pageSize-1)/pageSize - first
	if mapping != nil && first+pages > (int64(len(mapping))+pageSize-1)/pageSize {
		return 0, 0, fmt.Errorf("%s: %d bytes at %d, mapped are %d: %w", f.Name(), n, off, len(mapping), ErrRange)
	}
	return first, pages, nil
}
