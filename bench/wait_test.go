package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/message"
)

// heldQueue is a queue of which waiters see no more than the end.
type heldQueue struct {
	getmessage.Queue
	max     atomic.Int64
	waiters *getmessage.Waiters
	entry   []byte
}

func newHeldQueue(b *testing.B) *heldQueue {
	q := &heldQueue{entry: consumequeue.Entry{Size: 100}.AppendTo(nil)}
	q.waiters = getmessage.NewWaiters(func(string, int32) getmessage.Queue { return q }, func() getmessage.Role { return getmessage.Master })
	b.Cleanup(q.waiters.Close)
	return q
}

func (q *heldQueue) Bounds(context.Context) (min, max int64, err error) { return 0, q.max.Load(), nil }

func (q *heldQueue) show() {
	off := q.max.Add(1) - 1
	q.waiters.Visible(topic, 0, off, q.entry)
}

var waiterCounts = []int{1, 1000, 100_000}

// BenchmarkWait registers waiters with a deadline at the end of a queue and shows it a message,
// which wakes them all; times are for each waiter.
func BenchmarkWait(b *testing.B) {
	for _, waiters := range waiterCounts {
		b.Run(fmt.Sprintf("waiters=%d", waiters), func(b *testing.B) {
			b.ReportAllocs()
			q := newHeldQueue(b)
			var group sync.WaitGroup
			woken := func(getmessage.Woken) { group.Done() }
			deadline := time.Now().Add(time.Hour)
			alternate(b, 1, func(n int) {
				for n > 0 {
					some := min(n, waiters)
					group.Add(some)
					req := getmessage.Request{Topic: topic, Offset: q.max.Load()}
					for range some {
						q.waiters.Register(&req, deadline, woken)
					}
					q.show()
					group.Wait()
					n -= some
				}
			}, handOver)
		})
	}
}

// BenchmarkWaitAmong is one consumer that registers and is woken, in a queue of its own, while
// others wait in theirs.
func BenchmarkWaitAmong(b *testing.B) {
	for _, waiters := range waiterCounts {
		b.Run(fmt.Sprintf("waiters=%d", waiters), func(b *testing.B) {
			b.ReportAllocs()
			q := newHeldQueue(b)
			deadline := time.Now().Add(time.Hour)
			for id := range waiters - 1 {
				q.waiters.Register(&getmessage.Request{Topic: topic, QueueID: int32(id) + 1}, deadline.Add(time.Duration(id)*time.Millisecond), func(getmessage.Woken) {})
			}
			told := make(chan getmessage.Woken, 1)
			woken := func(w getmessage.Woken) { told <- w }
			alternate(b, 1, func(n int) {
				for range n {
					q.waiters.Register(&getmessage.Request{Topic: topic, Offset: q.max.Load()}, deadline, woken)
					q.show()
					<-told
				}
			}, handOver)
		})
	}
}

// BenchmarkWaitAppend is a message that is appended to a store and reaches a consumer who waits.
func BenchmarkWaitAppend(b *testing.B) {
	b.ReportAllocs()
	store, err := warmlog.Open(b.TempDir(), warmlog.Options{SegmentSize: 64 << 20})
	check(b, err)
	defer func() { check(b, store.Close()) }()
	m := &message.Message{Topic: topic, Body: make([]byte, 100)}
	told := make(chan getmessage.Woken, 1)
	woken := func(w getmessage.Woken) { told <- w }
	var off int64
	alternate(b, 1, func(n int) {
		for range n {
			store.Register(&getmessage.Request{Topic: topic, Offset: off}, time.Time{}, woken)
			_, err := store.Append(context.Background(), m)
			check(b, err)
			<-told
			off++
		}
	}, handOver)
}

// handOver is the floor: n times a value to another goroutine, and one back.
func handOver(n int) {
	there, back := make(chan int), make(chan int)
	defer close(there)
	go func() {
		for v := range there {
			back <- v
		}
	}()
	for i := range n {
		there <- i
		<-back
	}
}
