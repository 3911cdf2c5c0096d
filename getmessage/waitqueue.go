package getmessage

import "container/heap"

// A heldQueue is a queue that somebody waits on.
type heldQueue struct {
	name  queueName
	hash  uint64
	lists [3][]*waiter
}

// The lists of a queue. At its end, or where they may yet turn out not to be, are those that
// want any message, and those with a filter. ahead, a heap by offset, has those that a slave
// holds until its queue comes that far.
const (
	plain = iota
	filtered
	ahead
)

func listOf(w *waiter) uint8 {
	if w.filter != nil {
		return filtered
	}
	return plain
}

func (q *heldQueue) put(w *waiter, list uint8) {
	w.list = list
	if list == ahead {
		heap.Push((*byOffset)(&q.lists[ahead]), w)
		return
	}
	w.at = len(q.lists[list])
	q.lists[list] = append(q.lists[list], w)
}

func (q *heldQueue) holds(w *waiter) bool {
	list := q.lists[w.list]
	return w.at < len(list) && list[w.at] == w
}

func (q *heldQueue) remove(w *waiter) {
	list := &q.lists[w.list]
	if w.list == ahead {
		heap.Remove((*byOffset)(list), w.at)
		return
	}
	n := len(*list) - 1
	last := (*list)[n]
	(*list)[w.at], last.at = last, w.at
	(*list)[n] = nil
	*list = (*list)[:n]
}

func (q *heldQueue) empty() bool {
	return len(q.lists[plain])+len(q.lists[filtered])+len(q.lists[ahead]) == 0
}

// shrink gives up what many waiters have left behind.
func (q *heldQueue) shrink() {
	for i := range q.lists {
		if cap(q.lists[i]) > callsAtOnce {
			q.lists[i] = nil
		}
	}
}

type byOffset []*waiter

func (h byOffset) Len() int           { return len(h) }
func (h byOffset) Less(i, j int) bool { return h[i].offset < h[j].offset }
func (h byOffset) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *byOffset) Push(w any) {
	w.(*waiter).at = len(*h)
	*h = append(*h, w.(*waiter))
}

func (h *byOffset) Pop() any {
	n := len(*h) - 1
	w := (*h)[n]
	(*h)[n] = nil
	*h = (*h)[:n]
	return w
}
