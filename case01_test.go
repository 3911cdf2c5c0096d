package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/message"
)

// writers is how many goroutines append while a flush fails, each to a queue of its own.
const writers = 8

// mostFlushes is how many messages each of them appends where nothing fails.
const mostFlushes = 2000

// failedFlush appends until a flush fails and checks what comes of it: who waits gets an
// error, the durable position stays where it was, nothing is appended any more and all say the
// same cause, one of those given, and what was acknowledged can be read. begun is called when
// all writers are at work. Of a Written store every second message is flushed.
func failedFlush(t *testing.T, s *warmlog.Store, flushed bool, begun func(acks []acknowledged), causes ...error) (acks []acknowledged) {
	ctx := context.Background()
	var mu sync.Mutex // of acks and failed
	var group, first sync.WaitGroup
	type failure struct {
		at  warmlog.Appended
		err error
	}
	var failed []failure
	first.Add(writers)
	for id := range int32(writers) {
		next := int64(0)
		if _, end, err := s.QueueBounds(ctx, crashTopic, id); err == nil {
			next = end
		}
		group.Go(func() {
			told := sync.OnceFunc(first.Done) // of some that were acknowledged
			defer told()
			for off := next; off < next+mostFlushes; off++ {
				d := warmlog.Written
				if flushed || off%2 == 1 {
					d = warmlog.Flushed
				}
				r, err := s.AppendWith(ctx, crashMessage(id, off), d)
				mu.Lock()
				if err == nil {
					acks = append(acks, acknowledged{id, r.QueueOffset, r.PhysicalOffset, d == warmlog.Flushed})
				} else {
					failed = append(failed, failure{r, err})
				}
				mu.Unlock()
				if off == next+3 {
					told()
				}
				if err != nil {
					return
				}
			}
		})
	}
	first.Wait()
	mu.Lock()
	before := slices.Clone(acks)
	mu.Unlock()
	begun(before)
	group.Wait()
	durable := s.Stats().OnDisk.Durable
	why := s.Health()
	caused := func(err error) bool {
		return slices.ContainsFunc(causes, func(c error) bool { return errors.Is(err, c) })
	}
	if !caused(why) {
		t.Fatalf("health: %v, want one of %v", why, causes)
	}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, warmlog.ErrFailed) || !strings.Contains(err.Error(), why.Error()) {
			t.Errorf("%s: %v, want %v", what, err, why)
		}
	}
	if len(failed) != writers {
		t.Errorf("%d of %d writers got an error", len(failed), writers)
	}
	for _, f := range failed {
		if errors.Is(f.err, warmlog.ErrFailed) || !caused(f.err) {
			refused("an append", f.err)
		} // else it came to the next segment before a sync had failed
		if f.at.Size > 0 && f.at.PhysicalOffset < durable {
			t.Errorf("failed, and the durable position %d is above it: %+v", durable, f.at)
		}
	}
	for _, a := range acks {
		if a.flushed && a.pos >= durable {
			t.Errorf("acknowledged above the durable position %d: %+v", durable, a)
		}
	}
	// Again and again, by every way in.
	end := s.Stats().Written
	for range 3 {
		_, err := s.Append(ctx, crashMessage(0, 0))
		refused("a later append", err)
		_, err = s.AppendAll(ctx, []*message.Message{crashMessage(0, 0), crashMessage(1, 0)}, warmlog.Flushed)
		refused("a later batch", err)
		s.AppendAsync(crashMessage(0, 0), warmlog.StoreDefault, func(_ warmlog.Appended, err error) { refused("a later asynchronous append", err) })
		refused("health", s.Health())
	}
	refused("a deletion", s.DeleteQueue(ctx, crashTopic, 0))
	_ = s.Checkpoint(ctx) // notes less than is durable, or fails
	must(t, s.Dispatched(ctx))
	if st := s.Stats(); st.OnDisk.Durable != durable || st.Written != end {
		t.Errorf("the durable position was %d and is %d, the end was %d and is %d", durable, st.OnDisk.Durable, end, st.Written)
	}
	entire(t, s, acks)
	return acks
}

// failedFlushJob is what the child of TestCase01AFlushFails does.
func failedFlushJob(t *testing.T, p *plan, s *warmlog.Store, tell func(string, ...any)) {
	for _, a := range failedFlush(t, s, p.Flushed, func([]acknowledged) {}, syscall.EIO) {
		flushed := 0
		if a.flushed {
			flushed = 1
		}
		tell("A %d %d %d %d", a.id, a.off, a.pos, flushed)
	}
}

// The third flush of some thread fails while 8 writers append. After the store was opened
// again all that was acknowledged is there.
func TestCase01AFlushFails(t *testing.T) {
	path := strace(t)
	for _, flushed := range []bool{true, false} {
		t.Run(fmt.Sprintf("flushed %v", flushed), func(t *testing.T) {
			p := plan{Dir: t.TempDir(), Flushed: flushed, Job: "failed flush"}
			var j journal
			for range 2 { // and what the second run finds is what a failure has left
				c := j.start(t, p, path, "-f", "--seccomp-bpf", "-o", os.DevNull, "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=3")
				must(t, j.finish(c))
				if len(j.errors) == 0 {
					t.Error("the store was closed as if nothing had happened")
				}
				if _, err := os.Stat(layout.Store(p.Dir).Abort()); err != nil {
					t.Errorf("the marker of an unclean end is not there: %v", err)
				}
			}
			reopen(t, p, j.told(false))
		})
	}
}

// The file system becomes read-only while 8 writers append, as it does when its journal
// cannot be written.
func TestCase01TheDiskBecomesReadOnly(t *testing.T) {
	for _, flushed := range []bool{true, false} {
		t.Run(fmt.Sprintf("flushed %v", flushed), func(t *testing.T) {
			d := newDisk(t, 96)
			p := plan{Dir: filepath.Join(d.dir, "store"), Flushed: flushed}
			s, err := warmlog.Open(p.Dir, p.options())
			must(t, err)
			// While ext4 gives its journal up, a sync can succeed whose names it then forgets (1 in
			// 50 times, Linux 6): what is promised is what was acknowledged before.
			var acks []acknowledged
			failedFlush(t, s, flushed, func(before []acknowledged) {
				acks = before
				command(t, "mount", "-o", "remount,abort", d.dir)
			}, syscall.EROFS, syscall.EIO)
			if err := s.Close(); !errors.Is(err, warmlog.ErrFailed) && !errors.Is(err, syscall.EROFS) {
				t.Errorf("close: %v", err)
			}
			if s, err := warmlog.Open(p.Dir, p.options()); !errors.Is(err, syscall.EROFS) {
				t.Errorf("opened while it is read-only: %v", err)
				_ = s.Close()
			}
			reader, err := openCrashed(p)
			must(t, err)
			must(t, reader.Close())
			unmount(t, d.dir)
			command(t, "mount", "-o", "loop", d.image, d.dir)
			var flushedAcks []acknowledged
			for _, a := range acks {
				if a.flushed {
					flushedAcks = append(flushedAcks, a)
				}
			}
			reopen(t, p, flushedAcks)
		})
	}
}
