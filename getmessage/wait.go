package getmessage

import (
	"context"
	"hash/maphash"
	"math"
	"sync/atomic"
	"time"

	"github.com/warmlog/warmlog/internal/planted"
)

// Cause says why a waiter was woken.
type Cause uint8

const (
	// Arrived: a message that the filter may match became visible.
	Arrived Cause = iota
	// Changed: a pull may have another answer than "nothing there yet". The offset is none to
	// wait at, or the queue was cut, the store has another role, a file cannot be read.
	Changed
	// TimedOut: the deadline has passed.
	TimedOut
	// Deleted: the queue was deleted.
	Deleted
	// Closed: the waiters were closed.
	Closed
)

// String returns the cause in a word.
func (c Cause) String() string {
	return [...]string{"arrived", "changed", "timed-out", "deleted", "closed"}[c]
}

// Woken is what a waiter is told.
type Woken struct {
	Cause Cause
	// Offset is the queue offset to pull from: the one that was waited at, or, where the cause
	// is Arrived or TimedOut, a later one, below which the filter accepts nothing.
	Offset int64
}

// Waiters are pulls that are held until they have an answer. Make them with [NewWaiters]. They
// are kept apart from what makes messages visible: somebody has to call Visible for each
// message, and Wake where a queue changes in another way. All methods may be called
// concurrently.
//
// A waiter is a struct of about 100 bytes in lists of its queue and its deadline. While nothing
// happens, nothing runs: there is no goroutine and at most one timer, for the earliest deadline.
type Waiters struct {
	// Held, if not nil, is called by Register when somebody waits: a store that has to look for
	// messages itself can do so while there is a need. Set it before the first Register.
	Held func()

	find func(topic string, queueID int32) Queue
	role func() Role
	// queues counts the queues that somebody waits on. Who makes a message visible loads it
	// afterwards, who waits adds to it before the look at the queue: one of them sees the other.
	queues atomic.Int64
	clock  clock
	shards [shardCount]shard
}

// NewWaiters makes waiters over queues that find finds (nil: a queue that is not known), in a
// store whose part role tells.
func NewWaiters(find func(topic string, queueID int32) Queue, role func() Role) *Waiters {
	ws := &Waiters{find: find, role: role}
	ws.clock.start, ws.clock.fire = time.Now(), ws.expire
	ws.clock.armed.Store(never)
	for i := range ws.shards {
		ws.shards[i].init(ws)
	}
	return ws
}

// Register calls fn once, with why: when a message at or above the request's offset that its
// filter may match is visible, when a pull has another answer than "nothing there yet", when the
// deadline has passed (the zero time: there is none), or as Wake and Close say. What a pull
// looks at last, the record, is left to it: it can still find nothing.
//
// A message that became visible since the caller's pull wakes at once. Deadlines are kept in
// steps of 10 ms, never too early. Of the request only topic, queue, offset and filter count; it
// is not kept.
//
// cancel reports whether it was in time: then fn is not called, else it was called or is
// being called. It may be called again, and from fn.
//
// fn is called by one of at most 32 goroutines that live only while there is something to call,
// without a lock: it may register, cancel and pull. Those of one queue are called one after the
// other, so that fn must not block: it should hand on. It must not call Close, which waits for
// it. The filter's MatchEntry is called by who makes messages visible, under a lock: it must
// not call back.
func (ws *Waiters) Register(req *Request, deadline time.Time, fn func(Woken)) (cancel func() bool) {
	return ws.register(context.Background(), req, deadline, fn).cancel
}

func (ws *Waiters) register(ctx context.Context, req *Request, deadline time.Time, fn func(Woken)) *waiter {
	name := queueName{req.Topic, req.QueueID}
	hash := name.hash()
	w := &waiter{fn: fn, filter: req.Filter, from: req.Offset, offset: req.Offset, shard: ws.shard(hash)}
	tick := int64(never)
	if !deadline.IsZero() {
		tick = ws.clock.tick(deadline)
	}
	if w.shard.add(w, name, hash, tick) {
		ws.clock.arm(tick)
		if ws.Held != nil {
			ws.Held()
		}
		if !planted.WaitWithoutLook {
			ws.look(ctx, w, req)
		}
	}
	return w
}

// Wait returns when fn of [Waiters.Register] would be called, or with the error of ctx.
func (ws *Waiters) Wait(ctx context.Context, req *Request) (Woken, error) {
	if err := ctx.Err(); err != nil {
		return Woken{}, err
	}
	woken := make(chan Woken, 1)
	w := ws.register(ctx, req, time.Time{}, func(w Woken) { woken <- w })
	select {
	case w := <-woken:
		return w, nil
	case <-ctx.Done():
		w.cancel()
		return Woken{}, ctx.Err()
	}
}

// Visible wakes who waits for messages that became visible in a queue: encoded entries, the
// first of them for offset first. It is called when the queue's bounds include them, once for
// each message and in their order. Without waiters in the queue it costs a load or two.
func (ws *Waiters) Visible(topic string, queueID int32, first int64, entries []byte) {
	if ws.queues.Load() == 0 {
		return
	}
	name := queueName{topic, queueID}
	hash := name.hash()
	if s := ws.shard(hash); s.slot(hash).Load() != 0 {
		s.visible(name, first, entries)
	}
}

// Wake wakes all who wait on a queue.
func (ws *Waiters) Wake(topic string, queueID int32, cause Cause) {
	name := queueName{topic, queueID}
	s := ws.shard(name.hash())
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[name]; q != nil {
		s.wakeLocked(q, cause)
	}
}

// WakeAll wakes all who wait.
func (ws *Waiters) WakeAll(cause Cause) {
	for i := range ws.shards {
		ws.shards[i].wakeAll(cause, false)
	}
}

// Any reports whether somebody waits.
func (ws *Waiters) Any() bool { return ws.queues.Load() != 0 }

// Len returns how many wait.
func (ws *Waiters) Len() (n int) {
	for i := range ws.shards {
		s := &ws.shards[i]
		s.mu.Lock()
		n += s.count
		s.mu.Unlock()
	}
	return n
}

// Close wakes all who wait, and all who register later, with Closed. It returns when their
// functions have returned.
func (ws *Waiters) Close() {
	for i := range ws.shards {
		ws.shards[i].wakeAll(Closed, true)
	}
	ws.clock.stop()
	for i := range ws.shards {
		ws.shards[i].drained()
	}
}

// expire wakes those whose deadline has passed.
func (ws *Waiters) expire() {
	next := int64(never)
	for i := range ws.shards {
		next = min(next, ws.shards[i].expire(ws.clock.now()))
	}
	ws.clock.arm(next)
}

// never is later than every deadline.
const never = math.MaxInt64

// queueName names a queue.
type queueName struct {
	topic string
	id    int32
}

var seed = maphash.MakeSeed()

func (n queueName) hash() uint64 {
	// The odd constant spreads the ids of one topic over the shards.
	h := maphash.String(seed, n.topic) + uint64(uint32(n.id))*0x9E3779B97F4A7C15
	return h ^ h>>32
}

func (ws *Waiters) shard(hash uint64) *shard { return &ws.shards[hash%shardCount] }
