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

// yard is a floor with a name of its own.
type yard struct {
	name string
	run  func(n int)
}

// compare is alternate with several floors.
func compare(b *testing.B, engine func(n int), floors ...yard) {
	b.Helper()
	const rounds = 11
	n := max(b.N/rounds, 1)
	time1 := func(f func(int)) float64 {
		began := time.Now()
		f(n)
		return float64(time.Since(began).Nanoseconds()) / float64(n)
	}
	var own []float64
	times, ratios := make([][]float64, len(floors)), make([][]float64, len(floors))
	b.ResetTimer()
	for range rounds {
		e := time1(engine)
		own = append(own, e)
		for i, f := range floors {
			t := time1(f.run)
			times[i], ratios[i] = append(times[i], t), append(ratios[i], e/t)
		}
	}
	b.StopTimer()
	b.ReportMetric(median(own), "ns/op")
	for i, f := range floors {
		b.ReportMetric(median(times[i]), f.name+"-ns/op")
		b.ReportMetric(median(ratios[i]), "x-"+f.name)
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
