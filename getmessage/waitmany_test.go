package getmessage_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmlog/warmlog/getmessage"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What 100,000 waiters cost, on one queue and on as many queues, and that one message wakes
// each of them once.
func TestWaitersManyOfThem(t *testing.T) {
	const waiters, most = 100_000, 1024
	for _, name := range []string{"one queue", "many queues"} {
		t.Run(name, func(t *testing.T) {
			ws, queues := world(t, getmessage.Master, "a")
			var called [waiters]atomic.Int32
			var group sync.WaitGroup
			group.Add(waiters)
			goroutines, before := runtime.NumGoroutine(), heap()
			deadline := time.Now().Add(time.Hour)
			for n := range waiters {
				req := at(queues[0], 0)
				if name == "many queues" {
					req.QueueID = int32(n)
				}
				ws.Register(req, deadline.Add(time.Duration(n)*time.Millisecond), func(getmessage.Woken) {
					called[n].Add(1)
					group.Done()
				})
			}
			each := (heap() - before) / waiters
			t.Logf("%d bytes for each waiter", each)
			if each > most {
				t.Errorf("%d bytes for each waiter, more than %d", each, most)
			}
			if more := runtime.NumGoroutine() - goroutines; more > 0 {
				t.Errorf("%d goroutines more", more)
			}
			if ws.Len() != waiters {
				t.Errorf("%d wait", ws.Len())
			}
			if name == "many queues" {
				ws.WakeAll(getmessage.Changed)
			} else {
				queues[0].show("x")
			}
			group.Wait()
			ws.Close()
			for n := range called {
				if c := called[n].Load(); c != 1 {
					t.Fatalf("waiter %d called %d times", n, c)
				}
			}
			if ws.Len() != 0 {
				t.Errorf("%d wait still", ws.Len())
			}
		})
	}
}

// Making messages visible where nobody waits allocates nothing, and neither does it where
// others do.
func TestWaitersElsewhere(t *testing.T) {
	ws, queues := world(t, getmessage.Master, "a")
	ws.Register(at(queues[0], 0), time.Time{}, func(getmessage.Woken) {})
	if n := testing.AllocsPerRun(100, func() { ws.Visible("other", 3, 0, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkVisible(b *testing.B) {
	for _, name := range []string{"nobody", "others"} {
		b.Run(name, func(b *testing.B) {
			ws := getmessage.NewWaiters(func(string, int32) getmessage.Queue { return nil }, func() getmessage.Role { return getmessage.Master })
			defer ws.Close()
			if name == "others" {
				for id := range int32(100) {
					ws.Register(&getmessage.Request{Topic: "other", QueueID: id}, time.Time{}, func(getmessage.Woken) {})
				}
			}
			for b.Loop() {
				ws.Visible("orders", 0, 0, nil)
			}
		})
	}
}
