package warmlog_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// strace skips a test where system calls cannot be made to fail.
func strace(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("system calls cannot be made to fail:", err)
	}
	if out, err := exec.Command(path, "-f", "-e", "inject=sync:error=EIO", "true").CombinedOutput(); err != nil {
		t.Skipf("strace is refused: %v: %s", err, out)
	}
	return path
}

// failing are system calls that are made to fail, once in each thread.
var failing = []struct {
	call, errno string
	mode        string // "written", "flushed", or both where it is empty
	latches     bool   // nothing is appended afterwards
	silent      bool   // may be met by what is prepared in the background, and be told by nobody
	under       string // only for files below this directory of the store
	most        int    // the highest call that fails; 0: 8
}{
	{call: "fdatasync", errno: "EIO", latches: true},
	{call: "fdatasync", errno: "ENOSPC", latches: true},
	{call: "fsync", errno: "EIO", most: 12},
	{call: "pwrite64", errno: "EIO", mode: "flushed", most: 30},
	{call: "pwrite64", errno: "ENOSPC", most: 30},
	{call: "fallocate", errno: "ENOSPC", silent: true, most: 16},
	{call: "fallocate", errno: "EIO", silent: true, most: 16},
	{call: "renameat", errno: "EIO"},
	{call: "ftruncate", errno: "EIO", silent: true},
	{call: "openat", errno: "EMFILE", silent: true, most: 120},
	{call: "unlinkat", errno: "EIO", silent: true, most: 4},
	{call: "mkdirat", errno: "ENOSPC", silent: true, most: 4},
}

// Every system call of the write path fails once: the error is told, a failed sync is the end
// of all appends, and what was acknowledged is there.
func TestCrashFailingCalls(t *testing.T) {
	path := strace(t)
	rng := chance(t)
	for _, row := range failing {
		for _, mode := range []string{"written", "flushed"} {
			if row.mode != "" && row.mode != mode {
				continue
			}
			rng := rand.New(rand.NewPCG(rng.Uint64(), 0)) // for one goroutine
			t.Run(fmt.Sprintf("%s %s %s", row.call, row.errno, mode), func(t *testing.T) {
				t.Parallel() // it mostly waits for the disk
				most := row.most
				if most == 0 {
					most = 8
				}
				for range rounds(1) {
					when := 1 + rng.IntN(most)
					p := plan{Dir: t.TempDir(), Flushed: mode == "flushed", Messages: 60, Pause: 300}
					if row.call == "pwrite64" { // a crowd: some ask for a sync just when another fails
						p.Queues, p.Messages, p.Pause = 48, 40, 0
					}
					log := filepath.Join(t.TempDir(), "strace")
					var j journal
					c := j.start(t, p, path, "-f", "--seccomp-bpf", "-y", "-o", log, "-e", "trace="+row.call,
						"-e", fmt.Sprintf("inject=%s:error=%s:when=%d", row.call, row.errno, when))
					if err := j.finish(c); err != nil {
						t.Errorf("call %d: the child: %v\n%.6000s", when, err, c.output.String())
					}
					b, err := os.ReadFile(log)
					must(t, err)
					injected := storeCalls(string(b), p.Dir)
					t.Logf("call %d: %d failed, %d acknowledged, told %.300q", when, len(injected), len(j.told(false)), j.errors)
					if len(injected) > 0 && len(j.errors) == 0 && !row.silent {
						t.Errorf("call %d failed, and nobody was told: %s", when, injected)
					}
					if len(injected) > 0 && row.latches && !strings.Contains(strings.Join(j.errors, "\n"), "takes no more appends") {
						t.Errorf("call %d failed, and the log goes on: %q after %s", when, j.errors, injected)
					}
					reopen(t, p, j.told(false))
					if t.Failed() {
						t.Fatalf("calls: %s", injected)
					}
				}
			})
		}
	}
}

// storeCalls returns the calls in a log of strace that were made to fail and concern a store.
func storeCalls(log, dir string) (calls []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "(INJECTED)") && strings.Contains(line, dir) {
			calls = append(calls, strings.TrimSpace(line))
		}
	}
	return calls
}
