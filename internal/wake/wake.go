package wake

import (
	"context"
	"sync"
	"sync/atomic"
)

// Point is where goroutines wait. The zero value is ready. All methods may be called
// concurrently.
type Point struct {
	waited  atomic.Bool // somebody waits, or has waited since the last Changed
	mu      sync.Mutex
	changed chan struct{} // closed by Changed; guarded by mu
}

// Changed wakes all who wait: they look again whether what they wait for has come.
func (p *Point) Changed() {
	if !p.waited.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waited.Store(false)
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// Wait returns when come reports true, or with the error of ctx. come is called by this
// goroutine: once, and again after each change.
func (p *Point) Wait(ctx context.Context, come func() bool) error {
	for !come() {
		p.mu.Lock()
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
		p.waited.Store(true)
		p.mu.Unlock()
		if come() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
