package getmessage_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/warmlog/warmlog/getmessage"
)

// connected returns the two ends of a connection.
func connected(t testing.TB, network string) (ours, peer net.Conn) {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = filepath.Join(t.TempDir(), "s")
	}
	ln, err := net.Listen(network, addr)
	must(t, err)
	defer ln.Close()
	ours, err = net.Dial(network, ln.Addr().String())
	must(t, err)
	peer, err = ln.Accept()
	must(t, err)
	t.Cleanup(func() { ours.Close(); peer.Close() })
	return ours, peer
}

// tooLarge is a batch of a log that does not fit into the buffers of a connection.
func tooLarge(t *testing.T, network string) (l *fileLog, b *getmessage.Batch, ours, peer net.Conn) {
	t.Helper()
	l = newFileLog(t, 40, 100_000, scattered)
	ours, peer = connected(t, network)
	narrow(t, ours, peer)
	b = new(getmessage.Batch)
	l.get(b)
	t.Cleanup(b.Release)
	return l, b, ours, peer
}

// narrow makes the buffers of a connection smaller than the frames of a test.
func narrow(t testing.TB, conns ...net.Conn) {
	for _, c := range conns {
		c := c.(interface {
			SetReadBuffer(int) error
			SetWriteBuffer(int) error
		})
		must(t, errors.Join(c.SetReadBuffer(1<<16), c.SetWriteBuffer(1<<16)))
	}
}

// received returns what a peer reads up to the end.
func received(peer net.Conn) <-chan []byte {
	all := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(peer) // what came before a reset counts too
		all <- b
	}()
	return all
}

func eachNetwork(t *testing.T, run func(t *testing.T, network string)) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) { run(t, network) })
	}
}

func TestFrameIsPrefixAndRecords(t *testing.T) {
	some := func(i int) int { return 24 * (i % 3 / 2) } // two of three are adjacent
	shapes := []struct {
		name string
		n    int
		size int
		gap  func(int) int
	}{
		{"one", 1, 1000, adjacent}, {"adjacent", 32, 1000, adjacent}, {"scattered", 32, 1000, scattered},
		{"mixed", 33, 100, some}, {"more than IOV_MAX", 2500, 50, scattered}, {"large", 40, 100_000, some},
	}
	eachNetwork(t, func(t *testing.T, network string) {
		for _, s := range shapes {
			for _, prefix := range []string{"", "a header of a frame"} {
				t.Run(fmt.Sprintf("%s/prefix=%d", s.name, len(prefix)), func(t *testing.T) {
					l := newFileLog(t, s.n, s.size, s.gap)
					ours, peer := connected(t, network)
					got := received(peer)
					var b getmessage.Batch
					want := []byte(nil)
					for range 2 { // a batch that is used again, and a frame written twice
						l.get(&b)
						for range 2 {
							n, err := b.WriteTo(ours, []byte(prefix))
							if err != nil || n != int64(len(prefix))+b.Bytes {
								t.Fatalf("%d bytes of %d + %d: %v", n, len(prefix), b.Bytes, err)
							}
							want = append(want, l.frame(prefix)...)
						}
					}
					b.Release()
					ours.Close()
					if all := <-got; !bytes.Equal(all, want) {
						t.Errorf("the peer read %d bytes, not the %d of the frames", len(all), len(want))
					}
				})
			}
		}
	})
}

func TestSegmentsAreCoalesced(t *testing.T) {
	for _, c := range []struct {
		gap  func(i int) int
		want int
	}{
		{adjacent, 1}, {scattered, 30}, {func(i int) int { return i / 29 * 8 }, 2},
		{func(i int) int { return i % 3 / 2 }, 11},
	} {
		l := newFileLog(t, 30, 500, c.gap)
		var b getmessage.Batch
		if got := b.AppendSegments(nil); got != nil {
			t.Errorf("%d slices of an empty batch", len(got))
		}
		l.get(&b)
		own := [][]byte{[]byte("of the caller")}
		got := b.AppendSegments(own)
		if len(got) != 1+c.want || string(got[0]) != "of the caller" {
			t.Errorf("%d slices, want %d", len(got)-1, c.want)
		}
		if all := bytes.Join(got[1:], nil); !bytes.Equal(all, l.frame("")) || int64(len(all)) != b.Bytes {
			t.Error("the slices are not the records")
		}
		for _, s := range got[1:] {
			if cap(s) != len(s) {
				t.Error("a slice has more capacity than bytes: who appends to it writes to the log")
			}
		}
		b.Release()
	}
}

func TestWhatIsNotSent(t *testing.T) {
	var b getmessage.Batch
	var out bytes.Buffer
	if n, err := b.WriteTo(&out, []byte("only")); n != 4 || err != nil || out.String() != "only" {
		t.Errorf("an empty batch: %d, %v, %q", n, err, out.String())
	}
	if n, err := b.WriteTo(&out, nil); n != 0 || err != nil {
		t.Errorf("nothing: %d, %v", n, err)
	}
	out.Reset()
	l := newFileLog(t, 3, 100, adjacent)
	l.get(&b)
	b.Release()
	if n, err := b.WriteTo(&out, []byte("a length of three records")); n != 0 || !errors.Is(err, getmessage.ErrReleased) || out.Len() != 0 {
		t.Errorf("a released batch: %d, %v, %q", n, err, out.String())
	}
	l.get(&b)
	if n, err := b.WriteTo(&out, nil); n != b.Bytes || err != nil {
		t.Errorf("after another Get: %d, %v", n, err)
	}
	b.Release()
}

// oddWriter takes some bytes of each write and returns what it is told.
type oddWriter struct {
	bytes.Buffer
	takes  int
	says   int
	err    error
	writes int
}

func (w *oddWriter) Write(p []byte) (int, error) {
	w.writes++
	w.Buffer.Write(p[:min(w.takes, len(p))])
	if w.says != 0 {
		return w.says, w.err
	}
	return min(w.takes, len(p)), w.err
}

func TestOtherWriters(t *testing.T) {
	const prefix = "header"
	l := newFileLog(t, 200, 1000, scattered)
	var b getmessage.Batch
	l.get(&b)
	defer b.Release()
	want := l.frame(prefix)

	var buf bytes.Buffer
	if n, err := b.WriteTo(&buf, []byte(prefix)); n != int64(len(want)) || err != nil || !bytes.Equal(buf.Bytes(), want) {
		t.Errorf("bytes.Buffer: %d, %v", n, err)
	}
	buf.Reset()
	bw := bufio.NewWriter(&buf)
	if n, err := b.WriteTo(bw, []byte(prefix)); n != int64(len(want)) || err != nil || bw.Flush() != nil || !bytes.Equal(buf.Bytes(), want) {
		t.Errorf("bufio.Writer: %d, %v", n, err)
	}
	whole := &oddWriter{takes: 1 << 30}
	if _, err := b.WriteTo(whole, []byte(prefix)); err != nil || whole.writes != (len(want)+65535)/65536 {
		t.Errorf("%d writes for %d bytes: %v", whole.writes, len(want), err)
	}
	broken := errors.New("broken")
	for _, c := range []struct {
		w    *oddWriter
		sent int64
		err  error
	}{
		{&oddWriter{takes: 10}, 10, io.ErrShortWrite},
		{&oddWriter{takes: 10, err: broken}, 10, broken},
		{&oddWriter{takes: 0, err: broken}, 0, broken},
		{&oddWriter{takes: 1 << 20, err: broken}, 65536, broken},
		{&oddWriter{takes: 10, says: -1}, 0, nil},
		{&oddWriter{takes: 10, says: 1 << 30}, 0, nil},
	} {
		n, err := b.WriteTo(c.w, []byte(prefix))
		if n != c.sent || err == nil || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%+v: %d, %v", c, n, err)
		}
		if c.err != nil && !bytes.Equal(c.w.Bytes(), want[:n]) {
			t.Errorf("%d bytes came, %d were reported", c.w.Len(), n)
		}
	}
}

// counted has a connection embedded, whose writev it would get by promotion.
type counted struct {
	*net.TCPConn
	bytes, writes int
}

func (c *counted) Write(p []byte) (int, error) {
	c.bytes, c.writes = c.bytes+len(p), c.writes+1
	return c.TCPConn.Write(p)
}

func TestWrappedConnIsNotBypassed(t *testing.T) {
	l := newFileLog(t, 30, 1000, scattered)
	ours, peer := connected(t, "tcp")
	got := received(peer)
	c := &counted{TCPConn: ours.(*net.TCPConn)}
	var b getmessage.Batch
	l.get(&b)
	n, err := b.WriteTo(c, []byte("header"))
	if err != nil || n != int64(c.bytes) || c.writes != 1 {
		t.Errorf("%d bytes, of which Write saw %d in %d writes: %v", n, c.bytes, c.writes, err)
	}
	b.Release()
	ours.Close()
	if !bytes.Equal(<-got, l.frame("header")) {
		t.Error("other bytes")
	}
}

func TestPeerClosesInTheMiddle(t *testing.T) {
	eachNetwork(t, func(t *testing.T, network string) {
		l, b, ours, peer := tooLarge(t, network)
		begun := make([]byte, 1000)
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			io.ReadFull(peer, begun)
			peer.Close()
		}()
		n, err := b.WriteTo(ours, []byte("header"))
		if n < int64(len(begun)) || n >= b.Bytes || !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%d of %d bytes: %v", n, b.Bytes, err)
		}
		<-closed
		if !bytes.Equal(begun, l.frame("header")[:len(begun)]) {
			t.Error("the peer read other bytes")
		}
		if n, err := b.WriteTo(ours, []byte("header")); n != 0 || err == nil {
			t.Errorf("to a broken connection: %d, %v", n, err)
		}
	})
}

// A peer that does not read holds the write up to the deadline; what was reported is what it
// finds when it reads after all.
func TestDeadlineTellsWhatWasSent(t *testing.T) {
	eachNetwork(t, func(t *testing.T, network string) {
		l, b, ours, peer := tooLarge(t, network)
		must(t, ours.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
		n, err := b.WriteTo(ours, []byte("header"))
		if n == 0 || n >= b.Bytes || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d of %d bytes: %v", n, b.Bytes, err)
		}
		ours.Close()
		if all := <-received(peer); !bytes.Equal(all, l.frame("header")[:n]) {
			t.Errorf("the peer read %d bytes, %d were reported", len(all), n)
		}
	})
}

// What a slow peer has not read yet stays, whatever becomes of the file.
func TestRecordsAreHeldWhileWriting(t *testing.T) {
	eachNetwork(t, func(t *testing.T, network string) {
		l, b, ours, peer := tooLarge(t, network)
		written := make(chan error, 1)
		go func() {
			_, err := b.WriteTo(ours, nil)
			ours.Close()
			written <- err
		}()
		first := make([]byte, 1)
		_, err := io.ReadFull(peer, first)
		must(t, err)
		must(t, os.Remove(l.path))
		l.file.Close()
		rest := <-received(peer)
		must(t, <-written)
		if !bytes.Equal(append(first, rest...), l.frame("")) {
			t.Error("other bytes")
		}
		if !l.file.Held() {
			t.Error("WriteTo released the records")
		}
		b.Release()
		if l.file.Held() {
			t.Error("Release did not")
		}
	})
}

func TestWriteToAllocatesNothing(t *testing.T) {
	l := newFileLog(t, 32, 1000, scattered)
	var b getmessage.Batch
	l.get(&b)
	defer b.Release()
	header := []byte("header")
	writers := map[string]io.Writer{"copies": io.Discard}
	for _, network := range []string{"tcp", "unix"} {
		ours, peer := connected(t, network)
		writers[network] = ours
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			for buf := make([]byte, 1<<16); ; {
				if _, err := peer.Read(buf); err != nil {
					return
				}
			}
		}()
		defer func() { ours.Close(); <-drained }()
	}
	for name, w := range writers {
		if n := testing.AllocsPerRun(200, func() {
			if _, err := b.WriteTo(w, header); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
