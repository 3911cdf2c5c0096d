package getmessage

import (
	"context"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/message"
)

const (
	// mostGap is how many bytes of other queues' records are read with a batch's, so that one
	// read does for several of its records.
	mostGap = 4 << 10
	// plausible is the size of a record from which on its head is looked at before memory is
	// taken for it: that stands in the queue, and may be damaged.
	plausible = 1 << 20
)

// readCold makes data the bytes of a record, and of those behind it that this batch will have
// too, read by system call.
func (s *scan) readCold(ctx context.Context, e consumequeue.Entry) error {
	if at := e.Offset - s.base; s.copied && at >= 0 && at+int64(e.Size) <= int64(len(s.data)) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if int64(e.Size) > plausible {
		var head [message.BlankSize]byte
		n, err := s.Log.ReadCold(head[:], e.Offset)
		if err != nil {
			return err
		}
		if size, _ := message.Size(head[:]); n < len(head) || size != e.Size {
			return message.ErrOtherEntry
		}
	}
	parts := s.coldReads()
	if buf := parts.kept.get(s.reader(), s.mem, e.Offset, e.End()); buf != nil {
		s.b.refs = append(s.b.refs, buf)
		s.base, s.data, s.copied = buf.from, buf.bytes, true
		return nil
	}
	from := e.Offset
	asked := s.extent(e) - from
	size := min(parts.windows.next(s.group, s.topic, s.queueID, from, asked), s.memEnd-from)
	buf := parts.buffers.get(int(size))
	s.b.refs = append(s.b.refs, buf)
	n, err := s.read(ctx, s.group, buf.bytes, from)
	if err != nil {
		return err
	}
	if n < int(e.Size) {
		return message.ErrTruncated
	}
	buf.from, buf.bytes = from, buf.bytes[:n:n]
	s.base, s.data, s.copied = from, buf.bytes, true
	if size > asked {
		parts.kept.put(s.reader(), s.mem, buf)
	}
	return nil
}

// reader names who pulls.
func (s *scan) reader() readerName { return readerName{s.group, s.topic, s.queueID} }

// coldParts are what cold reads of a Reader have in common.
type coldParts struct {
	buffers *buffers
	windows *windows
	kept    kept
}

func (r *Reader) coldReads() *coldParts {
	r.coldOnce.Do(func() { r.cold = &coldParts{buffers: newBuffers(0), windows: newWindows(0)} })
	return r.cold
}

// read reads the log in a lane. It is no method of scan, which a closure would move to the heap
// for every pull.
func (r *Reader) read(ctx context.Context, group string, b []byte, off int64) (n int, err error) {
	if r.Lanes == nil {
		return r.Log.ReadCold(b, off)
	}
	forget := func() {}
	busy := r.Lanes.Do(ctx, group, int64(len(b)),
		func() { forget = r.Log.Prefetch(off, int64(len(b))) },
		func() error { n, err = r.Log.ReadCold(b, off); return nil })
	forget()
	if busy != nil {
		return 0, busy
	}
	return n, err
}

// extent returns where a read ends that begins with a record: behind the records of the entries
// that follow it closely, as far as the batch has room for them.
func (s *scan) extent(e consumequeue.Entry) int64 {
	to := e.End()
	count, bytes := len(s.b.records)+1, s.b.Bytes+int64(e.Size)
	for rest := s.rest; len(rest) >= 2*consumequeue.EntrySize; {
		rest = rest[consumequeue.EntrySize:]
		next := consumequeue.Decode(rest)
		if s.filter != nil && !s.filter.MatchEntry(next.TagCode) {
			continue
		}
		if !next.Real() || next.Offset < to || next.Offset-to > mostGap || next.End() > s.memEnd {
			break
		}
		if s.Limits.full(count, bytes, int64(next.Size), s.want, s.wantBytes, s.inMemory(next)) {
			break
		}
		to, count, bytes = next.End(), count+1, bytes+int64(next.Size)
	}
	return to
}

// inMemory says which of the limits count for a record.
func (s *scan) inMemory(e consumequeue.Entry) bool {
	if s.Policy == Distance {
		return s.logMax-e.Offset <= s.threshold
	}
	return s.mode != cold
}

// next finds the record that decides how the next pull reads, among the entries that are left in a
// piece: the first that the filter does not reject.
func (s *scan) next(rest []byte) {
	if s.Policy == Distance || s.nextTo > 0 {
		return
	}
	for ; len(rest) >= consumequeue.EntrySize; rest = rest[consumequeue.EntrySize:] {
		e := consumequeue.Decode(rest)
		if s.filter != nil && !s.filter.MatchEntry(e.TagCode) {
			continue
		}
		if e.Real() && e.End() <= s.logMax {
			s.nextFrom, s.nextTo = e.Offset, e.End()
		}
		return
	}
}

// findNext is next where the pull ended with a piece of the queue.
func (s *scan) findNext() {
	if s.nextTo > 0 || s.b.NextOffset >= s.b.MaxOffset {
		return
	}
	entries, held, err := s.q.Slice(s.b.NextOffset)
	if err != nil {
		return // the next pull meets it
	}
	s.b.pin = held
	s.next(entries)
	s.b.unpin()
}
