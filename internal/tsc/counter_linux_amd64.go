package tsc

import "github.com/loov/hrtime"

// invariant says that the counter runs at one rate on all CPUs, asleep or not.
var invariant = hrtime.TSCSupported()

// ticks reads the counter (RDTSC). github.com/dgryski/go-tsc was meant to stand here; the
// module proxy does not serve it. To swap it in, change this line.
func ticks() int64 { return int64(hrtime.TSC()) }
