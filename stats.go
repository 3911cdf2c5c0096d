package warmlog

// Stats are a store's figures at one moment. Offsets are physical, in bytes, and ordered:
//
//	Min ≤ Checkpointed ≤ Dispatched ≤ Visible ≤ Written, Durable ≤ Written
type Stats struct {
	Min     int64 // of the oldest byte
	Written int64 // behind the newest record
	Visible int64 // up to here consumers see the log
	// Dispatched is up to where the queues have what is visible.
	Dispatched int64
	// OnDisk is nil in a store that is open for reading: what another process has synced is not
	// known there.
	OnDisk *OnDisk

	Segments int
	Queues   int // that have a directory or a message
	// OpenFiles are the segments and queue files that are mapped to be read.
	OpenFiles     int
	UnlinkedBytes int64 // of deleted segments that readers still hold
	// Conditions are why the store does less than it should, or soon may.
	Conditions []Condition
}

// OnDisk is how far the log has come to the disk, in physical offsets.
type OnDisk struct {
	Durable int64 // up to here it survives a power cut
	// Checkpointed is up to where queues are on disk: the next start reads the log from there.
	Checkpointed int64
}

// Stats returns the figures as they are now. Of a store that is open for reading, all ends
// are where it has read up to.
func (s *Store) Stats() Stats {
	st := Stats{Conditions: s.conditions(), Segments: len(s.log.Segments()), OpenFiles: s.cache.Open(), UnlinkedBytes: s.log.Unlinked()}
	for q := range s.queues.Each {
		if q.Exists() {
			st.Queues++
		}
	}
	if w := s.w; w != nil {
		// What can only be ahead is read last, so that the order holds.
		st.OnDisk = &OnDisk{Checkpointed: w.checkpointed.Load()}
		st.Dispatched = w.dispatch.pos.Load()
		st.Visible, st.OnDisk.Durable = s.log.Max(), w.appender.Durable()
		st.Written = w.appender.End()
		st.Min = min(s.log.Min(), st.OnDisk.Checkpointed)
	} else {
		end := s.log.Max()
		st.Dispatched, st.Visible, st.Written = end, end, end
		st.Min = min(s.log.Min(), end)
	}
	return st
}
