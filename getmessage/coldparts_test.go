package getmessage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
)

// What is lent has the length that was asked for, and comes back for the next of its size.
func TestBuffersSizes(t *testing.T) {
	for _, c := range []struct{ n, room int64 }{
		{-1, 4 << 10}, {0, 4 << 10}, {1, 4 << 10}, {4 << 10, 4 << 10}, {4<<10 + 1, 8 << 10},
		{64 << 10, 64 << 10}, {8<<20 - 1, 8 << 20}, {8 << 20, 8 << 20},
	} {
		p := newBuffers(0)
		b := p.get(int(c.n))
		if n := int64(len(b.bytes)); n != max(0, c.n) || int64(cap(b.bytes)) != n {
			t.Errorf("%d: %d bytes, capacity %d", c.n, n, cap(b.bytes))
		}
		if lent, kept := p.sizes(); lent != c.room || kept != 0 {
			t.Errorf("%d: %d lent, %d kept", c.n, lent, kept)
		}
		b.Release()
		if lent, kept := p.sizes(); lent != 0 || kept != c.room {
			t.Errorf("%d: %d lent, %d kept afterwards", c.n, lent, kept)
		}
		again := p.get(int(c.n))
		if len(b.bytes) > 0 && &again.bytes[0] != &b.bytes[0] {
			t.Errorf("%d: not used again", c.n)
		}
	}
	p := newBuffers(0)
	b := p.get(8<<20 + 1)
	if lent, _ := p.sizes(); lent != 8<<20+1 || len(b.bytes) != 8<<20+1 {
		t.Errorf("%d lent", lent)
	}
	b.Release()
	if lent, kept := p.sizes(); lent != 0 || kept != 0 {
		t.Errorf("%d lent, %d kept", lent, kept)
	}
}

// A reference is released once, however often Release is called; memory is when all are.
func TestBuffersReferences(t *testing.T) {
	p := newBuffers(0)
	first := p.get(100)
	first.bytes[0] = 'x'
	second := first.again()
	first.Release()
	first.Release()
	if first.again() != nil {
		t.Error("a released reference gives another")
	}
	if lent, kept := p.sizes(); lent != 4<<10 || kept != 0 {
		t.Errorf("%d lent, %d kept while there is a reference", lent, kept)
	}
	if second.bytes[0] != 'x' {
		t.Error("other memory")
	}
	second.Release()
	next := p.get(100)
	second.Release()
	first.Release()
	if other := p.get(100); &other.bytes[0] == &next.bytes[0] {
		t.Error("memory lent twice")
	}
	if lent, kept := p.sizes(); lent != 8<<10 || kept != 0 {
		t.Errorf("%d lent, %d kept", lent, kept)
	}
}

// Never more is kept than may be, and a size that is in use takes the place of one that is not.
func TestBuffersBound(t *testing.T) {
	const keep = 1 << 20
	lend := func(p *buffers, n, size int) {
		var all []*coldBuffer
		for range n {
			all = append(all, p.get(size))
		}
		for _, b := range all {
			b.Release()
		}
		if _, kept := p.sizes(); kept > keep {
			t.Errorf("%d bytes kept", kept)
		}
	}
	p := newBuffers(keep)
	lend(p, 1000, 64<<10)
	if _, kept := p.sizes(); kept != keep {
		t.Errorf("%d bytes kept of many", kept)
	}
	lend(p, 1, 512<<10)
	if n := len(p.free[7]); n != 1 {
		t.Errorf("%d large buffers kept", n)
	}
	lend(p, 1000, 4<<10)
	lend(p, 3, 8<<10)
	if n := len(p.free[1]); n != 3 {
		t.Errorf("%d of the last size kept", n)
	}
	lend(p, 1, 2<<20) // larger than what may be kept
	// Of two that are not in use the one that was asked for longer ago goes.
	p = newBuffers(keep)
	lend(p, 1, 512<<10)
	lend(p, 1, 256<<10)
	lend(p, 4, 128<<10)
	if large, small := len(p.free[7]), len(p.free[6]); large != 0 || small != 1 {
		t.Errorf("%d of the oldest kept, %d of the next", large, small)
	}
	if p = newBuffers(-1); p.get(1) == nil {
		t.Error("nothing lent")
	}
	lend(p, 10, 1)
	if _, kept := p.sizes(); kept != 0 {
		t.Errorf("%d bytes kept by who keeps nothing", kept)
	}
}

// Nobody's bytes change while he has them.
func TestBuffersConcurrently(t *testing.T) {
	p := newBuffers(64 << 10)
	var group sync.WaitGroup
	for id := range 8 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(id)))
			for range 2000 {
				b := p.get(1 + rng.IntN(20<<10))
				data := b.bytes
				data[0], data[len(data)-1] = byte(id), byte(id)
				other := b.again()
				var release sync.WaitGroup
				release.Go(b.Release)
				b.Release()
				if data[0] != byte(id) || data[len(data)-1] != byte(id) {
					t.Error("another has the same memory")
				}
				release.Wait()
				other.Release()
			}
		})
	}
	group.Wait()
	if lent, kept := p.sizes(); lent != 0 || kept > 64<<10 {
		t.Errorf("%d lent, %d kept", lent, kept)
	}
}

// step is a cold read and the window that it should have.
type step struct{ off, n, want int64 }

func TestWindows(t *testing.T) {
	const k = 1 << 10
	for name, steps := range map[string][]step{
		"sequential": {{0, 32 * k, 32 * k}, {32 * k, 32 * k, 64 * k}, {96 * k, 32 * k, 128 * k}, {224 * k, 32 * k, 256 * k},
			{480 * k, 32 * k, 512 * k}, {992 * k, 32 * k, 1024 * k}, {2016 * k, 32 * k, 1024 * k}},
		"a record cut, others' between": {{0, 64 * k, 64 * k}, {60 * k, 64 * k, 128 * k}, {200 * k, 64 * k, 256 * k}},
		"random":                        {{900 * k, 32 * k, 32 * k}, {100 * k, 32 * k, 32 * k}, {5000 * k, 20 * k, 20 * k}, {0, 1, 1}},
		"jumps":                         {{0, 64 * k, 64 * k}, {64 * k, 64 * k, 128 * k}, {500 * k, 64 * k, 64 * k}, {564 * k, 64 * k, 128 * k}},
		"backwards":                     {{640 * k, 64 * k, 64 * k}, {576 * k, 64 * k, 64 * k}, {512 * k, 64 * k, 64 * k}},
		"again":                         {{0, 64 * k, 64 * k}, {64 * k, 64 * k, 128 * k}, {64 * k, 64 * k, 128 * k}, {96 * k, 64 * k, 128 * k}, {224 * k, 64 * k, 256 * k}},
		"sparse":                        {{0, k, k}, {100 * k, k, k}, {200 * k, k, k}},
		"more than the bound":           {{0, 4096 * k, 4096 * k}, {4096 * k, 4096 * k, 4096 * k}, {8192 * k, k, 1024 * k}},
		"nonsense":                      {{-5, -5, 0}, {math.MaxInt64, math.MaxInt64, math.MaxInt64}, {math.MinInt64, 1, 1}},
	} {
		w := newWindows(0)
		for i, s := range steps {
			if got := w.next("group", "topic", 0, s.off, s.n); got != s.want {
				t.Errorf("%s, read %d: %d, want %d", name, i, got, s.want)
			}
		}
	}
}

// Readers do not disturb each other, and who is not seen for long is forgotten.
func TestWindowsReaders(t *testing.T) {
	w := newWindows(256 << 10)
	reader := func(i int, off int64) int64 {
		return w.next(fmt.Sprint("g", i%3), fmt.Sprint("t", i%5), int32(i), off, 64<<10)
	}
	const few = 40
	for round, want := range []int64{64 << 10, 128 << 10, 256 << 10, 256 << 10} {
		off := []int64{0, 64 << 10, 192 << 10, 448 << 10}[round]
		grown := 0
		for i := range few {
			if reader(i, off) == want {
				grown++
			}
		}
		// Four of 40 in one of 256 sets are unlikely, five next to impossible.
		if grown != few {
			t.Errorf("round %d: %d readers have %d", round, grown, want)
		}
	}
	for i := range 100_000 {
		reader(few+i, 0)
	}
	forgotten := 0
	for i := range few {
		if reader(i, 704<<10) == 64<<10 {
			forgotten++
		}
	}
	if forgotten != few {
		t.Errorf("%d readers forgotten", forgotten)
	}
}

// Each of group, topic and queue makes another reader.
func TestWindowsNames(t *testing.T) {
	w := newWindows(0)
	w.next("g", "t", 1, 0, 64<<10)
	for _, other := range []struct {
		group, topic string
		id           int32
	}{{"h", "t", 1}, {"g", "u", 1}, {"g", "t", 2}, {"t", "g", 1}} {
		if got := w.next(other.group, other.topic, other.id, 64<<10, 64<<10); got != 64<<10 {
			t.Errorf("%v goes on where another ended: %d", other, got)
		}
	}
	if got := w.next("g", "t", 1, 64<<10, 64<<10); got != 128<<10 {
		t.Errorf("%d", got)
	}
}

// In a set the one that was used longest ago goes.
func TestWindowsReplace(t *testing.T) {
	w := newWindows(0)
	var same []int32 // queues of one set
	for id := int32(0); len(same) < windowWays+1; id++ {
		if readerHash("g", "t", id)%windowSets == 7 {
			same = append(same, id)
		}
	}
	next := func(i int, off int64) int64 { return w.next("g", "t", same[i], off, 64<<10) }
	for i := range windowWays {
		next(i, 0)
	}
	next(0, 64<<10)
	next(windowWays, 0) // in place of 1
	for i, want := range []int64{256 << 10, 64 << 10} {
		if got := next(i, []int64{192 << 10, 64 << 10}[i]); got != want {
			t.Errorf("reader %d: %d, want %d", i, got, want)
		}
	}
}

func TestWindowsAllocateNothing(t *testing.T) {
	w := newWindows(0)
	off := int64(0)
	if n := testing.AllocsPerRun(100, func() { off += w.next("g", "t", 1, off, 1<<10) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkColdParts(b *testing.B) {
	b.Run("buffer", func(b *testing.B) {
		p := newBuffers(0)
		b.ReportAllocs()
		for b.Loop() {
			p.get(64 << 10).Release()
		}
	})
	b.Run("window", func(b *testing.B) {
		w := newWindows(0)
		off := int64(0)
		b.ReportAllocs()
		for b.Loop() {
			off += w.next("group", "topic", 1, off, 32<<10)
		}
	})
}
