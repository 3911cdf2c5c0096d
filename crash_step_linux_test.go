package warmlog_test

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// killAfter runs a child and kills it after the n-th system call, counted over all its threads,
// by which it changes or syncs a file of its store. It returns how many there were: fewer than n
// if the child has ended by itself. (strace counts the calls of each thread for itself.)
func (j *journal) killAfter(t *testing.T, p plan, n int) (calls int) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // who starts a child is its tracer; the thread ends with this goroutine
		c := j.startWith(t, p, &syscall.SysProcAttr{Ptrace: true})
		tr := tracer{pid: c.Process.Pid, dir: p.Dir, entered: map[int]bool{}}
		if err := tr.run(n); err != nil {
			t.Errorf("trace: %v", err)
			_ = c.Process.Kill()
		}
		calls = tr.calls
		_ = c.Wait() // for its output; the tracer has taken its status
		<-j.ended
		c.complain(j)
	}()
	<-done
	return calls
}

// tracer follows the threads of a child from system call to system call.
type tracer struct {
	pid     int
	dir     string
	calls   int
	entered map[int]bool // threads that are in a call which counts
}

// syscallInfo is the kernel's struct ptrace_syscall_info, as far as it is needed here.
type syscallInfo struct {
	op   uint8
	_    [3]uint8
	arch uint32
	ip   uint64
	sp   uint64
	nr   uint64
	args [6]uint64
	_    [8]uint64
}

func (tr *tracer) run(n int) error {
	var ws unix.WaitStatus
	if _, err := unix.Wait4(tr.pid, &ws, unix.WALL, nil); err != nil { // stopped behind its exec
		return err
	}
	if err := unix.PtraceSetOptions(tr.pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL); err != nil {
		return err
	}
	thread, signal := tr.pid, 0
	for {
		if err := unix.PtraceSyscall(thread, signal); err != nil && err != unix.ESRCH {
			return err
		}
		var err error
		for thread, err = unix.Wait4(-1, &ws, unix.WALL|unix.WNOTHREAD, nil); err == unix.EINTR; {
			thread, err = unix.Wait4(-1, &ws, unix.WALL|unix.WNOTHREAD, nil)
		}
		switch signal = 0; {
		case err != nil:
			return err
		case !ws.Stopped():
			if thread == tr.pid {
				return nil
			}
		case ws.StopSignal() == unix.SIGTRAP|0x80:
			if tr.stop(thread) && tr.calls == n {
				_ = unix.Kill(tr.pid, unix.SIGKILL)
			}
		case ws.StopSignal() != unix.SIGTRAP && ws.StopSignal() != unix.SIGSTOP: // else of the tracing
			signal = int(ws.StopSignal())
		}
	}
}

// stop looks at a thread that enters or leaves a system call, and reports whether it leaves one
// that counts.
func (tr *tracer) stop(thread int) (counts bool) {
	var info syscallInfo
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(thread), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	switch {
	case errno != 0:
		return false
	case info.op == unix.PTRACE_SYSCALL_INFO_ENTRY:
		tr.entered[thread] = strings.HasPrefix(tr.changes(&info), tr.dir)
		return false
	}
	if counts = tr.entered[thread]; counts {
		tr.calls++
	}
	tr.entered[thread] = false
	return counts
}

// changes returns the file that a call changes or syncs, if it is one that does so.
func (tr *tracer) changes(info *syscallInfo) string {
	switch info.nr {
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE, unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNCFS, unix.SYS_SENDFILE:
		return tr.open(info.args[0])
	case unix.SYS_COPY_FILE_RANGE:
		return tr.open(info.args[2])
	case unix.SYS_MKDIRAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		return tr.path(info)
	case unix.SYS_OPENAT:
		if info.args[2]&unix.O_CREAT != 0 {
			return tr.path(info)
		}
	}
	return ""
}

// open returns the name of an open file.
func (tr *tracer) open(fd uint64) string {
	name, _ := os.Readlink("/proc/" + strconv.Itoa(tr.pid) + "/fd/" + strconv.Itoa(int(int32(fd))))
	return name
}

// path returns the file that a call names by a directory and a path.
func (tr *tracer) path(info *syscallInfo) string {
	mem, err := os.Open("/proc/" + strconv.Itoa(tr.pid) + "/mem")
	if err != nil {
		return ""
	}
	defer mem.Close()
	b := make([]byte, 4096)
	n, _ := mem.ReadAt(b, int64(info.args[1]))
	name, _, _ := bytes.Cut(b[:n], []byte{0})
	if len(name) > 0 && name[0] == '/' {
		return string(name)
	}
	return tr.open(info.args[0]) + "/" + string(name)
}
