package warmlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/storetest"
	"golang.org/x/sys/unix"
)

const mappingsVariable = "WARMLOG_CASE37_STORE"

// occupy makes mappings until the process has room for a few only.
func occupy(t *testing.T, leave int) {
	t.Helper()
	b, err := os.ReadFile("/proc/sys/vm/max_map_count")
	must(t, err)
	most := 0
	fmt.Sscan(string(b), &most)
	if most > 1<<17 {
		t.Skipf("vm.max_map_count is %d", most)
	}
	page := os.Getpagesize()
	region, err := unix.Mmap(-1, 0, (most+1)*page, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	must(t, err)
	maps, err := os.ReadFile("/proc/self/maps")
	must(t, err)
	have := bytes.Count(maps, []byte("\n"))
	for at := page; have+2 <= most-leave; at += 2 * page { // each page of another kind makes two more
		must(t, unix.Mprotect(region[at:at+page], unix.PROT_READ))
		have += 2
	}
}

// A process has hardly a mapping left. Files that are not in use give up theirs; where all are,
// the error says which limit it is, its value and what uses it; and when some are given back,
// all goes on. Only with WARMLOG_SCALE=1: the Go runtime may die of it, too.
func TestCase37Mappings(t *testing.T) {
	if raceDetector || os.Getenv("WARMLOG_SCALE") == "" {
		t.Skip("WARMLOG_SCALE=1 runs it, without the race detector, which needs mappings of its own")
	}
	const files, leave = 300, 60
	if dir := os.Getenv(mappingsVariable); dir != "" {
		mappingsChild(t, dir, files, leave)
		return
	}
	dir := t.TempDir()
	s := create(t, dir, warmlog.Options{SegmentSize: 4096})
	for n := range int64(2 * files) { // each in a segment of its own
		_, err := s.Append(context.Background(), storetest.Message("orders", int32(n/2), n%2, 3000))
		must(t, err)
	}
	must(t, s.Close())
	c := exec.Command(os.Args[0], "-test.run=^TestCase37Mappings$", "-test.v")
	c.Env = append(os.Environ(), mappingsVariable+"="+dir)
	out, err := c.CombinedOutput()
	switch s := string(out); {
	case strings.Contains(s, "--- SKIP"):
		t.Skip("skipped in the child")
	case err != nil && (strings.Contains(s, "fatal error: ") || strings.Contains(s, "pthread_create failed")):
		t.Skipf("the Go runtime found no mapping for itself: %.300s", s)
	}
	if err != nil {
		t.Fatalf("%v\n%.4000s", err, out)
	}
}

// mappingsChild is the process that runs out of mappings. The Go runtime needs some when its
// heap grows and for new threads, and dies without: it gets its heap and threads before.
func mappingsChild(t *testing.T, dir string, files, leave int) {
	ballast := make([]byte, 64<<20)
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	runtime.KeepAlive(ballast)
	ballast = nil
	runtime.GC()
	debug.SetGCPercent(-1)
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() { _ = unix.Nanosleep(&unix.Timespec{Nsec: 1e8}, nil) })
	}
	group.Wait()
	ctx := context.Background()
	occupy(t, leave)
	s, err := warmlog.Open(dir, warmlog.Options{})
	must(t, err)
	for id := range int32(files) {
		wholeQueue(t, s, "orders", id, 2)
	}
	if n := s.Stats().OpenFiles; n > leave {
		t.Errorf("%d files are mapped where there was room for %d", n, leave)
	}
	held := make([]getmessage.Batch, files)
	for id := range held {
		if err = s.Get(ctx, &getmessage.Request{Topic: "orders", QueueID: int32(id)}, &held[id]); err != nil {
			break
		}
	}
	if !errors.Is(err, warmlog.ErrLimit) || !strings.Contains(err.Error(), "vm.max_map_count is ") {
		t.Errorf("with %d files: %v", s.Stats().OpenFiles, err)
	}
	t.Log(err)
	for i := range held {
		held[i].Release()
	}
	for id := range int32(files) {
		wholeQueue(t, s, "orders", id, 2)
	}
	_, err = s.Append(ctx, crashMessage(0, 0))
	must(t, err)
	must(t, s.Dispatched(ctx))
	must(t, s.Close())
}
