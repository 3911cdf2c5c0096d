package getmessage

import (
	"context"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/internal/mapfile"
)

// look finds out whether a waiter has anything to wait for. The waiter is registered already:
// what becomes visible from now on reaches it, what was visible before is seen here.
func (ws *Waiters) look(ctx context.Context, w *waiter, req *Request) {
	off := req.Offset
	if req.Topic == "" || req.QueueID < 0 {
		w.shard.take(w, Changed)
		return
	}
	var low, high int64
	q := ws.find(req.Topic, req.QueueID)
	if q != nil {
		var err error
		if low, high, err = q.Bounds(ctx); err != nil {
			w.shard.take(w, Changed) // a pull tells the error
			return
		}
	}
	status, next, _, outside := boundary(ws.role(), off, low, high)
	switch {
	case !outside && w.filter == nil:
		w.shard.take(w, Arrived)
	case !outside:
		at, cause, found := lookThrough(q, w.filter, off, high)
		w.shard.looked(w, at, false)
		if found {
			w.shard.take(w, cause)
		}
	case status == OffsetTooSmall || next != off:
		w.shard.take(w, Changed)
	case w.filter != nil || off > high:
		w.shard.looked(w, off, off > high)
	}
}

// lookEntries is how many messages are looked at for a waiter that comes late, as many as one
// pull looks at: one that is further behind has to pull.
const lookEntries = defaultFilterBytes / consumequeue.EntrySize

// lookThrough looks for a message that a filter may match, from off up to end. found says that
// there is one at offset at, or that nobody but a pull can tell; all below at is rejected.
func lookThrough(q Queue, filter Filter, off, end int64) (at int64, cause Cause, found bool) {
	stop := off + min(lookEntries, end-off)
	for at = off; at < stop && !found; {
		entries, held, err := q.Slice(at)
		if err != nil || len(entries) < consumequeue.EntrySize {
			return at, Changed, true
		}
		fault := mapfile.Guard(func() {
			for ; at < stop && len(entries) >= consumequeue.EntrySize; entries = entries[consumequeue.EntrySize:] {
				e := consumequeue.Decode(entries)
				if found = !e.Real() || filter.MatchEntry(e.TagCode); found {
					return
				}
				at++
			}
		})
		if held != nil {
			held.Release()
		}
		if fault != nil {
			return at, Changed, true
		}
	}
	return at, Arrived, found || stop < end
}
