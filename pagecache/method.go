package pagecache

import (
	"errors"
	"strings"
)

// Method is a way to ask the kernel which pages of a file are in memory; ORed, a set of them.
// The zero Method is none: unknown.
type Method uint8

const (
	// Cachestat is cachestat(2), of Linux 6.5: a number per range, which needs no mapping. A
	// process that may not write the file is refused. It counts pages that are just being read
	// as in memory.
	Cachestat Method = 1 << iota
	// Mincore is mincore(2): a byte per page of a mapping, of pages that are read in whole. A
	// process that neither owns nor may write the file is told that everything is in memory,
	// since Linux 5.2.
	Mincore
)

// methods are those that there are, the preferred one first.
var methods = [...]Method{Cachestat, Mincore}

// String returns for example "cachestat", "cachestat or mincore", "unknown".
func (m Method) String() string {
	var names []string
	if m&Cachestat != 0 {
		names = append(names, "cachestat")
	}
	if m&Mincore != 0 {
		names = append(names, "mincore")
	}
	if names == nil {
		return "unknown"
	}
	return strings.Join(names, " or ")
}

// What may be said against believing a method. Beside these a Finding has the error of a
// system call: ENOSYS of an old kernel, EPERM of one that does not tell this process.
var (
	// ErrEvictedResident says that a method does not notice when pages leave memory.
	ErrEvictedResident = errors.New("says that evicted pages are in memory")
	// ErrReadAbsent says that a method does not notice when pages come into memory, as
	// cachestat does not on overlayfs.
	ErrReadAbsent = errors.New("says that pages just read are not in memory")
	// ErrNoRight says that mincore tells this process nothing of the file: it may not write it.
	ErrNoRight = errors.New("tells those who may not write the file that all of it is in memory")
	// ErrCannotTell says that a method was never seen to call a page absent, because the pages
	// it was tried on could not be evicted: on tmpfs, or mapped by somebody. That is no lie.
	ErrCannotTell = errors.New("pages cannot be evicted here to try it")
	// ErrNotTried says that a method was left out by [ProberOptions].Methods.
	ErrNotTried = errors.New("not to be used")
)

// Finding is what a [Prober] found out about a method.
type Finding struct {
	Method Method
	// Believed says whether the method's answers are used.
	Believed bool
	// Err is why not; of a method that is believed nil or [ErrCannotTell].
	Err error
}

// String returns for example "mincore: not believed: says that evicted pages are in memory".
func (f Finding) String() string {
	switch {
	case f.Believed && f.Err != nil:
		return f.Method.String() + ": believed, though " + f.Err.Error()
	case f.Believed:
		return f.Method.String() + ": believed"
	default:
		return f.Method.String() + ": not believed: " + f.Err.Error()
	}
}
