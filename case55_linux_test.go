package warmlog_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/message"
	"golang.org/x/sys/unix"
)

// Steady appends take hardly a page fault and leave little dirty memory; a disk that is too slow
// is told at once.

const case55Variable = "WARMLOG_CASE55"

// load is what the child appends.
type load struct {
	Dir         string
	MaxUnsynced int64
	Messages    int   // of 1 KiB
	Rate        int   // bytes a second; 0: as fast as it can
	Old         int64 // messages of queue old/0, which are read meanwhile: half of them at the least
}

// figures are what the child tells when it has ended.
type figures struct {
	Minor, Major int64 // faults of the appending thread, after the first quarter
	Counted      int   // appends meanwhile
	Refused      int
	MostBehind   int64 // bytes that waited for the disk
	Again        bool  // a message was taken after one was refused
	Read         int64 // old messages
}

// TestCase55Child is the child. It tells "busy" when it is refused first, and waits for a line.
func TestCase55Child(t *testing.T) {
	var l load
	if err := json.Unmarshal([]byte(os.Getenv(case55Variable)), &l); err != nil {
		t.Skip("for other tests")
	}
	runtime.LockOSThread()
	out := os.NewFile(3, "pipe")
	s, err := warmlog.Open(l.Dir, warmlog.Options{SegmentSize: 64 << 20, MaxUnsynced: l.MaxUnsynced})
	must(t, err)
	var f figures
	var got atomic.Int64
	ended := readOld(t, s, l.Old, &got)
	var before unix.Rusage
	m := &message.Message{Topic: "busy", Body: make([]byte, 900)}
	began := time.Now()
	for n := 0; (n < l.Messages || got.Load() < l.Old/2) && !f.Again; n++ {
		f.Counted = n + 1 - l.Messages/4
		if n == l.Messages/4 {
			must(t, unix.Getrusage(unix.RUSAGE_THREAD, &before))
		}
		_, err := s.Append(context.Background(), m)
		if st := s.Stats(); err == nil {
			f.MostBehind = max(f.MostBehind, st.Written-st.OnDisk.Durable)
		}
		switch {
		case errors.Is(err, warmlog.ErrBusy):
			if f.Refused++; f.Refused == 1 {
				fmt.Fprintln(out, "busy")
				_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
			}
			time.Sleep(time.Millisecond)
		case err != nil:
			t.Fatal(err)
		default:
			f.Again = f.Refused > 0
		}
		if l.Rate > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second * 1024 / time.Duration(l.Rate))))
		}
	}
	var after unix.Rusage
	must(t, unix.Getrusage(unix.RUSAGE_THREAD, &after))
	f.Minor, f.Major = after.Minflt-before.Minflt, after.Majflt-before.Majflt
	ended()
	f.Read = got.Load()
	must(t, s.Close())
	must(t, json.NewEncoder(out).Encode(f))
}

// readOld reads the first n messages of a queue again and again, as a consumer that is far behind,
// and counts them, until end is called. It has a thread of its own.
func readOld(t *testing.T, s *warmlog.Store, n int64, got *atomic.Int64) (end func()) {
	var stop atomic.Bool
	var ended sync.WaitGroup
	ended.Go(func() {
		var b getmessage.Batch
		defer b.Release()
		for off := int64(0); n > 0 && !stop.Load(); off = b.NextOffset % n {
			if err := s.Get(context.Background(), &getmessage.Request{Topic: "old", Offset: off}, &b); err != nil || len(b.Records()) == 0 {
				t.Errorf("old/0 at %d: %v, %v", off, b.Status, err)
				got.Store(n)
				return
			}
			for _, v := range b.Records() {
				if err := storetest.Check(&v, "old", 0, v.QueueOffset()); err != nil {
					t.Error(err)
				}
			}
			got.Add(int64(len(b.Records())))
		}
	})
	return func() { stop.Store(true); ended.Wait() }
}

// loaded is a child that appends in cgroups of its own.
type loaded struct {
	*exec.Cmd
	t     *testing.T
	stdin interface{ Write([]byte) (int, error) }
	lines *bufio.Scanner
}

func startLoad(t *testing.T, l load, groups ...string) *loaded {
	t.Helper()
	b, err := json.Marshal(l)
	must(t, err)
	script := `for g in ` + strings.Join(groups, " ") + `; do echo $$ > $g/cgroup.procs || exit 9; done; exec "$0" -test.run='^TestCase55Child$'`
	c := &loaded{Cmd: exec.Command("sh", "-c", script, os.Args[0]), t: t}
	c.Env = append(os.Environ(), case55Variable+"="+string(b))
	r, w, err := os.Pipe()
	must(t, err)
	c.ExtraFiles, c.Stdout = []*os.File{w}, os.Stderr
	stdin, err := c.StdinPipe()
	must(t, err)
	c.stdin, c.lines = stdin, bufio.NewScanner(r)
	must(t, c.Start())
	w.Close()
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait(); r.Close() })
	return c
}

func (c *loaded) figures() (f figures) {
	c.t.Helper()
	if !c.lines.Scan() {
		c.t.Fatal("the child has told nothing: ", c.Wait())
	}
	must(c.t, json.Unmarshal(c.lines.Bytes(), &f))
	must(c.t, c.Wait())
	return f
}

// newGroup makes a cgroup of a controller of v1 below this process's own.
func newGroup(t *testing.T, controller string) string {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	must(t, err)
	for line := range strings.Lines(string(own)) {
		_, at, ok := strings.Cut(strings.TrimSpace(line), ":"+controller+":")
		if !ok {
			continue
		}
		dir := filepath.Join("/sys/fs/cgroup", controller, at, fmt.Sprintf("warmlog-test-%d", time.Now().UnixNano()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skip("no cgroup can be made: ", err)
		}
		t.Cleanup(func() { must(t, os.Remove(dir)) })
		return dir
	}
	t.Skip("there is no " + controller + " controller of cgroups v1")
	return ""
}

// At a steady rate in little memory the appending thread takes no major fault and hardly a minor
// one, and little is dirty. WARMLOG_SCALE=1 makes it three minutes.
func TestCase55SteadyAppendsDoNotFault(t *testing.T) {
	steady(t, load{Dir: t.TempDir(), Messages: 60_000}, 512<<20)
}

// So it is beside a consumer that reads old messages, more than fit into memory, as fast as it
// can: what it brings in does not push out what the appending thread needs.
func TestCase55SteadyAppendsBesideAReaderOfOldData(t *testing.T) {
	const body, memory = 100_000, 64 << 20
	l := load{Dir: t.TempDir(), Messages: 20_000, Old: 3 * memory / 2 / body}
	s := create(t, l.Dir, warmlog.Options{SegmentSize: 64 << 20})
	for off := range l.Old {
		_, err := s.Append(context.Background(), storetest.Message("old", 0, off, body))
		must(t, err)
	}
	must(t, s.Close())
	// The child is to have the memory for it on its own account.
	paths, err := filepath.Glob(filepath.Join(l.Dir, "commitlog", "*"))
	must(t, err)
	for _, path := range paths {
		evict(t, path)
	}
	steady(t, l, memory)
}

// steady appends at 20 MiB a second in a cgroup with so much memory, and checks what that costs.
func steady(t *testing.T, l load, limit int64) {
	t.Helper()
	memory := newGroup(t, "memory")
	if err := os.WriteFile(filepath.Join(memory, "memory.limit_in_bytes"), []byte(strconv.FormatInt(limit, 10)), 0); err != nil {
		t.Skip(err)
	}
	l.Rate = 20 << 20
	if os.Getenv("WARMLOG_SCALE") != "" {
		l.Messages = 180 * 20 << 10
	}
	c := startLoad(t, l, memory)
	dirty, ended := int64(0), make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			dirty = max(dirty, memoryStat(memory, "dirty")+memoryStat(memory, "writeback"))
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	f := c.figures()
	close(stop)
	<-ended
	per := float64(f.Minor) * 1000 / float64(f.Counted)
	t.Logf("%d major and %d minor faults in %d appends: %.1f of 1,000; at most %d KiB dirty, %d KiB behind the disk; %d old messages read", f.Major, f.Minor, f.Counted, per, dirty>>10, f.MostBehind>>10, f.Read)
	// There are 250 new pages in 1,000 appends. On a machine that is free it is 3 to 12 faults;
	// without the toucher, 17 to 20 where a file system brings large writes as large folios.
	if f.Major > 0 || per > 60 {
		t.Errorf("%d major faults, %.1f minor ones in 1,000 appends", f.Major, per)
	}
	if dirty > 64<<20 {
		t.Errorf("%d bytes were dirty", dirty)
	}
}

func memoryStat(group, name string) int64 {
	b, _ := os.ReadFile(filepath.Join(group, "memory.stat"))
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			n, _ := strconv.ParseInt(v, 10, 64)
			return n
		}
	}
	return 0
}

// The disk writes 1 MiB a second: appends are refused, at once and by name, before more than the
// limit waits; when the disk is as fast as before, they are taken again, and nothing is lost.
func TestCase55TooSlowADiskIsTold(t *testing.T) {
	d := newDisk(t, 256)
	blkio := newGroup(t, "blkio")
	var st unix.Stat_t
	must(t, unix.Stat(d.dir, &st))
	throttle := func(bytes int) {
		line := fmt.Sprintf("%d:%d %d", unix.Major(st.Dev), unix.Minor(st.Dev), bytes)
		if err := os.WriteFile(filepath.Join(blkio, "blkio.throttle.write_bps_device"), []byte(line), 0); err != nil {
			t.Skip("the device cannot be made slow: ", err)
		}
	}
	throttle(1 << 20)
	const limit = 4 << 20
	c := startLoad(t, load{Dir: d.dir + "/store", MaxUnsynced: limit, Messages: 20_000}, blkio)
	if !c.lines.Scan() || c.lines.Text() != "busy" {
		throttle(0)
		t.Fatalf("nothing was refused: %q", c.lines.Text())
	}
	throttle(0)
	_, err := fmt.Fprintln(c.stdin)
	must(t, err)
	f := c.figures()
	t.Logf("%d refused, at most %d KiB waited", f.Refused, f.MostBehind>>10)
	if f.MostBehind > limit+2048 {
		t.Errorf("%d bytes waited for the disk", f.MostBehind)
	}
	if !f.Again {
		t.Error("no message was taken after one was refused")
	}
	if _, damage := verify(t, d.dir+"/store"); len(damage) > 0 {
		t.Error(damage)
	}
}
