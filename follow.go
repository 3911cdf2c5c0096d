package warmlog

import (
	"context"
	"math"
	"time"

	"github.com/warmlog/warmlog/message"
)

// relist is how often the directory is looked at for segments that came or went.
const relist = time.Second

// follow takes what was written to the log since it was last read, and reports whether
// there was something. While another goroutine does so, it waits for nothing.
func (s *Store) follow(ctx context.Context) (grew bool, err error) {
	if s.w != nil {
		return false, nil // this store's own dispatch does that
	}
	if !s.followMu.TryLock() {
		return false, nil
	}
	defer s.followMu.Unlock()
	if s.closed.Load() {
		return false, ErrClosed
	}
	if now := time.Now(); now.Sub(s.listed) >= relist || s.log.Max() == s.log.Limit() {
		s.listed = now
		if err := s.log.Refresh(); err != nil {
			return false, err
		}
	}
	from := s.log.Max()
	if from > s.read {
		// Retention was faster than this reader: nobody knows how many messages of each queue
		// it passed over.
		s.dispatch = newDispatcher(s)
	}
	scan := s.log.Scan(from, s.log.Limit(), true)
	defer scan.Close()
	for n := 0; scan.Next(); n++ {
		if s.unfinished(scan) {
			scan.Skip(scan.Pos())
			break
		}
		s.saw(scan.View())
		// The log first: an entry that a reader sees must lie below the log's end.
		s.log.SetMax(scan.Offset())
		if err := s.dispatch.add(scan.View(), scan.Pos()); err != nil {
			return false, err
		}
		if n%1024 == 0 && ctx.Err() != nil {
			break
		}
	}
	// What stopped the scan is the tail, or a record that is being written.
	if scan.Offset() == from {
		return false, nil
	}
	s.read = scan.Offset()
	s.log.SetMax(s.read) // behind a blank
	return true, s.dispatch.end()
}

// saw takes note of a record in physical order: which is the last one, and of a clock that
// was set back.
func (s *Store) saw(v *message.View) {
	s.lastRecord.Store(v.PhysicalOffset())
	stored := v.StoreTimestamp()
	if stored >= s.newest {
		s.newest = stored
		return
	}
	back := s.newest - stored
	if back < 0 { // a time that no clock has shown
		back = math.MaxInt64
	}
	if back > s.disorder.Load() {
		s.disorder.Store(back)
	}
}
