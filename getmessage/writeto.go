package getmessage

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"unsafe"

	"github.com/warmlog/warmlog/internal/mapfile"
)

// ErrReleased says that a batch was to be written that was released before, also by a Get that
// failed: its records, which the prefix counts, are gone. Nothing was written.
var ErrReleased = errors.New("the batch was released before it was written")

// errCount is of a writer that breaks the contract of io.Writer.
var errCount = errors.New("the writer returned an impossible count")

// sending is what WriteTo needs: in the batch, so that it is allocated once.
type sending struct {
	slices [][]byte
	rest   net.Buffers // of slices, not written yet
}

// WriteTo writes a prefix, such as the header of a protocol's frame (nil: none), and the batch's
// records behind it: len(prefix) + [Batch.Bytes] bytes. It returns how many of them were
// written, which are all unless there is an error.
//
// To a *net.TCPConn or *net.UnixConn it is one writev: prefix and records go from where they
// lie, the log's own memory, to the socket; more than 1,024 slices (see
// [Batch.AppendSegments]), or a socket buffer that is full, take further ones. Once the batch
// has grown nothing is allocated. A page that has left memory meanwhile is read within the
// system call, which delays no other goroutine.
//
// Any other writer, as a *tls.Conn or *bufio.Writer, gets copies, in pieces of 64 KiB (and what
// remains): what it would do with many small ones, or with a fault in the middle, while it
// holds its locks, is not ours to know. So does a type that has a connection embedded: its own
// Write counts. Of a piece that cannot be read whole nothing is written.
//
// After an error with 0 < n < len(prefix) + Bytes the peer has a part of a frame: close the
// connection. After 0 bytes it can take another frame. Errors of the connection are passed on as
// they are: a deadline is set by the caller, on the connection, and is os.ErrDeadlineExceeded.
// Where the log's file was shortened meanwhile, or its disk fails, the error is a
// *message.DamageError with file and offset, as that of [Guard]; of a [Log] whose memory is not
// a file of this module it has no place, but is still a message.ErrDamaged. A released batch is
// [ErrReleased].
//
// The records are held, and with them files that were deleted, as long as the write takes,
// which is up to the peer, and until Release. Another goroutine must not release the batch
// meanwhile.
func (b *Batch) WriteTo(w io.Writer, prefix []byte) (n int64, err error) {
	if b.ended {
		return 0, ErrReleased
	}
	s := &b.sending
	s.slices = s.slices[:0]
	if len(prefix) > 0 {
		s.slices = append(s.slices, prefix)
	}
	s.slices = b.AppendSegments(s.slices)
	s.rest = s.slices
	switch w.(type) {
	case *net.TCPConn, *net.UnixConn:
		if n, err = s.rest.WriteTo(w); errors.Is(err, syscall.EFAULT) {
			err = unreadable(s.rest, err)
		}
	default:
		n, err = writeCopies(w, &s.rest)
	}
	clear(s.slices) // keeps neither the prefix nor memory that is gone
	s.rest = nil
	return n, err
}

// copyBytes is a multiple of the most that TLS sends in a record.
const copyBytes = 64 << 10

// copies are pooled: there is one for each write that is under way, not for each batch.
var copies = sync.Pool{New: func() any { return new([copyBytes]byte) }}

// writeCopies writes copies of slices, and leaves in them what was not copied.
func writeCopies(w io.Writer, slices *net.Buffers) (sent int64, err error) {
	buf := copies.Get().(*[copyBytes]byte)
	defer copies.Put(buf)
	for len(*slices) > 0 {
		n, err := gather(buf[:], slices)
		if err != nil {
			return sent, err // nothing of this piece
		}
		m, err := w.Write(buf[:n])
		if m < 0 || m > n {
			return sent, errCount
		}
		sent += int64(m)
		if err == nil && m < n {
			err = io.ErrShortWrite
		}
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// gather fills dst from slices and leaves in them what did not fit.
func gather(dst []byte, slices *net.Buffers) (n int, err error) {
	err = readable(func() {
		for n < len(dst) && len(*slices) > 0 {
			first := (*slices)[0]
			m := copy(dst[n:], first)
			n += m
			if m < len(first) {
				(*slices)[0] = first[m:]
				return
			}
			*slices = (*slices)[1:]
		}
	})
	if err != nil {
		// Of a slice copy may have met any page first.
		if first := readable(func() { touch(*slices) }); first != nil {
			err = first
		}
	}
	return n, err
}

// unreadable makes the error of slices that the kernel could not read. It does not say where
// that was: touching them does.
func unreadable(slices [][]byte, cause error) error {
	damage := readable(func() { touch(slices) })
	if damage == nil {
		return fmt.Errorf("records could not be read while they were sent, but can be again: %w", cause)
	}
	return fmt.Errorf("%w: %w", damage, cause)
}

// readable is mapfile.Guard for memory that need not be a file of mapfile's: a fault there is
// an error without a place.
func readable(read func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			err = mapfile.ErrFault
		default:
			panic(p)
		}
	}()
	return mapfile.Guard(read)
}

// touch loads a byte of each page of slices, and of each part the first that there is, so that
// a fault tells where the part begins that cannot be read. Inlined it would be left out: the
// result means nothing.
//
//go:noinline
func touch(slices [][]byte) (sum byte) {
	const page = 4096 // the smallest there is
	for _, s := range slices {
		for len(s) > 0 {
			sum += s[0]
			left := page - int(uintptr(unsafe.Pointer(unsafe.SliceData(s)))%page)
			s = s[min(left, len(s)):]
		}
	}
	return sum
}
