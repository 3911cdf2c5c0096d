package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/message"
)

// The disk is filled by somebody else while a store is written, three times: an append is
// refused and says where the space is lacking, reads go on, and appends work again when there
// is space, without a restart. Everything acknowledged is there in the end, also when the
// store was closed while the disk was full.
func TestCrashDiskFull(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		t.Run(fmt.Sprintf("flushed %v", flushed), func(t *testing.T) {
			t.Parallel() // each has a disk of its own
			d := newDisk(t, 48)
			p := plan{Dir: filepath.Join(d.dir, "store"), Flushed: flushed, SegmentSize: 1 << 20}
			s, err := warmlog.Open(p.Dir, p.options())
			must(t, err)
			var acks []acknowledged
			some := func() error {
				ms := make([]*message.Message, 20)
				for i := range ms {
					ms[i] = crashMessage(0, int64(len(acks)+i))
				}
				rs, err := s.AppendAll(context.Background(), ms, warmlog.StoreDefault)
				for _, r := range rs {
					acks = append(acks, acknowledged{0, r.QueueOffset, r.PhysicalOffset, flushed})
				}
				return err
			}
			must(t, some())
			must(t, s.Dispatched(context.Background()))
			must(t, s.Checkpoint(context.Background())) // a queue file is there
			for range 3 {
				filler := fill(t, d.dir)
				for err = nil; err == nil && len(acks) < 100_000; {
					err = some()
				}
				if !errors.Is(err, warmlog.ErrNoSpace) || !strings.Contains(err.Error(), p.Dir) {
					t.Fatalf("after %d appends on a full disk: %v", len(acks), err)
				}
				must(t, s.Dispatched(context.Background()))
				entire(t, s, acks)
				if err := s.Checkpoint(context.Background()); err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("checkpoint: %v", err)
				}
				must(t, os.Remove(filler))
				for range 10 {
					if err := some(); err != nil {
						t.Fatalf("with space again: %v", err)
					}
				}
			}
			filler := fill(t, d.dir)
			for err = nil; err == nil; {
				err = some()
			}
			if err := s.Close(); err != nil && !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("close: %v", err)
			}
			reader, err := openCrashed(p)
			must(t, err)
			entire(t, reader, acks)
			must(t, reader.Close())
			// Opened for writing while it is full: it works, or the error says why not.
			if s, err := warmlog.Open(p.Dir, p.options()); err == nil {
				if err := s.Close(); err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("close: %v", err)
				}
			} else if t.Logf("open on a full disk: %v", err); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("open on a full disk: %v", err)
			}
			must(t, os.Remove(filler))
			reopen(t, p, acks)
		})
	}
}

// fill fills the disk of a directory with a file, which it returns.
func fill(t *testing.T, dir string) string {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	must(t, err)
	defer f.Close()
	for n := 1 << 20; n >= 512; n /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, n))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	return f.Name()
}
