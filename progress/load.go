package progress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/warmlog/warmlog/message"
)

// MaxFileSize is the most bytes that a file may have to be read. An entry for one queue
// takes about 12 bytes, so this is 10 million queues. While it is read a file takes up to 25
// times its size in memory, if it was built to that end, and a real one 6 times; measured.
const MaxFileSize = 128 << 20

// spareSuffix is appended to the name of a file for that of the copy of its last text.
const spareSuffix = ".bak"

// Origin says where a table was read from.
type Origin struct {
	Path      string // the file that was used, which may be the spare copy
	Why       error  // why the spare copy was used; nil if it was not
	LeftOut   int    // entries that were passed over: see [Offsets]
	LeftOutAt int64  // the byte at which the first of them stands
}

// String returns a note for the log: the file, and what is odd about it.
func (o Origin) String() string {
	s := o.Path
	if o.Why != nil {
		s += fmt.Sprintf(", because of %v", o.Why)
	}
	if o.LeftOut > 0 {
		s += fmt.Sprintf(", without %d entries that name no queue or no offset, the first at byte %d", o.LeftOut, o.LeftOutAt)
	}
	return s
}

// load reads a file, or its spare copy by the rule in the package comment.
func load[T any](path string, parse func(*cursor) (*T, error)) (*T, Origin, error) {
	v, from, err := readFile(path, parse)
	missing := errors.Is(err, fs.ErrNotExist)
	if err == nil || !missing && !errors.Is(err, message.ErrDamaged) {
		return v, from, err
	}
	v, from, spareErr := readFile(path+spareSuffix, parse)
	switch {
	case spareErr == nil:
		from.Why = err
		return v, from, nil
	case missing && errors.Is(spareErr, fs.ErrNotExist):
		return nil, Origin{}, fmt.Errorf("%w, nor is there a %s%s", err, path, spareSuffix)
	default:
		return nil, Origin{}, fmt.Errorf("%w: %w; %w", ErrNoGoodCopy, present(err), present(spareErr))
	}
}

// present keeps the text of an error that says that a file is missing, but not its class:
// a caller who asks whether there is nothing would take a bad copy for none.
func present(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New(err.Error())
	}
	return err
}

func readFile[T any](path string, parse func(*cursor) (*T, error)) (*T, Origin, error) {
	src, err := readAll(path)
	if err != nil {
		return nil, Origin{}, err
	}
	c, err := newCursor(path, src)
	if err != nil {
		return nil, Origin{}, err
	}
	v, err := parse(c)
	if err != nil {
		return nil, Origin{}, err
	}
	return v, Origin{Path: path, LeftOut: c.leftOut, LeftOutAt: c.leftOutAt}, nil
}

func readAll(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // to open a pipe would wait for a writer
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	if info.Size() > MaxFileSize {
		return nil, tooLarge(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var buf bytes.Buffer
	buf.Grow(int(info.Size()) + bytes.MinRead)
	if _, err := buf.ReadFrom(io.LimitReader(f, MaxFileSize+1)); err != nil {
		return nil, err
	}
	switch {
	case buf.Len() == 0:
		return nil, &message.DamageError{File: path, Err: ErrEmpty}
	case buf.Len() > MaxFileSize: // it has grown since
		return nil, tooLarge(path)
	}
	return buf.Bytes(), nil
}

func tooLarge(path string) error {
	return &message.DamageError{File: path, Offset: MaxFileSize, Err: fmt.Errorf("%w: the limit is %d bytes", ErrTooLarge, MaxFileSize)}
}
