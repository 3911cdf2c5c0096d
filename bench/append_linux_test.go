package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/message"
)

// appending is a store that is written with default Options, beside a consumer at its end.
type appending struct {
	b     testing.TB
	store *warmlog.Store
	msg   *message.Message
	mu    sync.Mutex
	late  []int64 // ns of single appends; guarded by mu
	stop  context.CancelFunc
	done  sync.WaitGroup
}

func newAppending(b testing.TB, body int, o warmlog.Options) *appending {
	return appendingTo(b, b.TempDir(), body, o)
}

func appendingTo(b testing.TB, dir string, body int, o warmlog.Options) *appending {
	if o.Retention.MaxBytes == 0 {
		o.Retention = warmlog.Retention{MaxBytes: 2 << 30, Interval: time.Second} // the disk of a laptop
	}
	store, err := warmlog.Open(dir, o)
	check(b, err)
	a := &appending{b: b, store: store, msg: &message.Message{Topic: topic, Body: make([]byte, body), Tags: "a"}}
	var ctx context.Context
	ctx, a.stop = context.WithCancel(context.Background())
	a.done.Go(func() { a.read(ctx) })
	b.Cleanup(func() {
		a.stop()
		a.done.Wait()
		check(b, store.Close())
	})
	return a
}

// read consumes what comes in, as long as ctx lasts.
func (a *appending) read(ctx context.Context) {
	var batch getmessage.Batch
	defer batch.Release()
	req := getmessage.Request{Topic: topic}
	for ctx.Err() == nil {
		check(a.b, a.store.Get(ctx, &req, &batch))
		if batch.NextOffset == req.Offset {
			time.Sleep(time.Millisecond)
		}
		req.Offset = batch.NextOffset
	}
}

// one appends messages singly, and keeps how long each of them took.
func (a *appending) one(n int) {
	took := make([]int64, n)
	for i := range took {
		began := time.Now()
		_, err := a.store.Append(context.Background(), a.msg)
		check(a.b, err)
		took[i] = int64(time.Since(began))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.late = append(a.late, took...)
}

// report adds median, p99, p99.9 and maximum of what was kept.
func (a *appending) report(b *testing.B) {
	slices.Sort(a.late)
	if n := len(a.late); n > 0 {
		b.ReportMetric(float64(a.late[n/2])/1e3, "p50-us")
		b.ReportMetric(float64(a.late[n*99/100])/1e3, "p99-us")
		b.ReportMetric(float64(a.late[n*999/1000])/1e3, "p99.9-us")
		b.ReportMetric(float64(a.late[n-1])/1e3, "max-us")
	}
}

// BenchmarkAppend appends singly, with dispatch, background sync and a consumer at the end.
// The floors: 64 KiB collected and written at once; a mapping of new pages; one of pages
// stored into before. For a sustained figure give a -benchtime of four times what is made
// ready ahead: 2000000x.
func BenchmarkAppend(b *testing.B) {
	for _, body := range []int{128, 1024, 4096} {
		b.Run(fmt.Sprintf("body=%d", body), func(b *testing.B) {
			a := newAppending(b, body, warmlog.Options{})
			a.late = make([]int64, 0, b.N+64)
			buffer, fresh, warm := newAppendFloor(b, body), newAppendFloor(b, body), newAppendFloor(b, body)
			b.Cleanup(func() { buffer.close(); fresh.close(); warm.close() })
			compare(b, a.one,
				yard{"buffer", buffer.buffer}, yard{"fresh", fresh.mapping}, yard{"recycled", warm.recycled})
			a.report(b)
		})
	}
}

// BenchmarkAppendAll appends 64 messages at a time; time and floors are for each message.
func BenchmarkAppendAll(b *testing.B) {
	for _, body := range []int{128, 1024, 4096} {
		b.Run(fmt.Sprintf("body=%d", body), func(b *testing.B) {
			a := newAppending(b, body, warmlog.Options{})
			buffer, fresh := newAppendFloor(b, body), newAppendFloor(b, body)
			b.Cleanup(func() { buffer.close(); fresh.close() })
			batch := slices.Repeat([]*message.Message{a.msg}, 64)
			compare(b, func(n int) {
				for ; n > 0; n -= len(batch) {
					_, err := a.store.AppendAll(context.Background(), batch[:min(n, len(batch))], warmlog.StoreDefault)
					check(b, err)
				}
			}, yard{"buffer", buffer.buffer}, yard{"fresh", fresh.mapping})
		})
	}
}

// BenchmarkAppendParallel appends from several goroutines; the floor is one goroutine of the
// same engine.
func BenchmarkAppendParallel(b *testing.B) {
	for _, producers := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprintf("producers=%d", producers), func(b *testing.B) {
			many, one := newAppending(b, 1024, warmlog.Options{}), newAppending(b, 1024, warmlog.Options{})
			compare(b, func(n int) {
				var group sync.WaitGroup
				for range producers {
					group.Go(func() { many.plain(n/producers + 1) })
				}
				group.Wait()
			}, yard{"one-producer", one.plain})
		})
	}
}

// BenchmarkAppendSegments appends to a log of many small segments, beginning one with every 15th
// message; the floor is one of the same engine with 10.
func BenchmarkAppendSegments(b *testing.B) {
	for _, segments := range []int64{1000, 20000} {
		b.Run(fmt.Sprintf("segments=%d", segments), func(b *testing.B) {
			many, few := newSegmented(b, segments), newSegmented(b, 10)
			compare(b, many.plain, yard{"10", few.plain})
		})
	}
}

// newSegmented opens a store that has so many segments of 16 KiB, and keeps as many.
func newSegmented(b *testing.B, segments int64) *appending {
	const size = 16 << 10
	s := build(b, segments*size, 1, size)
	return appendingTo(b, s.dir, 1024, warmlog.Options{CheckBytes: 1, Retention: warmlog.Retention{MaxBytes: segments * size, Interval: time.Second}})
}

func (a *appending) plain(n int) {
	for range n {
		_, err := a.store.Append(context.Background(), a.msg)
		check(a.b, err)
	}
}

// BenchmarkAppendFlushed waits for the disk each time; the floor writes and syncs once for a record
// of each writer.
func BenchmarkAppendFlushed(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			a := newAppending(b, 1024, warmlog.Options{Durability: warmlog.Flushed})
			f := newAppendFloor(b, 1024)
			b.Cleanup(f.close)
			compare(b, func(n int) {
				var group sync.WaitGroup
				for range writers {
					group.Go(func() { a.one(n/writers + 1) })
				}
				group.Wait()
			}, yard{"fdatasync", f.group(writers)})
			a.report(b)
		})
	}
}

// BenchmarkAppendAsync keeps a thousand flushed messages in flight.
func BenchmarkAppendAsync(b *testing.B) {
	a := newAppending(b, 1024, warmlog.Options{Durability: warmlog.Flushed})
	f := newAppendFloor(b, 1024)
	b.Cleanup(f.close)
	compare(b, func(n int) {
		flight := make(chan struct{}, 1000)
		for range n {
			flight <- struct{}{}
			a.store.AppendAsync(a.msg, warmlog.StoreDefault, func(_ warmlog.Appended, err error) {
				if err != nil {
					b.Error(err)
				}
				<-flight
			})
		}
		for range cap(flight) {
			flight <- struct{}{}
		}
	}, yard{"buffer", f.buffer})
}
