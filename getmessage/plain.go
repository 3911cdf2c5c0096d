package getmessage

import (
	"encoding/binary"
	"slices"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/message"
)

// plain is the hot path. It takes messages as long as they are near the end of the log, in
// the segment at hand, within the limits, and their records are the ones that the entries
// name; it returns how many. This process has seen these records whole (see Queue.Checked),
// so that of each only the head is compared again. Of the last one, which lies furthest
// behind in the segment, both ends are: a file that was shortened reads as zeros up to the
// end of its last page, and may have lost the bodies that belong to sound heads.
func (s *scan) plain(entries []byte, off int64) int {
	if s.mem == nil && s.segment(consumequeue.Decode(entries)) != nil {
		return 0
	}
	b := s.b
	n := min(s.want, s.Limits.MemoryMessages) - len(b.records)
	n = min(n, len(entries)/consumequeue.EntrySize)
	if n <= 0 {
		return 0
	}
	n, from, to := s.knownWarm(entries[:n*consumequeue.EntrySize])
	if n == 0 {
		return 0
	}
	entries = entries[:n*consumequeue.EntrySize]
	s.base, s.data, s.copied = s.memBase, s.memData, false
	data := s.data[:min(int64(len(s.data)), max(to-s.base, 0))]
	// Records before low are not for here: they were removed or, by Distance, count as on disk.
	low := max(s.skipUntil, s.base, from)
	if s.Policy == Distance {
		low = max(low, s.logMax-s.threshold)
	}
	low -= s.base
	room := min(s.wantBytes, s.Limits.MemoryBytes) - b.Bytes
	s.touched = touchHeads(data, entries, s.base, uint64(low))
	first := len(b.records)
	b.records = slices.Grow(b.records, n)
	n = viewsOf(b.records[first:first+n], entries, data, s.base, uint64(low), room, s.queueID, off)
	for n > 0 && !b.records[first : first+n][n-1].Whole() {
		n--
	}
	b.records = b.records[:first+n]
	for i := first; i < len(b.records); i++ {
		b.Bytes += int64(b.records[i].Size())
	}
	if n > 0 {
		s.mode = hot
		last := consumequeue.Decode(entries[(n-1)*consumequeue.EntrySize:])
		s.pulled, s.reached = last.Offset, true
	}
	return n
}

// touchHeads loads the heads of the records that entries name in a segment, all at once.
// The loop that compares them would wait for one cache miss after the other: a processor
// does not see far enough ahead in it. The result means nothing.
func touchHeads(data, entries []byte, base int64, low uint64) (sum byte) {
	for len(entries) >= consumequeue.EntrySize {
		at := binary.BigEndian.Uint64(entries) - uint64(base) // of one before the segment, a huge one
		if at < low || at >= uint64(len(data)) || uint64(len(data))-at < message.MinSize {
			break
		}
		head := (*message.Head)(data[at:])
		sum += head[0] + head[len(head)-1]
		entries = entries[consumequeue.EntrySize:]
	}
	return sum
}

// viewsOf makes views of the records that entries name, the first of them message off of a
// queue, in a segment that begins at base and of which the bytes from low on count. It ends
// before a record that is not the one named, or with which they took more than room, and
// returns how many it made.
func viewsOf(views []message.View, entries, data []byte, base int64, low uint64, room int64, queueID int32, off int64) int {
	for i := range views {
		e := (*[12]byte)(entries[i*consumequeue.EntrySize:])
		pos := binary.BigEndian.Uint64(e[:])
		size := uint64(binary.BigEndian.Uint32(e[8:]))
		at := pos - uint64(base) // of one before the segment, a huge one
		room -= int64(size)
		if at < low || at >= uint64(len(data)) || size > uint64(len(data))-at || size < message.MinSize || room < 0 {
			return i
		}
		rec := data[at : at+size : at+size]
		if !(*message.Head)(rec).Names(e, queueID, off+int64(i)) {
			return i
		}
		views[i] = message.ViewOf(rec)
	}
	return len(views)
}
