package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/message"
)

// A store that is opened while another one writes it waits as long as it was told, and for no
// longer than its context lasts; it says for whom.
func TestCase69WaitForTheLock(t *testing.T) {
	dir := t.TempDir()
	first := create(t, dir, warmlog.Options{})
	holder := fmt.Sprintf("process %d on ", os.Getpid())
	_, err := warmlog.Open(dir, warmlog.Options{})
	if !errors.Is(err, warmlog.ErrInUse) || !strings.Contains(err.Error(), holder) {
		t.Errorf("no wait: %v", err)
	}
	_, err = warmlog.Open(dir, warmlog.Options{LockWait: 10 * time.Millisecond})
	if !errors.Is(err, warmlog.ErrInUse) || !strings.Contains(err.Error(), holder) || !strings.Contains(err.Error(), "waited 10ms") {
		t.Errorf("a short wait: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	_, err = warmlog.OpenContext(ctx, dir, warmlog.Options{LockWait: time.Hour, Progress: func(warmlog.Progress) { cancel() }})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, warmlog.ErrInUse) {
		t.Errorf("a wait that ends: %v", err)
	}
	waits := make(chan string, 1)
	opened := make(chan *warmlog.Store)
	go func() {
		s, err := warmlog.Open(dir, warmlog.Options{LockWait: time.Hour, Progress: func(p warmlog.Progress) {
			select {
			case waits <- p.Phase:
			default:
			}
		}})
		if err != nil {
			t.Error(err)
		}
		opened <- s
	}()
	if phase := <-waits; !strings.Contains(phase, holder) {
		t.Error(phase)
	}
	must(t, first.Close())
	second := <-opened
	putMessages(t, second, "orders", 0, 0, 1)
	must(t, second.Close())
}

// Close is bounded by its context, and says what it waits for: here for a callback of an append
// that does not return. The store is then marked as one that was not closed, until it was.
func TestCase69CloseIsBounded(t *testing.T) {
	dir := t.TempDir()
	var steps []string
	s := create(t, dir, warmlog.Options{Durability: warmlog.Flushed, Closing: func(step string) { steps = append(steps, step) }})
	called, release := make(chan struct{}), make(chan struct{})
	s.AppendAsync(storetest.Message("orders", 0, 0, 100), warmlog.StoreDefault, func(_ warmlog.Appended, err error) {
		if err != nil {
			t.Error(err)
		}
		close(called)
		<-release
	})
	<-called
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.CloseContext(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "what runs in the background") {
		t.Errorf("close: %v", err)
	}
	await(t, "what goes on in the background", func() bool {
		all := make([]byte, 1<<20)
		return strings.Contains(string(all[:runtime.Stack(all, true)]), "sync.(*WaitGroup).Wait")
	})
	if _, err := os.Stat(layout.Store(dir).Abort()); err != nil {
		t.Errorf("marked as closed: %v", err)
	}
	if _, err := s.Append(context.Background(), &message.Message{Topic: "orders"}); !errors.Is(err, warmlog.ErrClosed) {
		t.Error(err)
	}
	close(release)
	after, err := warmlog.Open(dir, warmlog.Options{LockWait: time.Hour}) // it goes on being closed
	must(t, err)
	if info, err := after.Inspect(context.Background()); err != nil || !info.Clean {
		t.Errorf("not closed in order: %v", err)
	}
	must(t, after.Close())
	for _, want := range []string{"background", "under way", "the log, ", "queues and index"} {
		if !slices.ContainsFunc(steps, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("no %q in %q", want, steps)
		}
	}
}
