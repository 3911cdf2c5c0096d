package commitlog

import (
	"bytes"

	"github.com/warmlog/warmlog/message"
)

// Skip moves the scanner to a record's beginning.
func (s *Scanner) Skip(to int64) { s.pos, s.err = to, nil }

// Resync looks for the next sound record or blank behind the place where Next stopped,
// within the same segment, and puts the scanner there. It reports false, and leaves the
// scanner where it was, when there is none. accept, if not nil, is asked about each
// record found; one that it does not accept is passed over.
//
// A record is recognised by its magic, by naming the very position where it lies, and by
// its checksums. Stretches of a file that were never written are skipped without reading
// them, where the file system can say so.
func (s *Scanner) Resync(accept func(*message.View) bool) bool {
	was, wasErr := s.pos, s.err
	seg := s.log.Segment(s.pos)
	for s.pos++; seg != nil && s.pos < seg.End() && s.enter(); {
		b, err := s.fill(message.BlankSize)
		if err != nil || len(b) < message.BlankSize {
			break
		}
		if i := nextMagic(b); i >= 0 {
			s.pos += int64(i)
			if s.sound(accept) {
				s.err = nil
				return true
			}
			s.pos++
			continue
		}
		// A size and magic may begin in the last bytes: they are looked at again.
		s.pos += int64(len(b) - message.BlankSize + 1)
		if data := s.file.DataFrom(s.pos - seg.Base); data < seg.Size {
			s.pos = max(s.pos, seg.Base+data)
		} else {
			break // a hole up to the end
		}
	}
	s.pos, s.err = was, wasErr
	return false
}

// sound reports whether a sound record or blank begins at pos, without moving.
func (s *Scanner) sound(accept func(*message.View) bool) bool {
	check := s.check
	s.check = true
	defer func() { s.check = check }()
	head, err := s.peek(message.BlankSize)
	if err != nil {
		return false
	}
	n, blank, err := extent(head, s.seg.Base+s.log.size-s.pos)
	if err != nil || blank {
		return err == nil && accept == nil
	}
	return s.record(n) == nil && (accept == nil || accept(&s.view))
}

// Followed reports whether a sound record or blank begins behind the record that Next found.
// That record stays the scanner's.
func (s *Scanner) Followed() bool {
	at := s.at
	ok := s.pos < s.to && s.enter() && s.sound(nil)
	s.Skip(at)
	return s.Next() && ok // looking ahead moved the buffer
}

// Again reads the record that Next found once more from its file, and reports whether it is
// still sound.
func (s *Scanner) Again() bool {
	s.buf, s.bufAt = s.buf[:0], s.at
	s.Skip(s.at)
	return s.Next()
}

// nextMagic returns where in b a record or blank could begin, four bytes before its
// magic; -1 for nowhere.
func nextMagic(b []byte) int {
	b = b[4:]
	record := bytes.Index(b, []byte{0xDA, 0xA3, 0x20})
	if record >= 0 {
		b = b[:record]
	}
	if blank := bytes.Index(b, []byte{0xCB, 0xD4, 0x31, 0x94}); blank >= 0 {
		return blank
	}
	return record
}

// LastStarted returns the last segment that begins with a sound record, nil if none does.
// Every segment before it is sealed: the log rolled over it.
func (l *Log) LastStarted() *Segment {
	segments := l.Segments()
	for i := len(segments) - 1; i >= 0; i-- {
		s := l.Scan(segments[i].Base, segments[i].End(), true)
		ok := s.Next()
		s.Close()
		if ok && s.at == segments[i].Base {
			return segments[i]
		}
	}
	return nil
}
