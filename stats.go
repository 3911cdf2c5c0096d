package warmlog

// Stats are a store's figures at one moment. Offsets are physical, and ordered:
//
//	Min ≤ Checkpointed ≤ Dispatched ≤ Visible ≤ Written, Durable ≤ Written
type Stats struct {
	Min     int64 // of the oldest byte
	Written int64 // behind the newest record
	Visible int64 // up to here consumers see the log
	Durable int64 // up to here it survives a power cut
	// Dispatched is up to where the queues have what is visible.
	Dispatched int64
	// Checkpointed is up to where queues are on disk: the next start reads the log from there.
	Checkpointed int64

	Segments  int
	Queues    int
	OpenFiles int   // segments and queue files that are mapped
	Unlinked  int64 // bytes of deleted segments that readers still hold
	// Conditions are why the store does less than it should, or soon may.
	Conditions []Condition
}

// Stats returns the figures as they are now. Of a store that is open for reading, all ends
// are where it has read up to.
func (s *Store) Stats() Stats {
	st := Stats{Conditions: s.conditions(), Segments: len(s.log.Segments()), OpenFiles: s.cache.Open(), Unlinked: s.log.Unlinked(), Queues: s.queues.Len()}
	if w := s.w; w != nil {
		// What can only be ahead is read last, so that the order holds.
		st.Checkpointed = w.checkpointed.Load()
		st.Dispatched = w.dispatch.pos.Load()
		st.Visible, st.Durable = s.log.Max(), w.appender.Durable()
		st.Written = w.appender.End()
	} else {
		end := s.log.Max()
		st.Checkpointed, st.Dispatched, st.Visible, st.Durable, st.Written = end, end, end, end, end
	}
	st.Min = min(s.log.Min(), st.Checkpointed)
	return st
}
