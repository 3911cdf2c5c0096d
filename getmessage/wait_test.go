package getmessage_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/message"
)

// In these tests time is synctest's: it moves only when every goroutine waits for good. A waiter
// that is forgotten is thus found by its deadline, however slow the machine is.

// queue is a queue in memory with its waiters.
type queue struct {
	topic   string
	waiters *getmessage.Waiters

	mu       sync.Mutex
	min, max int64
	entries  []byte
	fails    error
}

func (q *queue) Bounds(context.Context) (int64, int64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.min, q.max, q.fails
}

func (q *queue) Slice(off int64) ([]byte, getmessage.Ref, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.entries[off*consumequeue.EntrySize : q.max*consumequeue.EntrySize], nil, q.fails
}

func (q *queue) FileEntries() int64 { return 1000 }
func (q *queue) Checked() int64     { return math.MaxInt64 }
func (q *queue) Heal(context.Context, int64) (consumequeue.Entry, bool, error) {
	return consumequeue.Entry{}, false, nil
}
func (q *queue) Damage(_ int64, err error) *message.DamageError {
	return &message.DamageError{Err: err}
}

// show makes a message of each tag visible, as a dispatch does.
func (q *queue) show(tags ...string) { q.put(true, tags...) }

func (q *queue) put(tell bool, tags ...string) {
	q.mu.Lock()
	first := q.max
	for _, tag := range tags {
		e := consumequeue.Entry{Offset: q.max * 100, Size: 100, TagCode: int64(message.JavaHash([]byte(tag)))}
		q.entries = e.AppendTo(q.entries)
		q.max++
	}
	entries := q.entries[first*consumequeue.EntrySize:]
	q.mu.Unlock()
	if tell {
		q.waiters.Visible(q.topic, 0, first, entries)
	}
}

// world is a few queues with waiters.
func world(t *testing.T, role getmessage.Role, topics ...string) (*getmessage.Waiters, []*queue) {
	var all []*queue
	ws := getmessage.NewWaiters(func(topic string, id int32) getmessage.Queue {
		if i := slices.IndexFunc(all, func(q *queue) bool { return q.topic == topic && id == 0 }); i >= 0 {
			return all[i]
		}
		return nil
	}, func() getmessage.Role { return role })
	for _, topic := range topics {
		all = append(all, &queue{topic: topic, waiters: ws})
	}
	t.Cleanup(ws.Close)
	return ws, all
}

func at(q *queue, off int64) *getmessage.Request {
	return &getmessage.Request{Topic: q.topic, Offset: off}
}

// woken collects what waiters are told.
type woken struct {
	mu  sync.Mutex
	all []string
}

func (w *woken) as(name string) func(getmessage.Woken) {
	return func(got getmessage.Woken) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = append(w.all, fmt.Sprintf("%s %v %d", name, got.Cause, got.Offset))
	}
}

// take returns what came, when nothing moves any more.
func (w *woken) take() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

func (w *woken) want(t *testing.T, want ...string) {
	t.Helper()
	if got := w.take(); !slices.Equal(got, want) {
		t.Errorf("woken %q, want %q", got, want)
	}
}

func TestWaitersFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ws, queues := world(t, getmessage.Master, "a")
		q, got := queues[0], &woken{}
		for _, tag := range []string{"red", "green", "red || blue"} {
			req := at(q, 0)
			req.Filter = getmessage.NewTagFilter(tag, false)
			ws.Register(req, time.Now().Add(time.Minute), got.as(tag))
		}
		q.show("yellow", "white")
		got.want(t)
		q.show("white", "blue", "blue")
		got.want(t, "red || blue arrived 3")
		// One that comes late looks at what it missed, and not further than a pull does.
		q.put(false, "yellow", "green", "red")
		req := at(q, 5)
		req.Filter = getmessage.NewTagFilter("green", false)
		ws.Register(req, time.Time{}, got.as("late"))
		got.want(t, "late arrived 6")
		req.Offset = 8
		q.put(false, slices.Repeat([]string{"white"}, 2000)...)
		ws.Register(req, time.Time{}, got.as("behind"))
		got.want(t, "behind arrived 808")
		// What was rejected is not looked at again, also if the deadline ends the waiting.
		req.Offset = 2000
		ws.Register(req, time.Now().Add(time.Second), got.as("in time"))
		q.show("white")
		got.want(t)
		time.Sleep(time.Second + 20*time.Millisecond)
		got.want(t, "in time timed-out 2009")
		q.show("red", "green")
		all := got.take()
		slices.Sort(all)
		if want := []string{"green arrived 2010", "red arrived 2009"}; !slices.Equal(all, want) {
			t.Errorf("%q, want %q", all, want)
		}
	})
}

// Offsets that are none to wait at are answered at once; the others wait.
func TestWaitersPositions(t *testing.T) {
	for _, c := range []struct {
		role            getmessage.Role
		min, max, ask   int64
		want            string
		unknown, failed bool
	}{
		{getmessage.Master, 0, 5, 5, "", false, false},
		{getmessage.Master, 0, 5, 4, "x arrived 4", false, false},
		{getmessage.Master, 2, 5, 1, "x changed 1", false, false},
		{getmessage.Master, 0, 5, 6, "x changed 6", false, false},
		{getmessage.Master, 0, 5, math.MaxInt64, "x changed 9223372036854775807", false, false},
		{getmessage.Master, 0, 5, math.MinInt64, "x changed -9223372036854775808", false, false},
		{getmessage.Master, 5, 5, 5, "", false, false},
		{getmessage.Master, 0, 0, 0, "", false, false},
		{getmessage.Master, 0, 0, 1, "x changed 1", false, false},
		{getmessage.Master, 0, 0, 0, "", true, false},
		{getmessage.Master, 0, 0, 7, "x changed 7", true, false},
		{getmessage.Master, 0, 5, 5, "x changed 5", false, true},
		{getmessage.Slave, 0, 5, 5, "", false, false},
		{getmessage.Slave, 0, 5, 9, "", false, false},
		{getmessage.Slave, 0, 5, math.MaxInt64, "", false, false},
		{getmessage.Slave, 2, 5, 1, "x changed 1", false, false},
		{getmessage.Slave, 0, 0, 7, "", false, false},
		{getmessage.Slave, 0, 0, 7, "", true, false},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ws, queues := world(t, c.role, "a")
				q, got := queues[0], &woken{}
				q.put(false, make([]string, c.max)...)
				q.min = c.min
				if c.failed {
					q.fails = errors.New("broken")
				}
				req := at(q, c.ask)
				if c.unknown {
					req.Topic = "other"
				}
				cancel := ws.Register(req, time.Time{}, got.as("x"))
				if c.want == "" {
					got.want(t)
					if ws.Len() != 1 || !cancel() || !cancel() || ws.Any() {
						t.Error("it does not wait, or cannot be cancelled")
					}
				} else {
					got.want(t, c.want)
					if cancel() {
						t.Error("cancelled after it was called")
					}
				}
				for _, bad := range []getmessage.Request{{}, {Topic: "a", QueueID: -1}, {QueueID: math.MinInt32, Offset: math.MinInt64}} {
					ws.Register(&bad, time.Time{}, got.as("bad"))
					got.want(t, fmt.Sprintf("bad changed %d", bad.Offset))
				}
			})
		})
	}
}

// A slave's waiters above the end of their queue wake in the order of their offsets.
func TestWaitersAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ws, queues := world(t, getmessage.Slave, "a")
		q, got := queues[0], &woken{}
		for _, off := range rand.New(rand.NewPCG(1, 2)).Perm(100) {
			req := at(q, int64(off))
			if off%10 == 0 {
				req.Filter = getmessage.NewTagFilter("red", false)
			}
			ws.Register(req, time.Time{}, got.as(fmt.Sprint(off)))
		}
		for n := range 100 {
			q.show("white")
			if n%10 == 0 {
				got.want(t)
			} else {
				got.want(t, fmt.Sprintf("%d arrived %d", n, n))
			}
		}
		q.show("red")
		if all := got.take(); len(all) != 10 || ws.Any() {
			t.Errorf("%q", all)
		}
	})
}

func TestWaitersDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters = 2000
		ws, queues := world(t, getmessage.Master, "a", "b", "c", "d")
		random := rand.New(rand.NewPCG(3, 4))
		var mu sync.Mutex
		var order []time.Duration
		begin := time.Now()
		cancelled := 0
		for n := range waiters {
			after := time.Duration(random.Int64N(int64(3*time.Second))) - time.Second
			cancel := ws.Register(at(queues[n%4], 0), begin.Add(after), func(w getmessage.Woken) {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, after)
				if late := time.Since(begin) - max(after, 0); w.Cause != getmessage.TimedOut || late < 0 || late > 10*time.Millisecond {
					t.Errorf("%v: woken %v, %v after it", after, w.Cause, late)
				}
			})
			if n%5 == 0 && cancel() {
				cancelled++
			}
		}
		far := ws.Register(at(queues[0], 0), time.Unix(1<<60, 0), func(getmessage.Woken) { t.Error("the far one") })
		time.Sleep(time.Hour)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(order)+cancelled != waiters || !far() || ws.Len() != 0 {
			t.Errorf("%d woken, %d cancelled, %d left", len(order), cancelled, ws.Len())
		}
		for i := 1; i < len(order); i++ {
			if max(order[i], 0)+10*time.Millisecond < order[i-1] {
				t.Fatalf("%v before %v", order[i-1], order[i])
			}
		}
	})
}

func TestWaitersWakeAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ws, queues := world(t, getmessage.Master, "a", "b")
		a, b, got := queues[0], queues[1], &woken{}
		filtered := at(a, 0)
		filtered.Filter = getmessage.NewTagFilter("red", false)
		ws.Register(filtered, time.Time{}, got.as("a"))
		ws.Register(at(b, 0), time.Now().Add(time.Second), got.as("b"))
		a.show("white")
		ws.Wake("a", 0, getmessage.Deleted)
		ws.Wake("a", 1, getmessage.Deleted)
		got.want(t, "a deleted 0")
		ws.WakeAll(getmessage.Changed)
		got.want(t, "b changed 0")
		ws.Register(at(b, 0), time.Now().Add(time.Second), got.as("b"))
		ws.Close()
		got.want(t, "b closed 0")
		cancel := ws.Register(at(b, 0), time.Now().Add(time.Second), got.as("late"))
		got.want(t, "late closed 0")
		if cancel() {
			t.Error("cancelled after it was called")
		}
		if w, err := ws.Wait(context.Background(), at(b, 0)); err != nil || w.Cause != getmessage.Closed {
			t.Errorf("%+v, %v", w, err)
		}
		ws.Close()
		time.Sleep(time.Hour)
		got.want(t)
	})
}

func TestWaitersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ws, queues := world(t, getmessage.Master, "a")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := ws.Wait(ctx, at(queues[0], 0)); !errors.Is(err, context.DeadlineExceeded) || ws.Any() {
			t.Error(err, ws.Len())
		}
		if _, err := ws.Wait(ctx, at(queues[0], 0)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		go func() {
			time.Sleep(time.Second)
			queues[0].show("x")
		}()
		if w, err := ws.Wait(context.Background(), at(queues[0], 0)); err != nil || w != (getmessage.Woken{}) {
			t.Errorf("%+v, %v", w, err)
		}
	})
}
