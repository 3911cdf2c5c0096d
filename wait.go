package warmlog

import (
	"context"
	"errors"
	"time"

	"github.com/warmlog/warmlog/getmessage"
)

// Register calls fn once, when a pull that found nothing yet is worth another try, or at a
// deadline: see [getmessage.Waiters.Register] for when exactly, on which goroutine, and what fn
// must not do (block, and Close this store). The zero deadline is none; cancel reports whether
// it was in time.
//
// What else happens to a store answers its waiters, or leaves them waiting:
//
//	the offset is none to wait at             Changed, at once: below the queue's minimum; on a
//	                                          master above its end, or not 0 in an unknown queue
//	Append, AppendRaw, SetVisibleLimit up     Arrived, when the message is visible in its queue
//	SetVisibleLimit down, retention           they wait: what was visible stays so
//	DeleteTopic, DeleteQueue, ApplyDeletions  Deleted, when the queue was cleared
//	Truncate, SetRole                         Changed, all: offsets may have other answers
//	a failure (ErrFailed)                     they wait: a pull has no news, and who was told
//	                                          would only come again
//	Close                                     Closed; also for who registers later
//
// In a store opened for reading only, another process's messages are looked for every 50 ms
// while somebody waits. An error of that wakes all, with Changed: Get returns it.
func (s *Store) Register(req *getmessage.Request, deadline time.Time, fn func(getmessage.Woken)) (cancel func() bool) {
	return s.waiters.Register(req, deadline, fn)
}

// Wait returns when a pull that found nothing yet is worth another try: see [Store.Register].
// The error is that of ctx, or [ErrClosed].
func (s *Store) Wait(ctx context.Context, req *getmessage.Request) (getmessage.Woken, error) {
	woken, err := s.waiters.Wait(ctx, req)
	if err == nil && woken.Cause == getmessage.Closed {
		err = ErrClosed
	}
	return woken, err
}

// newWaiters makes the store's waiters. Where nothing but a look tells of new messages, they ask
// for one.
func (s *Store) newWaiters() *getmessage.Waiters {
	ws := getmessage.NewWaiters(s.findQueue, s.reader.Role)
	if s.w == nil {
		s.waited = make(chan struct{}, 1)
		ws.Held = func() {
			select {
			case s.waited <- struct{}{}:
			default: // it was told, and has not looked yet
			}
		}
	}
	return ws
}

// findQueue returns a queue for waiters, nil if it is not known.
func (s *Store) findQueue(topic string, id int32) getmessage.Queue {
	if q := s.queues.Get(topic, id); q != nil {
		return q
	}
	return nil // a nil *Queue would not be a nil Queue
}

// followInterval is how often a store that is open for reading looks for new messages while
// somebody waits: a read of a few bytes, and of the directory once a second.
const followInterval = 50 * time.Millisecond

// followForWaiters follows the log while somebody waits, until ctx ends.
func (s *Store) followForWaiters(ctx context.Context) {
	for {
		select {
		case <-s.waited:
		case <-ctx.Done():
			return
		}
		for s.waiters.Any() {
			select {
			case <-time.After(followInterval):
			case <-ctx.Done():
				return
			}
			if _, err := s.follow(ctx); errors.Is(err, ErrClosed) {
				return
			} else if err != nil {
				s.waiters.WakeAll(getmessage.Changed)
			}
		}
	}
}
