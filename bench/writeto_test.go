package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/warmlog/warmlog/getmessage"
)

// drained returns a unix socket whose peer reads all that comes, up to the end of the benchmark.
func drained(b *testing.B) *net.UnixConn {
	b.Helper()
	ln, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
	check(b, err)
	defer ln.Close()
	conn, err := net.Dial("unix", ln.Addr().String())
	check(b, err)
	peer, err := ln.Accept()
	check(b, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer peer.Close()
		for buf := make([]byte, 256<<10); ; {
			if _, err := peer.Read(buf); err != nil {
				return
			}
		}
	}()
	b.Cleanup(func() {
		conn.Close()
		<-done
	})
	return conn.(*net.UnixConn)
}

// BenchmarkWriteTo sends a batch that was pulled with a prefix of 100 bytes; the floors are as
// many bytes from one buffer, and the same frame copied into one, as writers get it that are no
// connections.
func BenchmarkWriteTo(b *testing.B) {
	for _, batch := range []int{1, 32} {
		for _, layout := range []struct {
			name   string
			queues int
		}{{"adjacent", 1}, {"scattered", 4}} {
			if batch == 1 && layout.queues > 1 {
				continue // one record is adjacent to nothing
			}
			b.Run(fmt.Sprintf("records=%d/%s", batch, layout.name), func(b *testing.B) {
				store := build(b, 16<<20, layout.queues, 16<<20).open(b)
				var got getmessage.Batch
				req := request(batch)
				check(b, store.Get(context.Background(), &req, &got))
				defer got.Release()
				if len(got.Records()) != batch {
					b.Fatalf("%d records", len(got.Records()))
				}
				prefix := make([]byte, 100)
				whole := make([]byte, int64(len(prefix))+got.Bytes)
				ours, floors := drained(b), drained(b)
				b.ReportAllocs()
				frames := func(w io.Writer) func(int) {
					return func(n int) {
						for range n {
							_, err := got.WriteTo(w, prefix)
							check(b, err)
						}
					}
				}
				engine := frames(ours)
				engine(1000) // warm up: both connections, the batch's capacity
				copies := frames(struct{ io.Writer }{ours})
				copies(1000)
				compare(b, engine, yard{"one-buffer", func(n int) {
					for range n {
						_, err := floors.Write(whole)
						check(b, err)
					}
				}}, yard{"copies", copies})
				b.ReportMetric(float64(len(got.AppendSegments(nil))), "slices")
			})
		}
	}
}
