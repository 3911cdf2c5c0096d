package storetest

import (
	"os"
	"path/filepath"

	"github.com/warmlog/warmlog/internal/layout"
)

// buffered is what is written to a segment at once.
const buffered = 1 << 20

// segments writes a log.
type segments struct {
	dir     string
	size    int64
	pos     int64 // physical offset of the next byte
	premake bool
	pieces  int

	file *os.File // of the segment that begins at base, or nil
	base int64
	buf  []byte // not yet written
	from int64  // physical offset of the first byte of buf
}

func (s *segments) left() int64 { return s.size - s.pos%s.size }

// write appends bytes that lie within one segment.
func (s *segments) write(p []byte) error {
	if s.file == nil || len(s.buf)+len(p) > buffered || s.pos-s.pos%s.size != s.base {
		if err := s.flush(); err != nil {
			return err
		}
		if err := s.enter(); err != nil {
			return err
		}
	}
	s.buf = append(s.buf, p...)
	s.pos += int64(len(p))
	return nil
}

func (s *segments) skip(n int64) error {
	if err := s.flush(); err != nil {
		return err
	}
	s.pos += n
	s.from = s.pos
	return nil
}

// enter makes file the segment of pos.
func (s *segments) enter() error {
	base := s.pos - s.pos%s.size
	s.from = s.pos
	if s.file != nil && base == s.base {
		return nil
	}
	if err := s.close(); err != nil {
		return err
	}
	var err error
	if s.file, err = s.create(base); err != nil {
		return err
	}
	s.base = base
	if !s.premake {
		return nil
	}
	next, err := s.create(base + s.size)
	if err != nil {
		return err
	}
	return next.Close()
}

// create makes the segment at base, at full length, if it does not exist.
func (s *segments) create(base int64) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, layout.FileName(base)), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	return f, f.Truncate(s.size)
}

func (s *segments) flush() error {
	for b := s.buf; len(b) > 0; {
		piece := b
		if s.pieces > 0 {
			piece = b[:min(s.pieces, len(b))]
		}
		if _, err := s.file.WriteAt(piece, s.from%s.size); err != nil {
			return err
		}
		s.from += int64(len(piece))
		b = b[len(piece):]
	}
	s.buf = s.buf[:0]
	return nil
}

func (s *segments) close() error {
	if err := s.flush(); err != nil || s.file == nil {
		return err
	}
	err := s.file.Close()
	s.file = nil
	return err
}
