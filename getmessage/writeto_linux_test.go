package getmessage_test

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/mapfile"
	"github.com/warmlog/warmlog/message"
)

const framesEnv = "WARMLOG_TEST_FRAMES"

const tracedFrames = 100

// TestFramesChild is the child of TestFrameIsOneSystemCall. It sends frames of 32 scattered
// records and waits for each to be read.
func TestFramesChild(t *testing.T) {
	network := os.Getenv(framesEnv)
	if network == "" {
		t.Skip("only a child runs this")
	}
	l := newFileLog(t, 32, 200, scattered)
	ours, peer := connected(t, network)
	var b getmessage.Batch
	l.get(&b)
	defer b.Release()
	header := []byte("header")
	buf := make([]byte, len(l.frame("header")))
	syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0) // marks in the trace
	for range tracedFrames {
		_, err := b.WriteTo(ours, header)
		must(t, err)
		_, err = io.ReadFull(peer, buf)
		must(t, err)
	}
	syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
}

func TestFrameIsOneSystemCall(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed:", err)
	}
	eachNetwork(t, func(t *testing.T, network string) {
		trace := filepath.Join(t.TempDir(), "trace")
		cmd := exec.Command(strace, "-f", "-e", "trace=getppid,write,writev,sendto,sendmsg,sendfile", "-e", "signal=none",
			"-s", "8", "-o", trace, os.Args[0], "-test.run=^TestFramesChild$")
		cmd.Env = append(os.Environ(), framesEnv+"="+network)
		if out, err := cmd.CombinedOutput(); err != nil {
			if strings.Contains(string(out), "ptrace") {
				t.Skipf("tracing is not allowed here: %s", out)
			}
			t.Fatalf("%v: %s", err, out)
		}
		f, err := os.Open(trace)
		must(t, err)
		defer f.Close()
		marks, vectors := 0, 0
		for s := bufio.NewScanner(f); s.Scan(); {
			_, call, _ := strings.Cut(s.Text(), " ")
			call = strings.TrimSpace(call)
			switch {
			case strings.HasPrefix(call, "getppid("):
				marks++
			case marks != 1 || strings.HasPrefix(call, "<..."): // the rest of a call that was cut in two
			case strings.HasPrefix(call, "writev("):
				vectors++
			case strings.HasPrefix(call, "write(") && strings.Contains(call, ", 8) "):
				// The runtime wakes its poller, through an event's descriptor.
			default:
				t.Error("not one of ours:", call)
			}
		}
		if marks != 2 || vectors != tracedFrames {
			t.Errorf("%d writevs for %d frames, %d marks", vectors, tracedFrames, marks)
		}
	})
}

// shorten cuts a log's file in the middle, behind a Get, and returns the offset from which on
// no page can be read.
func (l *fileLog) shorten() int64 {
	size := int64(len(l.data)) / 2
	must(l.t, os.Truncate(l.path, size))
	return (size + 4095) / 4096 * 4096
}

func wantDamage(t *testing.T, err error, path string, off int64) {
	t.Helper()
	var damage *message.DamageError
	if !errors.As(err, &damage) || damage.File != path || damage.Offset != off || !errors.Is(err, mapfile.ErrFault) {
		t.Errorf("%v, want damage of %s at %d", err, path, off)
	}
}

func TestShortenedFileIsDamage(t *testing.T) {
	for name, gap := range map[string]func(int) int{"adjacent": adjacent, "scattered": scattered} {
		t.Run(name, func(t *testing.T) {
			eachNetwork(t, func(t *testing.T, network string) {
				l := newFileLog(t, 100, 1000, gap)
				ours, peer := connected(t, network)
				got := received(peer)
				var b getmessage.Batch
				l.pull(&b)
				defer b.Release()
				off := l.shorten()
				n, err := b.WriteTo(ours, []byte("header"))
				wantDamage(t, err, l.path, off)
				if !errors.Is(err, syscall.EFAULT) || n >= b.Bytes {
					t.Errorf("%d of %d bytes: %v", n, b.Bytes, err)
				}
				ours.Close()
				if all := <-got; int64(len(all)) != n {
					t.Errorf("the peer read %d bytes, %d were reported", len(all), n)
				}
			})
			t.Run("copies", func(t *testing.T) {
				l := newFileLog(t, 100, 1000, gap)
				var b getmessage.Batch
				l.pull(&b)
				defer b.Release()
				off := l.shorten()
				var out bytes.Buffer
				n, err := b.WriteTo(&out, []byte("header"))
				wantDamage(t, err, l.path, off)
				if n != 0 || out.Len() != 0 {
					t.Errorf("%d bytes were reported, %d written: of a piece all or nothing", n, out.Len())
				}
			})
		})
	}
}

// Memory of a Log that is no file of this module's is damage without a place.
func TestShortenedFileOfAnother(t *testing.T) {
	eachNetwork(t, func(t *testing.T, network string) {
		l := newFileLog(t, 100, 1000, adjacent)
		f, err := os.Open(l.path)
		must(t, err)
		defer f.Close()
		l.data, err = unix.Mmap(int(f.Fd()), 0, len(l.data), unix.PROT_READ, unix.MAP_SHARED)
		must(t, err)
		defer unix.Munmap(l.data)
		ours, peer := connected(t, network)
		got := received(peer)
		var b getmessage.Batch
		l.pull(&b)
		defer b.Release()
		l.shorten()
		n, err := b.WriteTo(ours, nil)
		var placed *message.DamageError
		if !errors.Is(err, message.ErrDamaged) || !errors.Is(err, syscall.EFAULT) || errors.As(err, &placed) {
			t.Error(err)
		}
		ours.Close()
		if all := <-got; int64(len(all)) != n {
			t.Errorf("the peer read %d bytes, %d were reported", len(all), n)
		}
		n, err = b.WriteTo(io.Discard, nil)
		if n != 0 || !errors.Is(err, message.ErrDamaged) || errors.As(err, &placed) {
			t.Errorf("copies: %d, %v", n, err)
		}
	})
}

// countedConn counts what TLS writes.
type countedConn struct {
	net.Conn
	writes int
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.writes++
	return c.Conn.Write(p)
}

func TestTLSGetsFewWrites(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, DynamicRecordSizingDisabled: true}

	l := newFileLog(t, 32, 1000, scattered)
	ours, peer := connected(t, "tcp")
	got := received(tls.Client(peer, &tls.Config{InsecureSkipVerify: true}))
	raw := &countedConn{Conn: ours}
	conn := tls.Server(raw, config)
	must(t, conn.Handshake())
	var b getmessage.Batch
	l.get(&b)
	before := raw.writes
	n, err := b.WriteTo(conn, []byte("header"))
	most := int(n)/16384 + 1
	if err != nil || raw.writes-before > most {
		t.Errorf("%d writes for %d bytes, want at most %d: %v", raw.writes-before, n, most, err)
	}
	b.Release()
	must(t, conn.Close())
	if !bytes.Equal(<-got, l.frame("header")) {
		t.Error("other bytes")
	}
}
