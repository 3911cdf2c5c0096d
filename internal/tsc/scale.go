package tsc

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	// shortest is how far apart two readings must be before their ratio is used: a
	// reading is uncertain by some 50 ns.
	shortest = 100 * time.Microsecond
	// enough is when the ratio is good for the rest of the process.
	enough = 10 * time.Millisecond
)

var (
	epoch = time.Now()
	// base is the first of the two readings that make the scale; the second is taken when
	// a duration is first asked for. A process that asks for none pays nothing more.
	base = read()
	// scale is the settled ratio in ns per tick, as math.Float64bits; 0 until enough time
	// has passed. It never changes again.
	scale atomic.Uint64
)

// reading is counter and clock at one moment.
type reading struct {
	ticks int64
	at    time.Duration // since epoch
}

// read returns the sharpest of three readings: being interrupted between counter and
// clock would spoil one.
func read() reading {
	var best reading
	width := int64(math.MaxInt64)
	for range 3 {
		before := ticks()
		at := time.Since(epoch)
		if w := ticks() - before; w < width {
			best, width = reading{before + w/2, at}, w
		}
	}
	return best
}

// nanosPerTick returns the scale. Until it is settled a call takes a reading, and one in
// the first 100 µs of the process waits for their end.
func nanosPerTick() float64 {
	if bits := scale.Load(); bits != 0 {
		return math.Float64frombits(bits)
	}
	r := read()
	for r.at-base.at < shortest {
		r = read()
	}
	ratio := float64(r.at-base.at) / float64(max(1, r.ticks-base.ticks))
	if r.at-base.at >= enough {
		scale.Store(math.Float64bits(ratio))
	}
	return ratio
}
