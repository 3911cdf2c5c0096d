//go:build !(linux && amd64)

package tsc

// invariant: there is no counter that is known to be safe; the clock is used.
const invariant = false

func ticks() int64 { return 0 }
