package consumequeue

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
)

// Table finds queues by topic and id. Looking up takes no lock and costs one hash of the
// topic. Queues only come in; they do not go.
type Table struct {
	slots atomic.Pointer[[]slot] // a power of two, at most half full
	mu    sync.Mutex             // serialises those who add
	count atomic.Int64           // stored under mu
}

// slot holds one queue. A reader that sees the queue sees the hash: it is stored before.
type slot struct {
	hash  uint64
	queue atomic.Pointer[Queue]
}

var seed = maphash.MakeSeed()

func hash(topic string, id int32) uint64 {
	// The odd constant spreads the ids of one topic over the table.
	return maphash.String(seed, topic) + uint64(uint32(id))*0x9E3779B97F4A7C15
}

// Get returns a queue, nil if there is none.
func (t *Table) Get(topic string, id int32) *Queue {
	slots := t.slots.Load()
	if slots == nil {
		return nil
	}
	h := hash(topic, id)
	mask := uint64(len(*slots) - 1)
	for i := h; ; i++ {
		s := &(*slots)[i&mask]
		q := s.queue.Load()
		if q == nil || s.hash == h && q.id == id && q.topic == topic {
			return q
		}
	}
}

// Ensure returns a queue, which it makes if there is none.
func (t *Table) Ensure(topic string, id int32, make func() *Queue) *Queue {
	if q := t.Get(topic, id); q != nil {
		return q
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.Get(topic, id); q != nil {
		return q
	}
	q := make()
	t.addLocked(q)
	return q
}

const leastSlots = 64

func (t *Table) addLocked(q *Queue) {
	slots := t.slots.Load()
	if slots == nil || 2*(int(t.count.Load())+1) > len(*slots) {
		size := leastSlots
		if slots != nil {
			size = 2 * len(*slots)
		}
		grown := make([]slot, size)
		for _, old := range t.All() {
			place(grown, old)
		}
		t.slots.Store(&grown)
		slots = &grown
	}
	place(*slots, q)
	t.count.Add(1)
}

func place(slots []slot, q *Queue) {
	h := hash(q.topic, q.id)
	mask := uint64(len(slots) - 1)
	for i := h; ; i++ {
		s := &slots[i&mask]
		if s.queue.Load() == nil {
			s.hash = h
			s.queue.Store(q)
			return
		}
	}
}

// Each calls yield for the queues, in no order, until it returns false.
func (t *Table) Each(yield func(*Queue) bool) {
	slots := t.slots.Load()
	if slots == nil {
		return
	}
	for i := range *slots {
		if q := (*slots)[i].queue.Load(); q != nil && !yield(q) {
			return
		}
	}
}

// All returns the queues by topic, in byte order, and id.
func (t *Table) All() []*Queue {
	all := slices.Collect(t.Each)
	slices.SortFunc(all, func(a, b *Queue) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.id, b.id))
	})
	return all
}
