package tsc

import (
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("WARMLOG_TSC_EARLY") != "" {
		early()
		return
	}
	goleak.VerifyTestMain(m)
}

func TestMonotonic(t *testing.T) {
	last := Now()
	for i := range 1_000_000 {
		now := Now()
		if now < last {
			t.Fatalf("reading %d: %d after %d", i, now, last)
		}
		last = now
	}
}

// Between CPUs the counter may be a little off, the doc says; not by 100 µs.
func TestMonotonicAcrossGoroutines(t *testing.T) {
	there, back := make(chan Stamp), make(chan Stamp)
	go func() {
		defer close(back)
		for range there {
			back <- Now()
		}
	}()
	defer func() {
		close(there)
		<-back
	}()
	for range 20_000 {
		a := Now()
		there <- a
		b := <-back
		c := Now()
		if a.Sub(b) > 100*time.Microsecond || b.Sub(c) > 100*time.Microsecond {
			t.Fatalf("%d, %d, %d: went back by %v, %v", a, b, c, a.Sub(b), b.Sub(c))
		}
	}
}

// outside checks a duration against two of time.Since, one that lies within it and one
// that it lies within: being interrupted anywhere only widens the gap. 2 % allow for a
// clock that is being slewed.
func outside(d, inner, outer time.Duration) bool {
	const slack = 2 * time.Microsecond
	return d < inner-inner/50-slack || d > outer+outer/50+slack
}

func TestAgreesWithTimeSince(t *testing.T) {
	for _, sleep := range []time.Duration{0, 50 * time.Microsecond, time.Millisecond, 100 * time.Millisecond} {
		before := time.Now()
		s := Now()
		after := time.Now()
		time.Sleep(sleep)
		inner := time.Since(after)
		d := Since(s)
		outer := time.Since(before)
		if outside(d, inner, outer) {
			t.Errorf("sleep %v: %v, by time.Since between %v and %v", sleep, d, inner, outer)
		}
	}
}

// early asks for durations as soon as the process begins, before the scale is settled.
func early() {
	for range 300 {
		before := time.Now()
		s := Now()
		after := time.Now()
		for time.Since(after) < 50*time.Microsecond {
		}
		inner := time.Since(after)
		d := Since(s)
		if outer := time.Since(before); outside(d, inner, outer) {
			println("early:", d, "by time.Since between", inner, "and", outer)
			os.Exit(1)
		}
	}
	if invariant && scale.Load() == 0 {
		println("not settled after", time.Since(epoch))
		os.Exit(1)
	}
	os.Exit(0)
}

func TestEarly(t *testing.T) {
	for range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "WARMLOG_TSC_EARLY=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

func TestSubNeverNegative(t *testing.T) {
	a := Now()
	time.Sleep(time.Millisecond)
	if d := a.Sub(Now()); d != 0 {
		t.Errorf("from later to earlier: %v", d)
	}
	if d := a.Sub(a); d != 0 {
		t.Errorf("from itself: %v", d)
	}
}

func TestConcurrent(t *testing.T) {
	scale.Store(0) // as in a young process
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				if s := Now(); Since(s) > time.Minute {
					t.Error("a minute passed")
				}
			}
		})
	}
	wg.Wait()
}

func TestNoAllocation(t *testing.T) {
	if n := testing.AllocsPerRun(1000, func() { Since(Now()) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}

func BenchmarkTimeNow(b *testing.B) {
	for b.Loop() {
		time.Now()
	}
}

func BenchmarkNowSince(b *testing.B) {
	for b.Loop() {
		Since(Now())
	}
}

func BenchmarkTimeNowSince(b *testing.B) {
	for b.Loop() {
		time.Since(time.Now())
	}
}
