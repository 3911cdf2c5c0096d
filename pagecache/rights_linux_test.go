package pagecache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// residency is what a child says about a file.
type residency struct {
	Prober string
	Method Method
	Count  Count // of the first 60 pages
	Raw    [2]string
	Err    string
}

// kept is a prober that a child made earlier.
var kept *Prober

// look is the child's part:
//
//	keep DIR         make a prober
//	kept FILE        what it says
//	own DIR FILE     what a prober says that tries the methods on a file of its own
//	file FILE        what a prober says that tries them on the file
//	filter ERRNO     let cachestat fail with that from now on
func look(word, arg string) (r residency, err error) {
	var p *Prober
	path := arg
	switch word {
	case "keep":
		kept = NewProber(ProberOptions{Dir: arg})
		return residency{Prober: kept.String(), Method: kept.Method()}, nil
	case "filter":
		var errno int
		if _, err := fmt.Sscan(arg, &errno); err != nil {
			return r, err
		}
		return r, failCachestat(errno)
	case "kept":
		p = kept
	case "own":
		dir, file, _ := strings.Cut(arg, " ")
		p, path = NewProber(ProberOptions{Dir: dir, File: file}), file
	case "file":
		p = NewProber(ProberOptions{File: arg})
	default:
		return r, fmt.Errorf("what is %q?", word)
	}
	f, err := os.Open(path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	r.Prober, r.Method = p.String(), p.Method()
	if r.Count, err = p.Resident(f, nil, 0, 60*pageSize); err != nil {
		r.Err = err.Error()
	}
	n, err := mincore(f, nil, 0, 60, nil)
	r.Raw[1] = fmt.Sprint(n, " ", err)
	n, err = cachestat(f, 0, 60)
	r.Raw[0] = fmt.Sprint(n, " ", err)
	return r, nil
}

// failCachestat installs a filter of system calls in all threads of this process.
func failCachestat(errno int) error {
	runtime.LockOSThread() // both calls have to be of one thread
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	const loadNumber, equal, ret = 0x20, 0x15, 0x06 // BPF: ld [0]; jeq; ret
	filter := []unix.SockFilter{
		{Code: loadNumber},
		{Code: equal, Jf: 1, K: unix.SYS_CACHESTAT},
		{Code: ret, K: 0x00050000 | uint32(errno)}, // SECCOMP_RET_ERRNO
		{Code: ret, K: 0x7fff0000},                 // SECCOMP_RET_ALLOW
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	const setFilter, allThreads = 1, 1
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, setFilter, allThreads, uintptr(unsafe.Pointer(&program))); e != 0 {
		return e
	}
	return nil
}

// A process that may not write the file: mincore lies to it, cachestat refuses (or, before
// that rule came, tells the truth). Its prober knows, whatever it is tried on.
func TestProberOfOtherPeoplesFile(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become a user without rights")
	}
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	f := newFile(t, dir, 120)
	warm(t, f, 3)
	public := filepath.Join(dir, "public")
	must(t, os.Mkdir(public, 0o777))
	must(t, os.Chmod(public, 0o777))
	c := startChild(t)
	before := c.look("file %s", f.Name())
	if !before.Count.Known() || before.Count.Resident != 1 {
		t.Errorf("as root: %+v", before)
	}
	c.ask("keep %s", public)
	c.ask("nobody")
	for _, question := range []string{"file " + f.Name(), "own " + public + " " + f.Name()} {
		r := c.look("%s", question)
		t.Log(r.Prober)
		if r.Raw[1] != "60 <nil>" {
			t.Skip("mincore does not lie here: ", r.Raw[1])
		}
		if r.Method&Mincore != 0 || !strings.Contains(r.Prober, "mincore: not believed") {
			t.Errorf("%s: %s: mincore says that %s of 60 pages are in memory, 1 is", question, r.Prober, r.Raw[1])
		}
		if r.Count.Known() && r.Count.Resident != 1 || r.Err != "" || r.Count.Known() != (r.Method != 0) {
			t.Errorf("%s: %+v", question, r)
		}
	}
	// A prober of another time or place, that was right then: EPERM is no answer.
	if r := c.look("kept %s", f.Name()); strings.Contains(r.Raw[0], unix.EPERM.Error()) && r.Count.Known() || r.Count.All() {
		t.Errorf("%+v", r)
	}
	// Of the pages that were evicted to try it nobody could tell whether they had been there.
	is := truth(t, f)
	if clear(is[40:56]); in(is) != 1 || !is[3] {
		t.Errorf("%d pages are in memory, 1 was", in(is))
	}
}

// Where cachestat is missing or barred mincore answers, but not in its place when a prober
// that believed cachestat is refused.
func TestCachestatFails(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ENOSYS, unix.EPERM} {
		t.Run(errno.Error(), func(t *testing.T) {
			dir := t.TempDir()
			f := newFile(t, dir, 120)
			warm(t, f, 3)
			c := startChild(t)
			if r := c.look("keep %s", dir); r.Method&Cachestat == 0 {
				t.Skip("cachestat is not to be had here: ", r.Prober)
			}
			c.ask("filter %d", errno)
			for _, question := range []string{"file " + f.Name(), "own " + dir + " " + f.Name()} {
				r := c.look("%s", question)
				if want := (Count{60, 1, Mincore}); r.Count != want || !strings.Contains(r.Prober, "cachestat: not believed: "+errno.Error()) {
					t.Errorf("%+v", r)
				}
			}
			if r := c.look("kept %s", f.Name()); r.Count != (Count{Pages: 60}) || r.Err != "" {
				t.Errorf("refused since: %+v", r)
			}
		})
	}
}

// look asks the child about residency.
func (c *child) look(format string, args ...any) residency {
	c.t.Helper()
	return c.ask(format, args...).Residency
}

// The error that a file cannot be asked about names it.
func TestErrorNamesFileAndOffset(t *testing.T) {
	f := newFile(t, t.TempDir(), 1)
	if err := unanswered("residency", f, 4096, unix.ENOMEM); !errors.Is(err, unix.ENOMEM) || !strings.Contains(err.Error(), f.Name()+" at 4096") {
		t.Error(err)
	}
	for _, silent := range []error{unix.EPERM, unix.ENOSYS, unix.EOPNOTSUPP, os.NewSyscallError("mincore", unix.EACCES)} {
		if err := unanswered("residency", f, 0, silent); err != nil {
			t.Error(err)
		}
	}
}
