// Package tsc takes cheap time stamps for measuring short latencies on hot paths, where
// time.Now twice per operation would be seen in the result.
//
//	s := tsc.Now()
//	...
//	took := tsc.Since(s)
//
// On linux/amd64 with an invariant time stamp counter (CPUID 0x80000007, EDX bit 8) a
// stamp is that counter, read without ordering against the loads and stores around it.
// Elsewhere it is the monotonic clock, at the price of time.Now. The counter file is the
// only one that knows who reads the register.
//
// Stamps are for measuring, not for ordering: a stamp of one CPU can lie tens of
// nanoseconds before one that happened earlier on another, and more where the kernel
// distrusts the counter. A negative duration is returned as 0. A stamp means nothing
// outside its process.
//
// The package may touch the counter and the clock. It opens no file, holds no lock, starts
// no goroutine and allocates nothing; everything in it may be called concurrently.
//
// # What importing costs
//
// This package's own initialization reads clock and counter a few times, about 1 µs. That
// of github.com/loov/hrtime, which it imports on linux/amd64 only, calls each of them 1,024
// times to learn what a call costs: measured 0.08 to 0.12 ms. Nothing is calibrated then:
// see scale.go.
package tsc
