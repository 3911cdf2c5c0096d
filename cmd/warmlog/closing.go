package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// defaultGrace is a little less than what container runtimes give before they kill.
const defaultGrace = 9 * time.Second

// errAbandoned ends a command while a part of it still runs: nothing of it may be touched.
var errAbandoned = errors.New("not ended in order")

// ending bounds how long a command takes to end when it was told to, and says what it waits
// for.
type ending struct {
	app   *app
	grace time.Duration

	mu   sync.Mutex
	told bool   // it is to end
	step string // what it waits for
}

// waiting says what is waited for from now on. It is that of warmlog.Options.Closing.
func (e *ending) waiting(step string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.step = step
	if e.told {
		e.say()
	}
}

// say tells what is waited for. mu is held.
func (e *ending) say() { printf(e.app.err, "note: ending: waiting for %s\n", e.step) }

// run runs do. When ctx ends, do has so much more time to return; what it has not done then is
// left as a crash leaves it, and the error says what it was.
func (e *ending) run(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	e.mu.Lock()
	e.told = true
	e.say()
	e.mu.Unlock()
	over := time.NewTimer(e.grace)
	defer over.Stop()
	select {
	case err := <-done:
		return err
	case <-over.C:
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return fmt.Errorf("%w within %v: it waits for %s; the next start finds what is not done, as after a crash", errAbandoned, e.grace, e.step)
}
