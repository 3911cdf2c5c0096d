package bench

import (
	"slices"
	"testing"
	"time"
)

// alternate runs the engine's operation and its floor in turn, a round of each, and
// reports the median of each per operation and their ratio. ns/op is the engine's.
func alternate(b *testing.B, perOp int, engine, floor func(n int)) {
	b.Helper()
	const rounds = 21
	n := max(b.N/rounds, 1)
	var engines, floors, ratios []float64
	time1 := func(f func(int)) float64 {
		began := time.Now()
		f(n)
		return float64(time.Since(began).Nanoseconds()) / float64(n)
	}
	engine(n) // warm up: pages, branches, the batch's capacity
	floor(n)
	b.ResetTimer()
	for range rounds {
		f := time1(floor)
		e := time1(engine)
		engines, floors, ratios = append(engines, e), append(floors, f), append(ratios, e/f)
	}
	b.StopTimer()
	b.ReportMetric(median(engines), "ns/op")
	b.ReportMetric(median(floors), "floor-ns/op")
	b.ReportMetric(median(ratios), "x-floor")
	if perOp > 1 {
		b.ReportMetric(median(engines)/float64(perOp), "ns/msg")
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
