package message_test

import (
	"bytes"
	"compress/zlib"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/warmlog/warmlog/message"
)

func compressed(t testing.TB, kind int32, body []byte) []byte {
	var buf bytes.Buffer
	var w io.WriteCloser
	switch kind {
	case message.SysFlagLZ4:
		w = lz4.NewWriter(&buf)
	case message.SysFlagZstd:
		z, err := zstd.NewWriter(&buf)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	default:
		w = zlib.NewWriter(&buf)
	}
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func bodyView(t testing.TB, sysFlag int32, body []byte) message.View {
	m := &message.Message{Topic: "t", SysFlag: sysFlag, Body: body}
	v, err := message.Decode(message.AppendRecord(nil, m, netip.AddrPort{}, false))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDecodedBody(t *testing.T) {
	body := []byte(strings.Repeat("warm log, cold log; ", 500))
	plain := bodyView(t, 0, body)
	if got, err := plain.DecodedBody(nil, 0); err != nil || &got[0] != &plain.Body()[0] {
		t.Errorf("a plain body: %v, copied %v", err, got != nil && &got[0] != &plain.Body()[0])
	}
	for name, kind := range map[string]int32{"zlib, old": 0, "zlib": message.SysFlagZlib, "lz4": message.SysFlagLZ4, "zstd": message.SysFlagZstd} {
		v := bodyView(t, kind|message.SysFlagCompressed, compressed(t, kind, body))
		for _, limit := range []int64{int64(len(body)), 1 << 40, 1<<63 - 1} {
			if got, err := v.DecodedBody(nil, limit); err != nil || !bytes.Equal(got, body) {
				t.Errorf("%s within %d: %d bytes, %v", name, limit, len(got), err)
			}
		}
		for _, limit := range []int64{0, 1, int64(len(body)) - 1} {
			if _, err := v.DecodedBody(nil, limit); !errors.Is(err, message.ErrBodyTooLarge) {
				t.Errorf("%s within %d: %v", name, limit, err)
			}
		}
		dst := make([]byte, 0, 2*len(body)+1024)
		if got, err := v.DecodedBody(dst, 1<<20); err != nil || &got[0] != &dst[:1][0] {
			t.Errorf("%s: did not use the caller's buffer, %v", name, err)
		}
		full := v.Body()
		for _, cut := range []int{0, 1, len(full) / 2} {
			v := bodyView(t, kind|message.SysFlagCompressed, full[:cut])
			if got, err := v.DecodedBody(nil, 1<<20); errors.Is(err, message.ErrDamaged) == (cut == 0) {
				t.Errorf("%s cut at %d: %d bytes, %v", name, cut, len(got), err)
			}
		}
	}
	v := bodyView(t, 0x700|message.SysFlagCompressed, body)
	if _, err := v.DecodedBody(nil, 1<<20); !errors.Is(err, message.ErrCompression) {
		t.Errorf("unknown type: %v", err)
	}
}
