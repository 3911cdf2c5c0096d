package warmlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/storetest"
)

// resident returns the most memory that this process has had resident, in bytes; file pages
// that are mapped count.
func resident(t testing.TB) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("the kernel does not say what is resident: ", err)
	}
	var kib int64
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			fmt.Sscan(rest, &kib)
		}
	}
	return kib << 10
}

// Many queues with a few messages each, in one process, and messages to any of them: memory
// stays small, and every message is there. WARMLOG_SCALE=1 makes it 100,000 queues.
func TestScaleQueues(t *testing.T) {
	queues, messages := 5_000, 20_000
	if os.Getenv("WARMLOG_SCALE") != "" {
		queues, messages = 100_000, 400_000
	}
	ctx := context.Background()
	dir := t.TempDir()
	before := resident(t)
	s, err := warmlog.Open(dir, warmlog.Options{QueueFileSize: 20 * 1000})
	must(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	next := make([]int64, queues)
	add := func(s *warmlog.Store, n int) {
		for i := range n {
			q := rng.IntN(queues)
			if i < queues && next[i] == 0 {
				q = i
			}
			m := storetest.Message(fmt.Sprint("topic", q%1000), int32(q/1000), next[q], 100)
			r, err := s.Append(ctx, m)
			if err != nil || r.QueueOffset != next[q] {
				t.Fatalf("queue %d: %+v, %v, want offset %d", q, r, err, next[q])
			}
			next[q]++
		}
		must(t, s.Dispatched(ctx))
	}
	add(s, messages)
	runtime.GC()
	t.Logf("%d queues: %d MiB", queues, (resident(t)-before)>>20)
	must(t, s.Close())
	s, err = warmlog.Open(dir, warmlog.Options{})
	must(t, err)
	add(s, messages/2)
	runtime.GC()
	if grown := resident(t) - before; grown > 1<<30 {
		t.Errorf("%d MiB are resident", grown>>20)
	} else {
		t.Logf("opened again: %d MiB", grown>>20)
	}
	for range 200 {
		q := rng.IntN(queues)
		wholeQueue(t, s, fmt.Sprint("topic", q%1000), int32(q/1000), next[q])
	}
	must(t, s.Close())
}

// A log of many large segments opens without a look into each.
func TestScaleSegments(t *testing.T) {
	dir := t.TempDir()
	const segments = 1024
	s := storetest.New(t, dir, storetest.Options{SegmentSize: 1 << 30}) // sparse: they take no room
	for range segments - 1 {
		s.Add("orders", 0, 100)
		s.Blank()
	}
	s.Add("orders", 0, 100)
	s.Close()
	c := cost(t, func() {
		store, err := warmlog.Open(dir, warmlog.Options{ReadOnly: true})
		must(t, err)
		store.Close()
	})
	t.Logf("opening read %d bytes in %d calls", c.bytes, c.calls)
	if c.calls > 100 || c.bytes > 1<<20 {
		t.Errorf("opening read %d bytes in %d calls for %d segments", c.bytes, c.calls, segments)
	}
}
