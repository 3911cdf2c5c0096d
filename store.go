package warmlog

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmlog/warmlog/commitlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/message"
	"github.com/warmlog/warmlog/pagecache"
)

// Store is an open store. All methods may be called concurrently.
type Store struct {
	options   Options
	paths     layout.Store
	queueSize int64 // bytes of a queue file
	// anyFile is false where there is no queue file at all: queues were lost or are kept
	// elsewhere, and are made from the whole log.
	anyFile   bool
	cache     *mapfile.Cache
	log       *commitlog.Log
	queues    consumequeue.Table
	deleted   deletions
	threshold *pagecache.Threshold
	reader    *getmessage.Reader
	waiters   *getmessage.Waiters
	waited    chan struct{} // told when somebody waits in a store that is open for reading

	// checkpoint is that of the files when the store was opened, or the one written last.
	// Stored under mu and, while the store is open for writing, checkpointMu.
	checkpoint layout.Checkpoint
	abort      layout.Abort // likewise
	scanned    int64        // from this physical offset on, every record was dispatched
	lost       stretches    // of what was scanned by Open
	cutAt      int64        // where the log was being cut when the last process died; -1: nowhere
	// disorder is the most, in ms, by which a store time fell below an earlier one in what
	// was scanned.
	disorder atomic.Int64

	// lastRecord is the physical offset of the last sound record.
	lastRecord atomic.Int64

	followMu sync.Mutex // held by the one goroutine that reads new records
	dispatch *dispatcher
	listed   time.Time // when the segments were last listed; guarded by followMu
	read     int64     // physical offset up to which the log was given to dispatch; guarded by followMu
	newest   int64     // highest store time so far; guarded by followMu

	mu      sync.Mutex
	notes   []string               // guarded by mu
	tailCut *message.DamageError   // what ends the log; nil: the end of a segment. Set by Open
	damaged []*message.DamageError // found by Open, in order; guarded by mu

	w *writer // nil in a store that is open for reading only

	closed  atomic.Bool
	closing atomic.Pointer[string] // what Close waits for
	stop    context.CancelFunc
	done    sync.WaitGroup // the goroutines of this store
}

// Get answers one pull into a caller's batch, which may be used again. See package
// getmessage for statuses, errors and how long the records are valid.
//
// A pull at or above the end of its queue first looks for messages that came in.
func (s *Store) Get(ctx context.Context, req *getmessage.Request, b *getmessage.Batch) error {
	if s.closed.Load() {
		return ErrClosed
	}
	if err := s.get(ctx, req, b); err != nil {
		return mapfile.Explained(err)
	}
	switch b.Status {
	case getmessage.OffsetOverflowOne, getmessage.OffsetOverflowBadly, getmessage.NoMessageInQueue:
		if grew, err := s.follow(ctx); err != nil || !grew {
			return err
		}
		return s.get(ctx, req, b)
	}
	return nil
}

func (s *Store) get(ctx context.Context, req *getmessage.Request, b *getmessage.Batch) error {
	found := s.queues.Get(req.Topic, req.QueueID)
	if found == nil {
		return s.reader.Get(ctx, nil, req, b) // a nil *Queue would not be a nil Queue
	}
	err := s.reader.Get(ctx, found, req, b)
	if err != nil && s.quarantine(err, found) {
		return s.reader.Get(ctx, found, req, b)
	}
	return err
}

// Bounds returns the physical offsets of the log's oldest byte and behind its newest.
func (s *Store) Bounds() (min, max int64) { return s.log.Min(), s.log.Max() }

// Queues returns the queues that have a directory or a message, by topic in byte order and
// id.
func (s *Store) Queues() []consumequeue.Named {
	var all []consumequeue.Named
	for _, q := range s.queues.All() {
		if q.Exists() {
			all = append(all, consumequeue.Named{Topic: q.Topic(), ID: q.ID()})
		}
	}
	return all
}

// QueueBounds returns the offset of a queue's first message that is left and behind its
// last one. The error of a queue that is not known is [ErrUnknownQueue].
func (s *Store) QueueBounds(ctx context.Context, topic string, id int32) (min, max int64, err error) {
	q, err := s.queue(topic, id)
	if err != nil {
		return 0, 0, err
	}
	return q.Bounds(ctx)
}

func (s *Store) queue(topic string, id int32) (*consumequeue.Queue, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	if q := s.queues.Get(topic, id); q != nil {
		return q, nil
	}
	return nil, fmt.Errorf("%w: %s/%d", ErrUnknownQueue, topic, id)
}

// Notes returns what was odd about the store's files when it was opened, one line each.
func (s *Store) Notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(s.log.Notes(), s.notes...)
}

// Damaged returns the damage that Open passed over.
func (s *Store) Damaged() []*message.DamageError {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*message.DamageError(nil), s.damaged...)
}

func (s *Store) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	s.options.Logger.Warn(line)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, line)
}

// Close gives up the store's files. It waits for no batch: records stay valid until they
// are released.
func (s *Store) Close() error { return s.CloseContext(context.Background()) }

// CloseContext is [Store.Close] that waits no longer than ctx lasts. Its error then wraps that of
// ctx and says what it waited for. The store goes on being closed in the background: what is
// not done when the process ends is found by the next start, as after a crash, and nothing that
// was acknowledged is lost.
func (s *Store) CloseContext(ctx context.Context) error {
	if s.closed.Swap(true) {
		return ErrClosed
	}
	s.closingStep("those who wait for messages, and what runs in the background")
	if ctx.Done() == nil {
		return s.close()
	}
	done := make(chan error, 1)
	go func() { done <- s.close() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("close %s: %w, waiting for %s", s.paths, ctx.Err(), *s.closing.Load())
	}
}

// closingStep tells what Close waits for from now on.
func (s *Store) closingStep(format string, args ...any) {
	step := fmt.Sprintf(format, args...)
	s.closing.Store(&step)
	if s.options.Closing != nil {
		s.options.Closing(step)
	}
}

func (s *Store) close() error {
	s.waiters.Close()
	s.stop()
	if s.w != nil {
		s.w.appender.Wake() // who waits in WaitRaw
	}
	s.done.Wait()
	var err error
	if s.w != nil {
		err = s.w.close(s)
	}
	s.followMu.Lock() // let one that reads new records end
	defer s.followMu.Unlock()
	s.closeFiles()
	return err
}

// closeFiles gives up what the store has open for reading.
func (s *Store) closeFiles() {
	for _, q := range s.queues.All() {
		q.Close()
	}
	s.log.Unpin()
	s.log.Close()
}

// idleInterval is how long a file that nobody reads stays open and mapped, up to twice that.
const idleInterval = time.Minute

// keepThreshold reads the limits of memory and open files again from time to time, and closes
// files that nobody reads, until the store closes.
func (s *Store) keepThreshold(ctx context.Context) {
	tick := time.NewTicker(pagecache.RefreshInterval)
	defer tick.Stop()
	swept := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := s.threshold.Refresh(); err != nil {
				s.options.Logger.Warn("memory limits not read again", "error", err)
			}
			s.cache.SetLimit(mapfile.DefaultLimit())
			if time.Since(swept) >= idleInterval {
				s.cache.Sweep()
				swept = time.Now()
			}
		}
	}
}
