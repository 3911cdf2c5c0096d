package warmlog_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/storetest"
)

// What is prepared ahead of the log's end costs no disk for what nobody appends, makes no
// append wait, shows nothing to readers, and rests when nothing is appended.

// Disk use follows content: many queues with one message each take a few blocks each, at
// RocketMQ's size of queue files. WARMLOG_SCALE=1 makes it 40,000 queues.
func TestCase45DiskUseFollowsContent(t *testing.T) {
	topics, ctx, dir := 500, context.Background(), t.TempDir()
	if os.Getenv("WARMLOG_SCALE") != "" {
		topics = 10_000
	}
	s, err := warmlog.Open(dir, warmlog.Options{})
	must(t, err)
	for n := range topics {
		for id := range int32(4) {
			_, err := s.Append(ctx, storetest.Message(fmt.Sprint("topic", n), id, 0, 50))
			must(t, err)
		}
	}
	must(t, s.Checkpoint(ctx))
	written := s.Stats().Written
	must(t, s.Close())
	queues := int64(4 * topics)
	used := blocks(t, layout.Store(dir).ConsumeQueue())
	// A file's block, its directory's, and a quarter of that of the topic's.
	if most := queues*(4096+4096+1024) + 1<<20; used > most {
		t.Errorf("%d queues with a message each take %d bytes on disk, more than %d", queues, used, most)
	}
	t.Logf("%d queues: %d bytes each", queues, used/queues)
	// Of the log: what was appended, and the step that is reserved at once.
	if used, most := blocks(t, layout.Store(dir).CommitLog()), written+34<<20; used > most {
		t.Errorf("a log of %d bytes takes %d on disk", written, used)
	}
}

// blocks returns the bytes that a tree takes on disk.
func blocks(t *testing.T, dir string) (n int64) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := e.Info()
		if err == nil {
			n += st.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	}))
	return n
}

// Reserving space takes half a second: appends to the segment in use go on meanwhile.
func TestCase45AppendsDoNotWaitForAllocation(t *testing.T) {
	path := strace(t)
	// Space is reserved 32 MiB at a time: the child comes to the end of the first step.
	p := plan{Dir: t.TempDir(), SegmentSize: 256 << 20, Queues: 1, Body: 256 << 10, Messages: 160, Pause: 12_000}
	log := filepath.Join(t.TempDir(), "strace")
	var j journal
	// The journal's lines are writes: the log has both, in order.
	c := j.start(t, p, path, "-f", "--seccomp-bpf", "-ttt", "-o", log, "-e", "trace=fallocate,write", "-e", "inject=fallocate:delay_enter=500000")
	must(t, j.finish(c))
	b, err := os.ReadFile(log)
	must(t, err)
	acks := duringAllocations(string(b))
	t.Logf("acknowledged during each allocation but the first: %d; %d in all", acks, len(j.told(false)))
	if len(acks) == 0 {
		t.Error("nothing was allocated after the first append")
	}
	for _, n := range acks {
		// Half a step, 64 messages, has room when it begins.
		if n < 8 {
			t.Errorf("%d messages were acknowledged during an allocation: the others waited for it", n)
		}
	}
}

// duringAllocations finds the allocations in a log of strace, without the first, which an append
// needs, and counts what was acknowledged while each was in its delay.
func duringAllocations(log string) (all []int) {
	pending := map[string]*int{}
	for line := range strings.Lines(log) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		pid, call := f[0], strings.Join(f[2:], " ")
		switch {
		case strings.HasPrefix(call, "fallocate(") && strings.Contains(call, "unfinished"):
			pending[pid] = new(int)
		case strings.HasPrefix(call, "fallocate("):
			all = append(all, 0) // nothing came in between
		case strings.HasPrefix(call, "<... fallocate resumed>"):
			all = append(all, *pending[pid])
			delete(pending, pid)
		case strings.Contains(call, `"A `):
			for _, acks := range pending {
				*acks++
			}
		}
	}
	if len(all) > 0 {
		all = all[1:]
	}
	return all
}

// An idle store changes no file, and what is made ready ahead shows no byte to readers.
func TestCase45IdleMeansIdle(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	each(t, map[string]warmlog.Durability{"written": warmlog.Written, "flushed": warmlog.Flushed}, func(t *testing.T, d warmlog.Durability) {
		t.Parallel() // it mostly waits
		dir := filepath.Join(dir, t.Name())
		s := create(t, dir, warmlog.Options{Durability: d, SegmentSize: 4 << 20})
		next := putMessages(t, s, "orders", 0, 0, 2000)
		must(t, s.Checkpoint(ctx))
		_, end := s.Bounds()
		// The store has nothing to wait for when what it does of its own (the log's sync, pages
		// and zeros ahead) has come to rest: the picture stays the same.
		still := picture(t, dir)
		for range 100 {
			time.Sleep(100 * time.Millisecond) // nothing announces that nothing happens
			now := picture(t, dir)
			if now == still {
				break
			}
			still = now
		}
		time.Sleep(1500 * time.Millisecond) // three times the interval of syncs
		if now := picture(t, dir); now != still {
			t.Errorf("idle, and files change:\n%s\nbefore:\n%s", now, still)
		}
		if _, now := s.Bounds(); now != end {
			t.Errorf("the log's end moved from %d to %d", end, now)
		}
		// Behind the end there is not one byte.
		seg := filepath.Join(layout.Store(dir).CommitLog(), layout.FileName(0))
		b, err := os.ReadFile(seg)
		must(t, err)
		if n := len(strings.TrimRight(string(b), "\x00")); int64(n) > end {
			t.Errorf("%d bytes are written, the log ends at %d", n, end)
		}
		reader, err := warmlog.Open(dir, warmlog.Options{ReadOnly: true})
		must(t, err)
		if _, got := reader.Bounds(); got != end || len(reader.Damaged()) > 0 {
			t.Errorf("a reader finds the end at %d instead of %d; %v", got, end, reader.Damaged())
		}
		must(t, reader.Close())
		putMessages(t, s, "orders", 0, next, 10)
		must(t, s.Close())
	})
}

// picture is the names, sizes, times and blocks of all files of a store.
func picture(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := e.Info()
		if err == nil {
			sys := st.Sys().(*syscall.Stat_t)
			fmt.Fprintln(&b, path, st.Size(), st.ModTime().UnixNano(), sys.Ctim.Nano(), sys.Blocks)
		}
		return err
	}))
	return b.String()
}
