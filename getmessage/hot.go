package getmessage

import (
	"context"

	"github.com/warmlog/warmlog/consumequeue"
)

// mode says how the records of a batch are read: all of them in the same way. 0: nobody knows yet.
type mode uint8

const (
	_ mode = iota
	// hot: they are slices of the log, and every page of theirs is in memory.
	hot
	// cold: they were read by system call. A fault on a page that is not in memory would hold
	// up every goroutine of its processor, and a collection.
	cold
)

// mostCalls bounds how often the kernel is asked about the records of one batch.
const mostCalls = 8

// reachable makes the bytes of a record ready to be touched. full means that the record is not
// like those that the batch has, and is left for the next pull.
func (s *scan) reachable(ctx context.Context, e consumequeue.Entry) (full bool, err error) {
	if err := s.segment(e); err != nil {
		return false, err
	}
	warm := s.warm(e)
	if len(s.b.records) == 0 {
		s.mode = cold
		if warm {
			s.mode = hot
		}
	}
	switch {
	case s.mode == cold:
		return false, s.readCold(ctx, e)
	case !warm:
		return true, nil
	}
	s.base, s.data, s.copied = s.memBase, s.memData, false
	return false, nil
}

// warm reports whether every page of a record is in memory. What is not known is asked for, with
// what the batch will have behind it; where the kernel does not say, what is within the threshold
// is taken for it.
func (s *scan) warm(e consumequeue.Entry) bool {
	if e.Offset >= s.fresh {
		return true
	}
	at, n := e.Offset-s.memBase, int64(e.Size)
	r, _ := s.mem.Known(at, n)
	if r != Unknown {
		return r == InMemory
	}
	for _, n := range [...]int64{s.extent(e) - e.Offset, n} {
		if s.calls >= mostCalls {
			return false
		}
		a := s.mem.Ask(at, n)
		s.calls += a.Calls
		switch {
		case a.Presence == InMemory:
			return true // also remembered of the rest
		case a.Presence == Unknown:
			return s.logMax-e.Offset <= s.threshold
		case a.Resident == 0 || n == int64(e.Size):
			return false
		}
	}
	return false
}

// knownWarm returns how many of the leading entries name records of the mapped segment of which
// it is known, without a system call, that they are in memory; and a range of which all is.
func (s *scan) knownWarm(entries []byte) (n int, from, to int64) {
	n = len(entries) / consumequeue.EntrySize
	first, last := consumequeue.Decode(entries), consumequeue.Decode(entries[(n-1)*consumequeue.EntrySize:])
	// As a rule all of them, and what lies between: who lies elsewhere is not taken.
	if s.known(first.Offset, last.End()) {
		return n, first.Offset, last.End()
	}
	from, to = first.Offset, first.Offset
	for i := range n {
		e := consumequeue.Decode(entries[i*consumequeue.EntrySize:])
		if !s.known(to, e.End()) {
			return i, from, to
		}
		to = e.End()
	}
	return n, from, to
}

// known reports whether a range of the mapped segment is known to be in memory.
func (s *scan) known(from, to int64) bool {
	switch {
	case from >= to:
		return false
	case from >= s.fresh:
		return true
	case from < s.memBase || to > s.memEnd:
		return false
	}
	r, _ := s.mem.Known(from-s.memBase, to-from)
	return r == InMemory
}

// segment maps the segment that an entry points into. The batch holds one reference of each.
func (s *scan) segment(e consumequeue.Entry) error {
	if s.mem != nil && e.Offset >= s.memBase && e.Offset < s.memEnd && e.End() <= s.memEnd {
		return nil
	}
	min, max := s.Log.Bounds()
	switch {
	case e.Offset < min:
		return ErrRemoved
	case e.End() > max:
		return consumequeue.ErrEntry
	}
	base, data, held, err := s.Log.Map(e.Offset)
	if err != nil {
		return err
	}
	s.b.refs = append(s.b.refs, held)
	s.mem, s.memBase, s.memData, s.memEnd = held, base, data, base+int64(len(data))
	return nil
}
