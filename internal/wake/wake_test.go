package wake_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/warmlog/warmlog/internal/wake"
)

// No change is missed: a waiter that is asleep when the last change comes would sleep for ever.
func TestWaitersSeeEveryChange(t *testing.T) {
	const changes = 20_000
	var p wake.Point
	var n atomic.Int64
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for seen := int64(0); seen < changes; {
				if err := p.Wait(context.Background(), func() bool { return n.Load() > seen }); err != nil {
					t.Error(err)
					return
				}
				seen = n.Load()
			}
		})
	}
	for range changes {
		n.Add(1)
		p.Changed()
	}
	group.Wait()
}

func TestWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var p wake.Point
	if err := p.Wait(ctx, func() bool { return false }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := p.Wait(ctx, func() bool { return true }); err != nil {
		t.Error("what has come is not waited for:", err)
	}
}

func BenchmarkChangedWithoutWaiters(b *testing.B) {
	var p wake.Point
	for b.Loop() {
		p.Changed()
	}
}
