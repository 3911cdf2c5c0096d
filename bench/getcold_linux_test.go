package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/pagecache"
)

const (
	coldLog   = 256 << 20
	coldPulls = 200 // in a round
)

// BenchmarkGetCold pulls from a log of 256 MiB of which nothing is in memory, which the kernel
// confirms before each round. The floor reads the same bytes of the segments by pread. Batches are
// of 32 messages with the limits of what is on disk raised to that, or of 8 by default.
func BenchmarkGetCold(b *testing.B) {
	s := build(b, coldLog, 1, hotSeg)
	for _, batch := range []int{32, 8} {
		for _, name := range []string{"random", "sequential"} {
			b.Run(fmt.Sprintf("batch=%d/order=%s", batch, name), func(b *testing.B) {
				store, err := warmlog.Open(s.dir, warmlog.Options{ReadOnly: true, CheckBytes: -1,
					Limits: getmessage.Limits{DiskMessages: batch, DiskBytes: int64(batch) * 8 << 10}})
				check(b, err)
				b.Cleanup(func() { store.Close() })
				c := coldFloor{b: b, p: pagecache.NewProber(pagecache.ProberOptions{Dir: work})}
				c.open(s.dir)
				p := &puller{store: store, req: request(batch)}
				var offs []int64
				var engines, floors, ratios []float64
				var asked, read int64
				for round := range 11 {
					next := order(s, name, batch, uint64(round))
					offs = offs[:0]
					for range coldPulls {
						_, off := next()
						offs = append(offs, off)
					}
					i := 0
					p.next = func() (int, int64) { i++; return 0, offs[i-1] }
					c.evict()
					before := deviceBytes(b)
					began := time.Now()
					p.run(b, coldPulls)
					e := time.Since(began)
					read += deviceBytes(b) - before
					c.evict()
					began = time.Now()
					for _, off := range offs {
						asked += c.read(off, batch)
					}
					f := time.Since(began)
					if round > 0 {
						engines, floors = append(engines, float64(e.Nanoseconds())/coldPulls), append(floors, float64(f.Nanoseconds())/coldPulls)
						ratios = append(ratios, float64(e)/float64(f))
					}
				}
				b.ReportMetric(median(engines), "ns/op")
				b.ReportMetric(median(floors), "floor-ns/op")
				b.ReportMetric(median(ratios), "x-floor")
				b.ReportMetric(float64(read)/float64(asked), "read/asked")
			})
		}
	}
}

// coldFloor reads records of one queue, all of one size, by pread.
type coldFloor struct {
	b     testing.TB
	p     *pagecache.Prober
	files []*os.File
	size  int64 // of a record
	buf   []byte
}

func (c *coldFloor) open(dir string) {
	names, err := filepath.Glob(filepath.Join(layout.Store(dir).CommitLog(), "*"))
	check(c.b, err)
	queues, err := filepath.Glob(filepath.Join(layout.Store(dir).ConsumeQueue(), "*", "*", "*"))
	check(c.b, err)
	for _, name := range append(names, queues...) {
		f, err := os.Open(name)
		check(c.b, err)
		c.b.Cleanup(func() { f.Close() })
		c.files = append(c.files, f)
	}
	head := make([]byte, 4)
	_, err = c.files[0].ReadAt(head, 0)
	check(c.b, err)
	c.size = int64(head[2])<<8 | int64(head[3])
}

func (c *coldFloor) read(off int64, batch int) int64 {
	per := hotSeg / c.size // records of a segment: each has room for a blank
	n := int64(batch) * c.size
	if int64(cap(c.buf)) < n {
		c.buf = make([]byte, n)
	}
	f, at := c.files[off/per], off%per*c.size
	got, err := f.ReadAt(c.buf[:min(n, hotSeg-at)], at)
	check(c.b, err)
	return int64(got)
}

// evict takes everything out of memory, and looks whether that is so.
func (c *coldFloor) evict() {
	for _, f := range c.files {
		st, err := f.Stat()
		check(c.b, err)
		left, err := c.p.Evict(f, nil, 0, st.Size(), true)
		check(c.b, err)
		if left.Resident > 0 {
			c.b.Skipf("%s: %d of %d pages cannot be evicted here", f.Name(), left.Resident, left.Pages)
		}
	}
}

// deviceBytes returns what this process has had read from devices.
func deviceBytes(b testing.TB) (n int64) {
	text, err := os.ReadFile("/proc/self/io")
	check(b, err)
	for line := range strings.Lines(string(text)) {
		fmt.Sscanf(line, "read_bytes: %d", &n)
	}
	return n
}
