package warmlog_test

import (
	"bytes"
	"compress/zlib"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/warmlog/warmlog/message"
)

type packed struct {
	name string
	flag int32
	body []byte
}

// compressed packs a text in every way that a record may say.
func compressed(t *testing.T, text []byte) (all []packed) {
	pack := func(name string, flag int32, open func(w io.Writer) (io.WriteCloser, error)) {
		var b bytes.Buffer
		w, err := open(&b)
		must(t, err)
		_, err = w.Write(text)
		must(t, err)
		must(t, w.Close())
		all = append(all, packed{name, message.SysFlagCompressed | flag, b.Bytes()})
	}
	z := func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil }
	pack("zlib as releases before 5.0 mark it", 0, z)
	pack("zlib", message.SysFlagZlib, z)
	pack("lz4", message.SysFlagLZ4, func(w io.Writer) (io.WriteCloser, error) { return lz4.NewWriter(w), nil })
	pack("zstd", message.SysFlagZstd, func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) })
	return append(all, packed{"not packed", 0, text})
}
