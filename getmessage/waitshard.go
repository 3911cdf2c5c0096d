package getmessage

import (
	"sync"
	"sync/atomic"

	"github.com/warmlog/warmlog/consumequeue"
)

const (
	shardCount = 32 // bounds the goroutines that call
	slotCount  = 32 // of a shard
)

// waiter is one pull that is held. All but state is guarded by its shard's mu.
type waiter struct {
	fn     func(Woken)
	filter Filter
	from   int64 // the offset that was waited at
	offset int64 // below it, the filter accepts nothing
	seen   bool  // all that was visible before it was registered has been looked at
	list   uint8 // of its queue
	state  atomic.Uint32
	at     int // index in its list

	shard *shard
	queue *heldQueue
	// Of the list of those that have the same deadline; nil without one.
	moment         *moment
	earlier, later *waiter
}

// The states of a waiter. Whoever leaves pending decides whether fn is called.
const (
	pending = iota
	called
	cancelled
)

// A shard holds the waiters of a part of the queues.
type shard struct {
	all *Waiters
	// slots count the queues that are waited on, by another part of the hash: most queues that
	// nobody waits on are told from one of them, without the lock.
	slots [slotCount]atomic.Int32

	mu        sync.Mutex // guards what follows, and is held with no other lock of this package
	idle      sync.Cond  // told when nothing is called any more
	queues    map[queueName]*heldQueue
	spare     *heldQueue
	count     int // waiters in lists
	deadlines deadlines
	ready     []wakeup // to be called
	spent     []wakeup // what ready was before, to be used again
	running   bool
	closed    bool
}

// wakeup is a call to be made.
type wakeup struct {
	w     *waiter
	woken Woken
}

func (s *shard) init(ws *Waiters) {
	s.all, s.idle.L = ws, &s.mu
	s.queues = map[queueName]*heldQueue{}
	s.deadlines.at = map[int64]*moment{}
}

func (s *shard) slot(hash uint64) *atomic.Int32 { return &s.slots[hash/shardCount%slotCount] }

// add registers a waiter. false: it is told that all is closed.
func (s *shard) add(w *waiter, name queueName, hash uint64, tick int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.readyLocked(w, Closed)
		return false
	}
	q := s.queues[name]
	if q == nil {
		if q = s.spare; q == nil {
			q = &heldQueue{}
		}
		s.spare = nil
		q.name, q.hash = name, hash
		s.queues[name] = q
		s.slot(hash).Add(1)
		s.all.queues.Add(1)
	}
	w.queue = q
	q.put(w, listOf(w))
	s.count++
	if tick < never {
		s.deadlines.add(w, tick)
	}
	return true
}

// dropLocked takes note that waiters left a queue: the last one takes the queue with it.
func (s *shard) dropLocked(q *heldQueue, n int) {
	s.count -= n
	if n == 0 || !q.empty() {
		return
	}
	delete(s.queues, q.name)
	s.slot(q.hash).Add(-1)
	s.all.queues.Add(-1)
	q.name = queueName{}
	q.shrink()
	s.spare = q
}

// cancel is what Register returns.
func (w *waiter) cancel() bool {
	if !w.state.CompareAndSwap(pending, cancelled) {
		return w.state.Load() == cancelled
	}
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.heldLocked() {
		w.queue.remove(w)
		s.dropLocked(w.queue, 1)
	}
	s.deadlines.remove(w)
	return true
}

// heldLocked reports whether a waiter is in a list of its queue.
func (w *waiter) heldLocked() bool { return w.queue != nil && w.queue.holds(w) }

// readyLocked lets a waiter, which is in no list, be called.
func (s *shard) readyLocked(w *waiter, cause Cause) {
	off := w.from
	if cause == Arrived || cause == TimedOut {
		off = w.offset
	}
	s.ready = append(s.ready, wakeup{w, Woken{cause, off}})
	if !s.running {
		s.running = true
		go s.run()
	}
}

// take wakes one waiter, unless it was woken before.
func (s *shard) take(w *waiter, cause Cause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.heldLocked() {
		s.takeLocked(w, cause)
	}
}

func (s *shard) takeLocked(w *waiter, cause Cause) {
	w.queue.remove(w)
	s.dropLocked(w.queue, 1)
	s.readyLocked(w, cause)
}

// looked says that a waiter's filter rejects everything below an offset, and whether that was
// above the end of the queue.
func (s *shard) looked(w *waiter, off int64, above bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.heldLocked() {
		return
	}
	w.offset, w.seen = off, true
	if above {
		w.queue.remove(w)
		w.queue.put(w, ahead)
	}
}

// visible is [Waiters.Visible] for a queue that somebody may wait on.
func (s *shard) visible(name queueName, first int64, entries []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[name]
	if q == nil {
		return
	}
	end := first + int64(len(entries)/consumequeue.EntrySize)
	before := len(s.ready)
	for list := range ahead {
		kept := q.lists[list][:0]
		for _, w := range q.lists[list] {
			if w.offset < end && w.matches(first, end, entries) {
				s.readyLocked(w, Arrived)
				continue
			}
			w.at = len(kept)
			kept = append(kept, w)
		}
		clear(q.lists[list][len(kept):])
		q.lists[list] = kept
	}
	for len(q.lists[ahead]) > 0 && q.lists[ahead][0].offset < end {
		w := q.lists[ahead][0]
		q.remove(w)
		if w.matches(first, end, entries) {
			s.readyLocked(w, Arrived)
		} else {
			q.put(w, filtered)
		}
	}
	s.dropLocked(q, len(s.ready)-before)
}

// matches reports whether a waiter waits for one of entries, the first of them for offset first
// and the last before end. What its filter rejects it has not to look at again.
func (w *waiter) matches(first, end int64, entries []byte) bool {
	if w.filter == nil {
		return true
	}
	off := max(first, w.offset)
	for rest := entries[(off-first)*consumequeue.EntrySize:]; off < end; rest = rest[consumequeue.EntrySize:] {
		if w.filter.MatchEntry(consumequeue.Decode(rest).TagCode) {
			break
		}
		off++
	}
	if w.seen { // else something below may not have been looked at
		w.offset = off
	}
	return off < end
}

// wakeLocked wakes all waiters of a queue.
func (s *shard) wakeLocked(q *heldQueue, cause Cause) {
	n := 0
	for i, list := range q.lists {
		for _, w := range list {
			s.readyLocked(w, cause)
		}
		n += len(list)
		clear(list)
		q.lists[i] = list[:0]
	}
	s.dropLocked(q, n)
}

func (s *shard) wakeAll(cause Cause, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = s.closed || closed
	for _, q := range s.queues {
		s.wakeLocked(q, cause)
	}
}

// expire wakes those whose deadline is at or before a tick, and returns the next one.
func (s *shard) expire(now int64) int64 {
	for {
		if next := s.expireSome(now); next > now {
			return next
		}
	}
}

// callsAtOnce is how many waiters' deadlines are dealt with while the lock is held.
const callsAtOnce = 256

func (s *shard) expireSome(now int64) (next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range callsAtOnce {
		w := s.deadlines.due(now)
		if w == nil {
			break
		}
		s.deadlines.remove(w)
		if w.heldLocked() {
			s.takeLocked(w, TimedOut)
		}
	}
	return s.deadlines.next()
}

// run calls those who are ready, until none is left.
func (s *shard) run() {
	s.mu.Lock() // not unlocked by defer: a function's panic would be lost in a second unlock
	for len(s.ready) > 0 {
		all := s.ready
		s.ready, s.spent = s.spent[:0], nil
		for rest := all; len(rest) > 0; {
			some := rest[:min(callsAtOnce, len(rest))]
			rest = rest[len(some):]
			for _, c := range some {
				s.deadlines.remove(c.w)
			}
			s.mu.Unlock()
			for _, c := range some {
				if c.w.state.CompareAndSwap(pending, called) {
					c.w.fn(c.woken)
				}
			}
			s.mu.Lock()
		}
		if cap(all) <= callsAtOnce {
			clear(all)
			s.spent = all[:0]
		}
	}
	s.running = false
	s.idle.Broadcast()
	s.mu.Unlock()
}

// drained returns when nothing is called any more.
func (s *shard) drained() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.running {
		s.idle.Wait()
	}
}
