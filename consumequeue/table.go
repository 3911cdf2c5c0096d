package consumequeue

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// shards is the number of maps that a table is spread over. A map is copied when a queue
// comes in: with 100,000 queues a copy is of about 100.
const shards = 1024

// Table finds queues by topic and id. Looking up takes no lock.
type Table struct {
	shard [shards]atomic.Pointer[map[key]*Queue]
	mu    sync.Mutex // serialises those who replace a map
}

type key struct {
	topic string
	id    int32
}

func (t *Table) at(k key) *atomic.Pointer[map[key]*Queue] {
	return &t.shard[(xxhash.Sum64String(k.topic)+uint64(k.id))%shards]
}

// Get returns a queue, nil if there is none.
func (t *Table) Get(topic string, id int32) *Queue {
	k := key{topic, id}
	if m := t.at(k).Load(); m != nil {
		return (*m)[k]
	}
	return nil
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
	k := key{q.topic, id} // not the caller's string, which may be of a buffer
	shard := t.at(k)
	next := map[key]*Queue{}
	if m := shard.Load(); m != nil {
		next = maps.Clone(*m)
	}
	next[k] = q
	shard.Store(&next)
	return q
}

// All returns the queues by topic, in byte order, and id.
func (t *Table) All() []*Queue {
	var all []*Queue
	for i := range t.shard {
		if m := t.shard[i].Load(); m != nil {
			all = slices.AppendSeq(all, maps.Values(*m))
		}
	}
	slices.SortFunc(all, func(a, b *Queue) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.id, b.id))
	})
	return all
}
