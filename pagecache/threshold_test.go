package pagecache

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// memories plays readings of memory, one per call, and then the last for ever.
type memories struct {
	limits []int64 // negative: the reading fails
	at     int
	asked  MemoryOptions
}

var errNoMemory = errors.New("no reading")

func (s *memories) read(o MemoryOptions) (Memory, error) {
	s.asked = o
	l := s.limits[min(s.at, len(s.limits)-1)]
	s.at++
	if l < 0 {
		return Memory{}, errNoMemory
	}
	return Memory{RAM: 1 << 40, Limit: l, Used: -1, Cache: -1}, nil
}

func TestThresholdOf(t *testing.T) {
	for _, limit := range []int64{0, 1, 2, 99, 100, 101, 512 << 20, 25276211200, math.MaxInt64} {
		for ratio := MinRatio; ratio <= MaxRatio; ratio++ {
			want := big.NewInt(limit)
			want.Mul(want, big.NewInt(int64(ratio))).Quo(want, big.NewInt(100))
			if got := (ThresholdOptions{Ratio: ratio}).of(limit); got != want.Int64() {
				t.Errorf("%d × %d / 100: %d, want %d", limit, ratio, got, want)
			}
		}
	}
	if got := (ThresholdOptions{}).of(1000); got != 400 {
		t.Errorf("default of 1000: %d", got)
	}
	if got := (ThresholdOptions{Bytes: 7}).of(1000); got != 7 {
		t.Errorf("explicit bytes: %d", got)
	}
}

func TestThresholdValidate(t *testing.T) {
	for _, o := range []ThresholdOptions{{}, {Ratio: 1}, {Ratio: 95}, {Bytes: 1}, {Bytes: math.MaxInt64, HostOnly: true}} {
		if err := o.Validate(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []ThresholdOptions{{Ratio: -1}, {Ratio: 96}, {Bytes: -1}, {Ratio: 40, Bytes: 1}} {
		if err := o.Validate(); err == nil {
			t.Errorf("%+v is valid", o)
		}
		if th, err := NewThreshold(o); th != nil || err == nil {
			t.Errorf("%+v makes a threshold", o)
		}
	}
	if err := (ThresholdOptions{Ratio: 96, Bytes: -1}).Validate(); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("not all of three faults: %v", err)
	}
}

func TestThresholdFollowsReadings(t *testing.T) {
	s := &memories{limits: []int64{1000, 500, -1, 2000, 0, 1000}}
	th, err := newThreshold(ThresholdOptions{Ratio: 30, HostOnly: true}, s.read)
	if err != nil {
		t.Fatal(err)
	}
	if !s.asked.HostOnly {
		t.Error("HostOnly was not handed on")
	}
	for i, want := range []int64{300, 150, 150, 600, 0, 300} {
		if i > 0 {
			if err := th.Refresh(); errors.Is(err, errNoMemory) != (i == 2) {
				t.Errorf("refresh %d: %v", i, err)
			}
		}
		if got := th.Bytes(); got != want {
			t.Errorf("reading %d: %d, want %d", i, got, want)
		}
		if i != 2 && th.Memory().Limit != s.limits[i] {
			t.Errorf("reading %d: memory %v", i, th.Memory())
		}
	}
}

// However often it is read again, the threshold is that of the last reading.
func TestThresholdDoesNotDrift(t *testing.T) {
	limit := int64(0)
	th, err := newThreshold(ThresholdOptions{Ratio: 33}, func(MemoryOptions) (Memory, error) { return Memory{Limit: limit}, nil })
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100_000 {
		limit = []int64{1_000_003, 7, 25276211200}[i%3]
		if err := th.Refresh(); err != nil {
			t.Fatal(err)
		}
		if want := limit * 33 / 100; th.Bytes() != want {
			t.Fatalf("refresh %d: %d, want %d", i, th.Bytes(), want)
		}
	}
}

func TestThresholdWithoutReading(t *testing.T) {
	s := &memories{limits: []int64{-1}}
	if th, err := newThreshold(ThresholdOptions{}, s.read); th != nil || !errors.Is(err, errNoMemory) {
		t.Errorf("by ratio: %v", err)
	}
	th, err := newThreshold(ThresholdOptions{Bytes: 12345}, s.read)
	if err != nil || th.Bytes() != 12345 || th.Memory().RAM != 0 {
		t.Fatalf("by bytes: %v", err)
	}
	if err := th.Refresh(); !errors.Is(err, errNoMemory) || th.Bytes() != 12345 {
		t.Errorf("refreshed: %v, %d", err, th.Bytes())
	}
}

func TestThresholdConcurrent(t *testing.T) {
	var n atomic.Int64
	th, err := newThreshold(ThresholdOptions{Ratio: 50}, func(MemoryOptions) (Memory, error) { return Memory{Limit: 2 * n.Add(1)}, nil })
	if err != nil {
		t.Fatal(err)
	}
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		writers.Go(func() {
			for range 1000 {
				if err := th.Refresh(); err != nil {
					t.Error(err)
				}
			}
		})
		readers.Go(func() {
			for last := int64(0); ; {
				b := th.Bytes()
				if b < last {
					t.Errorf("an older reading came after a newer: %d after %d", b, last)
				}
				last = max(last, b)
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	if b, m := th.Bytes(), th.Memory(); b != 4001 || m.Limit != 8002 {
		t.Errorf("%d of %d", b, m.Limit)
	}
}

// A Refresh that is held up while it reads does not overwrite what a later one read.
func TestThresholdRefreshesOneAtATime(t *testing.T) {
	var n atomic.Int64
	reading, goOn := make(chan struct{}), make(chan struct{})
	th, err := newThreshold(ThresholdOptions{Ratio: 50}, func(MemoryOptions) (Memory, error) {
		i := n.Add(1)
		if i == 2 {
			close(reading)
			<-goOn
		}
		return Memory{Limit: 2 * i}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	refresh := func() {
		if err := th.Refresh(); err != nil {
			t.Error(err)
		}
	}
	wg.Go(refresh)
	<-reading
	wg.Go(refresh)
	time.Sleep(20 * time.Millisecond) // time for the second to do it wrong
	close(goOn)
	wg.Wait()
	if b := th.Bytes(); b != 3 {
		t.Errorf("%d, want that of the third reading", b)
	}
}

func TestThresholdBytesAllocatesNothing(t *testing.T) {
	th, err := NewThreshold(ThresholdOptions{Bytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() { th.Bytes() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkThresholdBytes(b *testing.B) {
	th, err := NewThreshold(ThresholdOptions{Bytes: 1})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		th.Bytes()
	}
}
