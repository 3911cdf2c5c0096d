package getmessage_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmlog/warmlog/getmessage"
)

// A message comes between a consumer's look and its registration, again and again, and no other
// follows that would make up for it. Consumers that only ever wait see each.
func TestWaitersMissNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages, consumers = 1000, 3
		ws, queues := world(t, getmessage.Master, "a", "b", "c")
		var group sync.WaitGroup
		for _, q := range queues {
			seen := make(chan bool, consumers)
			group.Go(func() {
				for range messages {
					q.show("red")
					for range consumers {
						if !<-seen {
							return
						}
					}
				}
			})
			for c := range int64(consumers) {
				group.Go(func() {
					for off := int64(0); off < messages; {
						_, max, _ := q.Bounds(context.Background())
						if off < max {
							off++ // a pull
							seen <- true
							continue
						}
						if off%consumers == c {
							runtime.Gosched()
						}
						req := at(q, off)
						if c == 0 {
							req.Filter = getmessage.NewTagFilter("red", false)
						}
						told := make(chan getmessage.Woken)
						ws.Register(req, time.Now().Add(time.Hour), func(w getmessage.Woken) { told <- w })
						if w := <-told; w != (getmessage.Woken{Cause: getmessage.Arrived, Offset: off}) {
							t.Errorf("%s at %d: %+v", q.topic, off, w)
							seen <- false
							return
						}
					}
				})
			}
		}
		group.Wait()
		if ws.Any() || ws.Len() > 0 {
			t.Error("somebody waits still")
		}
	})
}

// Each of many waiters is either called once, or cancelled in time.
func TestWaitersCancelRaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds, each = 300, 20
		ws, queues := world(t, getmessage.Master, "a")
		q := queues[0]
		var calls, stopped atomic.Int64
		for range rounds {
			var cancels []func() bool
			_, end, _ := q.Bounds(context.Background())
			for n := range each {
				var deadline time.Time
				if n%3 == 0 {
					deadline = time.Now().Add(time.Millisecond)
				}
				var once atomic.Bool
				cancels = append(cancels, ws.Register(at(q, end), deadline, func(getmessage.Woken) {
					if once.Swap(true) {
						t.Error("called twice")
					}
					calls.Add(1)
				}))
			}
			var group sync.WaitGroup
			group.Go(func() { q.show("x") })
			group.Go(func() { time.Sleep(time.Millisecond) })
			for _, cancel := range cancels {
				group.Go(func() {
					if cancel() {
						stopped.Add(1)
					}
				})
			}
			group.Wait()
		}
		synctest.Wait()
		if calls.Load()+stopped.Load() != rounds*each || ws.Any() {
			t.Errorf("%d called, %d cancelled", calls.Load(), stopped.Load())
		}
	})
}
