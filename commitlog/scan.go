package commitlog

import (
	"errors"
	"io"

	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/message"
	"github.com/warmlog/warmlog/pagecache"
)

// ErrBlank is the damage of a blank that does not fill its segment exactly.
var ErrBlank = message.NewKind("bad-blank", "the blank does not reach to the end of its segment")

// A scanner reads a little at first, since who looks at the end of the log often finds
// nothing there, and twice as much each time, up to what is large enough for full speed and
// small enough to stay in a processor's cache.
const (
	firstBlock = 4 << 10
	block      = 1 << 20
)

// Scanner reads records in physical order by pread. It is for one goroutine.
//
//	s := log.Scan(from, to, true)
//	defer s.Close()
//	for s.Next() { use(s.View(), s.Pos()) }
//	if err := s.Err(); err != nil { … }        // nil: it reached to
type Scanner struct {
	log   *Log
	check bool
	pos   int64 // where the next record should begin
	to    int64

	view message.View
	at   int64 // where view begins
	err  error

	seg   *Segment
	file  *mapfile.File // of seg, with a reference
	buf   []byte        // the log's bytes from bufAt on
	bufAt int64
	ahead int // bytes to read at once next time
	trade func(used []byte) []byte

	// leave is the physical offset below which segments leave no page in memory that was not
	// there; absent are the parts of seg that were not.
	leave  int64
	absent [][2]int64
}

// Scan starts reading at a record's beginning, up to a physical offset. The visible end
// does not bound it: who looks for the end has to look beyond. check makes it compare
// checksums too; that a record lies where it says is always checked.
func (l *Log) Scan(from, to int64, check bool) *Scanner {
	return &Scanner{log: l, check: check, pos: from, to: to, ahead: firstBlock}
}

// LeaveNothing makes the scanner give back the memory that the segments below a physical
// offset take in the page cache, but for what was there before.
func (s *Scanner) LeaveNothing(below int64) { s.leave = below }

// Trade makes the scanner ask for another buffer, of any capacity, before it reads over one: the
// records that lie in used stay as they are until trade returns it again.
func (s *Scanner) Trade(trade func(used []byte) (other []byte)) { s.trade = trade }

// View returns the record that Next found, valid until the next call.
func (s *Scanner) View() *message.View { return &s.view }

// Pos returns the physical offset of the record that Next found.
func (s *Scanner) Pos() int64 { return s.at }

// Offset returns where the scanner stands: behind the last record or blank.
func (s *Scanner) Offset() int64 { return s.pos }

// Err returns why Next stopped: nil when it reached its end, a *message.DamageError where
// no sound record follows, another error when a file could not be read.
func (s *Scanner) Err() error { return s.err }

// Passed moves a scanner that stopped with [ErrGone] to what is left of the log, and reports
// whether it did.
func (s *Scanner) Passed() bool {
	min := s.log.Min()
	if !errors.Is(s.err, ErrGone) || min <= s.pos {
		return false
	}
	s.Skip(min)
	return true
}

// Close gives the scanner's file up.
func (s *Scanner) Close() {
	if s.file != nil {
		pagecache.Drop(s.file.File(), s.absent)
		s.absent = nil
		s.file.Release()
		s.file, s.seg = nil, nil
	}
}

// Next finds the next record and reports whether there is one.
func (s *Scanner) Next() bool {
	s.err = nil
	for s.pos < s.to {
		if !s.enter() {
			return false
		}
		left := s.seg.Base + s.log.size - s.pos // bytes of the segment that are not used up
		head, err := s.peek(message.BlankSize)
		if err != nil {
			return s.stop(err)
		}
		n, blank, err := extent(head, left)
		if err == nil && !blank {
			err = s.record(n)
		}
		if err != nil {
			return s.stop(err)
		}
		begin := s.pos
		s.pos += n
		if !blank {
			s.at = begin
			return true
		}
	}
	return false
}

// extent returns how many bytes the record or blank takes that begins with head, of BlankSize
// bytes, where so many are left of the segment.
func extent(head []byte, left int64) (n int64, blank bool, err error) {
	size, magic := message.Size(head)
	n, blank = int64(size), magic == message.MagicBlank
	switch {
	case left < message.BlankSize:
		err = message.ErrSize
	case blank && n != left:
		err = ErrBlank
	case blank:
	case magic != message.MagicV1 && magic != message.MagicV2:
		err = message.ErrMagic
	case n < message.MinSize || n > left-message.BlankSize: // a blank must fit behind every record
		err = message.ErrSize
	}
	return n, blank, err
}

// record decodes and checks the record of n bytes at pos.
func (s *Scanner) record(n int64) error {
	if n > block {
		// A damaged size must not cost memory: see what the head says first.
		head, err := s.peek(message.HeaderSize)
		if err != nil {
			return err
		}
		if !message.PlausibleHead(head, s.pos) {
			return message.ErrLengths
		}
	}
	b, err := s.peek(int(n))
	if err != nil {
		return err
	}
	if s.view, err = message.Decode(b); err != nil {
		return err
	}
	if s.check {
		return s.view.CheckAt(s.pos)
	}
	return s.view.At(s.pos)
}

// enter makes seg the segment of pos.
func (s *Scanner) enter() bool {
	if s.seg != nil && s.pos >= s.seg.Base && s.pos < s.seg.End() {
		return true
	}
	s.Close()
	if s.pos >= s.log.Limit() {
		return s.stop(message.ErrTruncated) // a last segment that was cut
	}
	var err error
	if s.seg, s.file, err = s.log.open(s.pos); err != nil {
		return s.stop(err)
	}
	if s.seg.End() <= s.leave {
		s.absent = pagecache.MappedAbsent(s.file.Bytes())
	}
	s.buf, s.bufAt, s.ahead = s.buf[:0], s.pos, firstBlock
	return true
}

// stop ends the scan with a damage at pos, or with another error as it is.
func (s *Scanner) stop(err error) bool {
	if errors.Is(err, message.ErrDamaged) {
		var damage *message.DamageError
		if !errors.As(err, &damage) {
			err = s.log.Damage(s.pos, err)
		}
	}
	s.err = err
	return false
}

// peek returns n bytes from pos on, or message.ErrTruncated where the file ends before.
func (s *Scanner) peek(n int) ([]byte, error) {
	b, err := s.fill(n)
	if err == nil && len(b) < n {
		err = message.ErrTruncated
	}
	if err != nil {
		return nil, err
	}
	return b[:n], nil
}

// fill returns the buffered bytes from pos on, at least n of them where the file has so
// many.
func (s *Scanner) fill(n int) ([]byte, error) {
	from := int(s.pos - s.bufAt)
	if from < 0 || from > len(s.buf) {
		s.buf, s.bufAt, from = s.buf[:0], s.pos, 0
	}
	if from+n <= len(s.buf) {
		return s.buf[from:], nil
	}
	// Keep what is left of the buffer in front and fill up behind it.
	left := s.buf[from:]
	if s.trade != nil {
		s.buf = s.trade(s.buf)
	}
	want := int(min(int64(max(n, s.ahead)), s.seg.End()-s.pos))
	s.ahead = min(2*s.ahead, block)
	if cap(s.buf) < want {
		s.buf = make([]byte, want)
	}
	kept := copy(s.buf[:want], left)
	s.buf, s.bufAt = s.buf[:want], s.pos
	read, err := s.file.ReadAt(s.buf[kept:], s.pos+int64(kept)-s.seg.Base)
	s.buf = s.buf[:kept+read]
	if err != nil && !errors.Is(err, io.EOF) { // EOF: shortened since it was listed
		return nil, err
	}
	return s.buf, nil
}
