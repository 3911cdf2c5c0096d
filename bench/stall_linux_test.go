package bench

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/pagecache"
)

// BenchmarkStall measures what readers of cold data do to everybody else in the process: how late a
// timer of 200 µs is, and how long a pull of 32 messages that are in memory takes, while 8 consumers
// pull at random from a log of which nothing is. The floor is the same without them.
func BenchmarkStall(b *testing.B) {
	hot := build(b, hotLog, hotNumQ, hotSeg)
	cold := build(b, coldLog, 1, hotSeg)
	store := hot.open(b)
	backlog, err := warmlog.Open(cold.dir, warmlog.Options{ReadOnly: true, CheckBytes: -1})
	check(b, err)
	b.Cleanup(func() { backlog.Close() })
	c := coldFloor{b: b, p: pagecache.NewProber(pagecache.ProberOptions{Dir: work})}
	c.open(cold.dir)

	p := &puller{store: store, req: request(32), next: order(hot, "sequential", 32, 0)}
	p.run(b, 40_000) // what is in memory is known from now on
	measure := func() (timers, pulls []float64) {
		for range 2000 {
			began := time.Now()
			time.Sleep(200 * time.Microsecond)
			timers = append(timers, float64(time.Since(began)-200*time.Microsecond))
			for range 10 {
				began = time.Now()
				p.run(b, 1)
				pulls = append(pulls, float64(time.Since(began)))
			}
		}
		slices.Sort(timers)
		slices.Sort(pulls)
		return timers, pulls
	}
	timers0, pulls0 := measure()
	c.evict()
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for i := range 8 {
		readers.Go(func() {
			r := &puller{store: backlog, req: request(8), next: order(cold, "random", 8, uint64(i))}
			for {
				select {
				case <-stop:
					return
				default:
					r.run(b, 1)
				}
			}
		})
	}
	timers1, pulls1 := measure()
	close(stop)
	readers.Wait()
	at := func(v []float64, share float64) float64 { return v[int(share*float64(len(v)-1))] }
	report := func(name string, idle, busy []float64, share float64) {
		b.ReportMetric(at(busy, share), name+"-ns")
		b.ReportMetric(at(busy, share)/at(idle, share), name+"-x-idle")
	}
	report("late-p50", timers0, timers1, 0.5)
	report("late-p99", timers0, timers1, 0.99)
	report("hot-p50", pulls0, pulls1, 0.5)
	report("hot-p99.9", pulls0, pulls1, 0.999)
	b.ReportMetric(0, "ns/op")
}
