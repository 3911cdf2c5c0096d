package warmlog_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/message"
	"github.com/warmlog/warmlog/pagecache"
	"golang.org/x/sys/unix"
)

// backlog is a store of one queue whose pages are all on disk and none in memory.
func backlog(t *testing.T, messages int) *storetest.Store {
	t.Helper()
	s := storetest.New(t, t.TempDir(), storetest.Options{SegmentSize: 1 << 20})
	for range messages {
		s.Add("t", 0, 1000)
	}
	s.Flush()
	cool(t, s.Dir())
	return s
}

// cool evicts all files of a store.
func cool(t *testing.T, dir string) {
	t.Helper()
	command(t, "sync", "-f", dir)
	eachFile(t, dir, func(p *pagecache.Prober, f *os.File, size int64) {
		if left, err := p.Evict(f, nil, 0, size, true); err != nil {
			t.Fatal(err)
		} else if left.Resident > 0 {
			t.Skipf("%s: %d of %d pages cannot be evicted here", f.Name(), left.Resident, left.Pages)
		}
	})
}

// eachFile calls f with each segment and queue file.
func eachFile(t *testing.T, dir string, f func(p *pagecache.Prober, file *os.File, size int64)) {
	t.Helper()
	p := pagecache.NewProber(pagecache.ProberOptions{Dir: t.TempDir()})
	if p.Method() == 0 {
		t.Skip("nobody says what is in memory: ", p)
	}
	var names []string
	for _, pattern := range []string{"commitlog/*", "consumequeue/*/*/*"} {
		some, err := filepath.Glob(filepath.Join(dir, pattern))
		must(t, err)
		names = append(names, some...)
	}
	for _, name := range names {
		file, err := os.Open(name)
		must(t, err)
		st, err := file.Stat()
		must(t, err)
		f(p, file, st.Size())
		must(t, file.Close())
	}
}

// inMemoryOf returns the bytes of a store's log that are in memory.
func inMemoryOf(t *testing.T, dir string) (n int64) {
	t.Helper()
	eachFile(t, dir, func(p *pagecache.Prober, f *os.File, size int64) {
		if !strings.Contains(f.Name(), "commitlog") {
			return
		}
		c, err := p.Resident(f, nil, 0, size)
		must(t, err)
		n += c.Resident * int64(os.Getpagesize())
	})
	return n
}

// warmUp has all files of a store read into memory.
func warmUp(t *testing.T, dir string) {
	t.Helper()
	eachFile(t, dir, func(_ *pagecache.Prober, f *os.File, size int64) {
		_, err := f.ReadAt(make([]byte, size), 0)
		must(t, err)
	})
}

// believer opens a store that can be told by the kernel what is in memory.
func believer(t *testing.T, dir string, o warmlog.Options) *warmlog.Store {
	t.Helper()
	s, err := warmlog.Open(dir, o)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	if p := s.Residency(); p.Method() == 0 {
		t.Skip("not believed here: ", p)
	}
	return s
}

// pull gets a batch and checks its records.
func pull(t *testing.T, s *warmlog.Store, b *getmessage.Batch, off int64) getmessage.Decision {
	t.Helper()
	must(t, s.Get(context.Background(), &getmessage.Request{Group: "g", Topic: "t", Offset: off}, b))
	if b.Status != getmessage.Found {
		t.Fatalf("%d: %v", off, b.Status)
	}
	for i, v := range b.Records() {
		must(t, storetest.Check(&v, "t", 0, off+int64(i)))
	}
	return b.Decision
}

// Who reads what is not in memory gets copies, is told to go to the slave, and leaves nothing
// in memory; nobody touches a page of the mapping.
func TestBacklogIsReadCold(t *testing.T) {
	eachMethod(t, func(t *testing.T, methods pagecache.Method, _ *pagecache.Prober) {
		const messages = 3000
		dir := backlog(t, messages).Dir()
		s := believer(t, dir, warmlog.Options{ReadOnly: true, Residency: methods})
		cool(t, dir)
		var b getmessage.Batch
		defer b.Release()
		before := majorFaults(t)
		for off := int64(0); off < messages-200; off = b.NextOffset {
			d := pull(t, s, &b, off)
			if !d.Cold || !d.SuggestSlave || d.Reason != getmessage.NextOnDisk || len(b.Records()) > 8 {
				t.Fatalf("%d: %d records, %+v", off, len(b.Records()), d)
			}
		}
		b.Release()
		if n := majorFaults(t) - before; n > 0 {
			t.Errorf("%d faults waited for the disk", n)
		}
		if n := inMemoryOf(t, dir); n > 0 {
			t.Errorf("%d bytes stayed in memory", n)
		}
	})
}

// majorFaults returns how often this process has waited for a page from disk.
func majorFaults(t *testing.T) int64 {
	t.Helper()
	var use unix.Rusage
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &use))
	return use.Majflt
}

// What was read into memory by somebody else is found there, in slices of the log, and after a
// short while without a system call.
func TestWhatIsInMemoryIsHot(t *testing.T) {
	eachMethod(t, func(t *testing.T, methods pagecache.Method, _ *pagecache.Prober) {
		const messages = 3000
		dir := backlog(t, messages).Dir()
		s := believer(t, dir, warmlog.Options{ReadOnly: true, Residency: methods})
		warmUp(t, dir)
		var b getmessage.Batch
		defer b.Release()
		calls := 0
		for off := int64(0); off < messages-64; off = b.NextOffset {
			d := pull(t, s, &b, off)
			if d.Cold || d.SuggestSlave || d.Reason != getmessage.NextInMemory || len(b.Records()) != 32 {
				t.Fatalf("%d: %d records, %+v", off, len(b.Records()), d)
			}
			calls += d.Calls
		}
		if calls == 0 || calls > 3*messages*1200/(64<<10)+10 {
			t.Errorf("%d calls", calls)
		}
		for off := int64(0); off < messages-64; off = b.NextOffset {
			if d := pull(t, s, &b, off); d.Calls != 0 || d.Source != getmessage.Remembered || d.Age > time.Second {
				t.Fatalf("%d: %+v", off, d)
			}
		}
	})
}

// The tail that this process writes is hot without asking, as long as nobody evicts it; that is
// noticed by itself.
func TestEvictedTailIsNoticed(t *testing.T) {
	eachMethod(t, func(t *testing.T, methods pagecache.Method, _ *pagecache.Prober) {
		dir := t.TempDir()
		s := believer(t, dir, warmlog.Options{Residency: methods, SegmentSize: 16 << 20, Durability: warmlog.Flushed})
		var b getmessage.Batch
		defer b.Release()
		const messages = 500
		var ms []*message.Message
		for off := range int64(messages) {
			ms = append(ms, storetest.Message("t", 0, off, 1000))
		}
		_, err := s.AppendAll(context.Background(), ms, warmlog.StoreDefault)
		must(t, err)
		must(t, s.Dispatched(context.Background()))
		if d := pull(t, s, &b, messages-64); d.Cold || d.SuggestSlave || d.Calls != 0 || d.Source != getmessage.Written {
			t.Fatalf("%+v", d)
		}
		b.Release()
		must(t, s.Checkpoint(context.Background()))
		for {
			eachFile(t, dir, func(p *pagecache.Prober, f *os.File, size int64) {
				unmapPages(t, f.Name())
				_, err := p.Evict(f, nil, 0, size, true)
				must(t, err)
			})
			d := pull(t, s, &b, 0)
			b.Release()
			if d.Cold && d.SuggestSlave {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		// What comes in is hot again, the old is not.
		for i, m := range ms[:100] {
			*m = *storetest.Message("t", 0, messages+int64(i), 1000)
		}
		_, err = s.AppendAll(context.Background(), ms[:100], warmlog.StoreDefault)
		must(t, err)
		must(t, s.Dispatched(context.Background()))
		if d := pull(t, s, &b, messages+10); d.Cold || d.SuggestSlave {
			t.Fatalf("%+v", d)
		}
	})
}

// unmapPages takes a file's pages out of the page tables of this process, as the kernel does before
// it takes them away.
func unmapPages(t *testing.T, path string) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	must(t, err)
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(strings.TrimSpace(line), path) {
			continue
		}
		var from, to uintptr
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
			t.Fatal(err)
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED); errno != 0 {
			t.Fatal(errno)
		}
	}
}

// The end of the log that was read stays locked in memory, as it grows, and no more than was asked
// for. Where that is refused the store says so once, and goes on.
func TestPinnedTail(t *testing.T) {
	const most = 256 << 10
	s := create(t, t.TempDir(), warmlog.Options{SegmentSize: 1 << 20, PinTail: most})
	var b getmessage.Batch
	defer b.Release()
	was := locked(t)
	for off := int64(0); off < 3000; {
		var ms []*message.Message
		for range 100 {
			ms = append(ms, storetest.Message("t", 0, off+int64(len(ms)), 1000))
		}
		_, err := s.AppendAll(context.Background(), ms, warmlog.StoreDefault)
		must(t, err)
		must(t, s.Dispatched(context.Background()))
		for ; off < 3000; off = b.NextOffset {
			must(t, s.Get(context.Background(), &getmessage.Request{Group: "g", Topic: "t", Offset: off}, &b))
			if b.Status != getmessage.Found {
				break
			}
			for _, v := range b.Records() {
				must(t, v.Check())
			}
		}
		// Pages are locked a step later, and when they are touched.
		for off%1000 == 0 {
			pull(t, s, &b, off-100)
			for _, v := range b.Records() {
				must(t, v.Check())
			}
			if n := locked(t) - was; n > 0 {
				if n > most {
					t.Fatalf("%d bytes are locked, %d were to be", n, most)
				}
				break
			}
			if notes := s.Notes(); len(notes) > 0 {
				t.Skip(notes)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	b.Release()
	must(t, s.Close())
	if n := locked(t) - was; n != 0 {
		t.Errorf("%d bytes are locked of a store that is closed", n)
	}
}

// locked returns the bytes that this process has locked in memory.
func locked(t *testing.T) (n int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	must(t, err)
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "VmLck: %d", &n)
	}
	return n << 10
}

// Each policy says what it rests on.
func TestPolicies(t *testing.T) {
	const messages = 2000
	dir := backlog(t, messages).Dir()
	for _, row := range []struct {
		policy    getmessage.Policy
		threshold int64
		suggest   bool
		reason    getmessage.Reason
		asked     bool
	}{
		{getmessage.Distance, 1, true, getmessage.BeyondThreshold, false},
		{getmessage.Distance, 1 << 30, false, getmessage.WithinThreshold, false},
		{getmessage.Residency, 1, false, getmessage.NextInMemory, true},
		{getmessage.Hybrid, 1, false, getmessage.NextInMemory, false},
	} {
		t.Run(fmt.Sprintf("%v/%d", row.policy, row.threshold), func(t *testing.T) {
			s := believer(t, dir, warmlog.Options{ReadOnly: true, Policy: row.policy, Memory: pagecache.ThresholdOptions{Bytes: row.threshold}})
			warmUp(t, dir)
			var b getmessage.Batch
			defer b.Release()
			pull(t, s, &b, 0)
			d := pull(t, s, &b, 0)
			if d.Policy != row.policy || d.SuggestSlave != row.suggest || d.Reason != row.reason || (d.Calls > 0) != row.asked || d.Cold {
				t.Errorf("%+v", d)
			}
			if d = pull(t, s, &b, messages-20); d.SuggestSlave && row.policy != getmessage.Distance {
				t.Errorf("nothing is next: %+v", d)
			}
		})
	}
}
