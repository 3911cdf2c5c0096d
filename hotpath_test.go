package warmlog_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/fixtures"
)

// hotPulls makes pulls all over a queue, as a consumer of what is in memory does.
func hotPulls(t testing.TB, store *warmlog.Store, batch *getmessage.Batch, n int) {
	ctx := context.Background()
	for i := range n {
		req := getmessage.Request{Group: "g", Topic: "orders", QueueID: int32(i % 4), Offset: int64(i % 20), MaxMessages: 32}
		if err := store.Get(ctx, &req, batch); err != nil || len(batch.Records()) == 0 {
			t.Fatal(err, batch.Status)
		}
		batch.Release()
	}
}

func TestHotGetAllocatesNothing(t *testing.T) {
	store := open(t, filepath.Join(fixtures.Unpack(t, "5.3.3-clean"), "store"), warmlog.Options{})
	var batch getmessage.Batch
	hotPulls(t, store, &batch, 100) // the batch grows to its size
	if n := testing.AllocsPerRun(200, func() { hotPulls(t, store, &batch, 20) }); n != 0 {
		t.Errorf("%v allocations in 20 pulls", n)
	}
}

const hotLoopEnv = "WARMLOG_TEST_HOT_LOOP"

// TestHotLoopChild is the child of TestHotGetMakesNoSystemCall.
func TestHotLoopChild(t *testing.T) {
	dir := os.Getenv(hotLoopEnv)
	if dir == "" {
		t.Skip("only a child runs this")
	}
	runtime.LockOSThread() // one thread to look at
	store := open(t, dir, warmlog.Options{})
	var batch getmessage.Batch
	hotPulls(t, store, &batch, 1000)
	// Marks in the trace, without the scheduler, which would wake others.
	syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
	hotPulls(t, store, &batch, 20000)
	syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
}

func TestHotGetMakesNoSystemCall(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes system calls of its own")
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed:", err)
	}
	dir := filepath.Join(fixtures.Unpack(t, "5.3.3-clean"), "store")
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command(strace, "-f", "-o", trace, os.Args[0], "-test.run=^TestHotLoopChild$")
	// The runtime's own signals and collections are not the engine's calls.
	cmd.Env = append(os.Environ(), hotLoopEnv+"="+dir, "GODEBUG=asyncpreemptoff=1", "GOGC=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "ptrace") {
			t.Skipf("tracing is not allowed here: %s", out)
		}
		t.Fatalf("%v: %s", err, out)
	}
	f, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	thread, marks := "", 0
	var between []string
	futexes := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		id, call, _ := strings.Cut(s.Text(), " ")
		call = strings.TrimSpace(call)
		if strings.HasPrefix(call, "getppid(") {
			thread = id
			marks++
			continue
		}
		// The Go runtime wakes its own threads now and then, with a futex; the engine has no
		// reason to. The rest of a call that was cut in two is not another call.
		if marks == 1 && id == thread && !strings.HasPrefix(call, "<...") && !strings.HasPrefix(call, "futex(") {
			between = append(between, call)
		}
		if marks == 1 && id == thread && strings.HasPrefix(call, "futex(") {
			futexes++
		}
	}
	if marks != 2 {
		t.Fatalf("%d marks in the trace", marks)
	}
	if futexes > 200 {
		t.Errorf("%d futex calls in 20000 pulls: more than the runtime's own", futexes)
	}
	if len(between) != 0 {
		t.Errorf("%d system calls in 20000 pulls: %s", len(between), fmt.Sprint(between[:min(len(between), 5)]))
	}
}
