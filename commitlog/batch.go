package commitlog

import (
	"unsafe"

	"github.com/warmlog/warmlog/message"
)

// writeFrom is from how many bytes on records that came together are written by a system call,
// in Written mode too: it costs less than the faults of the pages that they would be stored to.
const writeFrom = 16 << 10

// oneBuffer returns how many bytes records take that lie in one buffer, one behind the other; 0
// if they do not.
func oneBuffer(records []Placed) (bytes int) {
	for i := range records {
		b := records[i].Record
		if i+1 < len(records) {
			next := records[i+1].Record
			if cap(b) < len(b)+len(next) || unsafe.Pointer(unsafe.SliceData(next)) != unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), len(b)) {
				return 0
			}
		}
		bytes += len(b)
	}
	return bytes
}

// writeLocked gives records of one buffer their places and writes those that come into one
// segment at once. Room was made for all of them: see planLocked.
func (a *Appender) writeLocked(records []Placed) error {
	a.ahead.written.Store(true)
	for len(records) > 0 {
		if err := a.roomLocked(int64(len(records[0].Record))); err != nil {
			return err
		}
		w := a.mu.cur
		left := w.base + w.size - a.mu.pos - message.BlankSize
		n, bytes := 0, int64(0)
		for n < len(records) && bytes+int64(len(records[n].Record)) <= left {
			a.stampLocked(&records[n], a.mu.pos+bytes)
			bytes += int64(len(records[n].Record))
			n++
		}
		if err := a.ahead.write(chunk{seg: w, at: a.mu.pos - w.base, data: records[0].Record[:bytes]}); err != nil {
			return err
		}
		a.movedLocked(bytes)
		records = records[n:]
	}
	return nil
}

// stampLocked gives a record its place.
func (a *Appender) stampLocked(p *Placed, pos int64) {
	p.Offset, p.StoreTime, p.QueueOffset = pos, a.mu.time, 0
	if p.Next != nil {
		p.QueueOffset = *p.Next
		*p.Next++
	}
	message.Stamp(p.Record, p.QueueOffset, p.Offset, p.StoreTime, a.o.WithCRC)
}
