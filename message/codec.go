package message

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// What can go wrong with the decoding of a compressed body.
var (
	// ErrCompression says that the compression type in SysFlag is not known.
	ErrCompression = errors.New("unknown compression type")
	// ErrBodyTooLarge says that the decoded body is larger than the caller allows.
	ErrBodyTooLarge = errors.New("decoded body exceeds the limit")
)

// DecodedBody returns the body as its producer gave it. A body that is not compressed is
// returned as it lies, without a copy, and so is an empty one; a compressed one (zlib, LZ4 frame or Zstandard) is
// decoded into dst's free capacity or a larger buffer. limit bounds the decoded bytes, so
// that a small record cannot fill the memory; it is at least 0.
//
// The errors are [ErrCompression], [ErrBodyTooLarge] and, for a body that its codec cannot
// read, an [ErrDamaged].
func (v *View) DecodedBody(dst []byte, limit int64) ([]byte, error) {
	flag := v.SysFlag()
	if flag&SysFlagCompressed == 0 || len(v.Body()) == 0 {
		return v.Body(), nil
	}
	r, done, err := decoder(flag&SysFlagCompressionMask, v.Body(), limit)
	if err != nil {
		return nil, err
	}
	defer done()
	buf := bytes.NewBuffer(dst[:0])
	n, err := buf.ReadFrom(io.LimitReader(r, min(limit, math.MaxInt64-1)+1))
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded), n > limit:
		return nil, fmt.Errorf("%w of %d bytes", ErrBodyTooLarge, limit)
	case err != nil:
		return nil, &bodyError{err}
	}
	return buf.Bytes(), nil
}

// bodyError is an ErrDamaged that keeps the codec's own words.
type bodyError struct{ err error }

func (e *bodyError) Error() string        { return "compressed body: " + e.err.Error() }
func (e *bodyError) Unwrap() error        { return e.err }
func (e *bodyError) Is(target error) bool { return target == ErrDamaged }

// leastWindow is what a Zstandard decoder should support at the least (RFC 8878), and more
// than the usual levels take.
const leastWindow = 8 << 20

// decoder opens a body of a compression type. done gives back what the decoder holds.
func decoder(kind int32, body []byte, limit int64) (r io.Reader, done func(), err error) {
	nothing := func() {}
	switch kind {
	case 0, SysFlagZlib: // 0: written by releases that know only zlib
		z, err := zlib.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, nil, &bodyError{err}
		}
		return z, nothing, nil
	case SysFlagLZ4:
		return lz4.NewReader(bytes.NewReader(body)), nothing, nil
	case SysFlagZstd:
		// The window is allocated before the first byte is decoded: a frame of ten bytes may ask
		// for any size.
		window := zstd.WithDecoderMaxWindow(uint64(min(max(limit, leastWindow), zstd.MaxWindowSize)))
		z, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), window)
		if err != nil {
			return nil, nil, &bodyError{err}
		}
		return z, z.Close, nil
	}
	return nil, nil, fmt.Errorf("%w %#x", ErrCompression, kind)
}
