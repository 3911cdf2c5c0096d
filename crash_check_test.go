package warmlog_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/message"
)

// rounds returns how many rounds a crash test has: WARMLOG_CRASH_ROUNDS multiplies.
func rounds(n int) int {
	if f, err := strconv.ParseFloat(os.Getenv("WARMLOG_CRASH_ROUNDS"), 64); err == nil {
		return max(1, int(float64(n)*f))
	}
	return n
}

// chance returns random numbers from a seed that is told. WARMLOG_CRASH_SEED sets it.
func chance(t *testing.T) *rand.Rand {
	seed, err := strconv.ParseUint(os.Getenv("WARMLOG_CRASH_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// acknowledged is what one append was promised.
type acknowledged struct {
	id       int32
	off, pos int64
	flushed  bool
}

// journal is what children told.
type journal struct {
	mu   sync.Mutex
	acks []acknowledged
	// Of the child at hand.
	progress func(done, total int64)
	errors   []string
	notes    []string
	foul     []string // what must not happen
	opened   chan struct{}
	closing  chan struct{}
	finished bool
	ended    chan struct{} // the pipe is at its end
}

func (j *journal) line(s string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case s == "O":
		close(j.opened)
	case s == "C":
		close(j.closing)
	case s == "D":
		j.finished = true
	case strings.HasPrefix(s, "N "):
		j.notes = append(j.notes, s[2:])
	case strings.HasPrefix(s, "E "):
		j.errors = append(j.errors, s[2:])
	case strings.HasPrefix(s, "P "):
		var done, total int64
		if n, _ := fmt.Sscanf(s, "P %d %d", &done, &total); n == 2 && j.progress != nil {
			j.progress(done, total)
		}
	case strings.HasPrefix(s, "A "):
		var a acknowledged
		var flushed int
		if n, _ := fmt.Sscanf(s, "A %d %d %d %d", &a.id, &a.off, &a.pos, &flushed); n == 4 {
			a.flushed = flushed == 1
			j.acks = append(j.acks, a)
			return
		}
		fallthrough
	default:
		j.foul = append(j.foul, s)
	}
}

// told returns what has been acknowledged so far: the flushed only, or all.
func (j *journal) told(flushedOnly bool) []acknowledged {
	j.mu.Lock()
	defer j.mu.Unlock()
	var as []acknowledged
	for _, a := range j.acks {
		if a.flushed || !flushedOnly {
			as = append(as, a)
		}
	}
	return as
}

// child is this program, running again.
type child struct {
	*exec.Cmd
	t      *testing.T
	output strings.Builder
}

// start runs a child that follows a plan, below the given command, if any.
func (j *journal) start(t *testing.T, p plan, below ...string) *child {
	t.Helper()
	return j.startWith(t, p, nil, below...)
}

func (j *journal) startWith(t *testing.T, p plan, attr *syscall.SysProcAttr, below ...string) *child {
	t.Helper()
	j.errors, j.notes, j.foul, j.finished = nil, nil, nil, false
	j.opened, j.closing, j.ended = make(chan struct{}), make(chan struct{}), make(chan struct{})
	b, err := json.Marshal(p)
	must(t, err)
	args := append(below, os.Args[0], "-test.run=^TestCrashChild$")
	c := &child{Cmd: exec.Command(args[0], args[1:]...), t: t}
	c.Env = append(os.Environ(), planVariable+"="+string(b), "GOTRACEBACK=all")
	c.Stdout, c.Stderr = &c.output, &c.output
	c.SysProcAttr = attr
	r, w, err := os.Pipe()
	must(t, err)
	c.ExtraFiles = []*os.File{w}
	must(t, c.Start())
	w.Close()
	t.Cleanup(func() { _ = c.Process.Kill() })
	go func() {
		defer close(j.ended)
		defer r.Close()
		for in := bufio.NewScanner(r); in.Scan(); {
			j.line(in.Text())
		}
	}()
	return c
}

// kill sends the child SIGKILL, unless it has ended, and waits until all it told is known.
func (j *journal) kill(c *child) {
	_ = c.Process.Kill()
	_ = c.Wait()
	<-j.ended
	c.complain(j)
}

// complain fails the test where the child itself found something wrong.
func (c *child) complain(j *journal) {
	c.t.Helper()
	for _, s := range j.foul {
		c.t.Errorf("the child: %s", s)
	}
	if out := c.output.String(); strings.Contains(out, "panic") || strings.Contains(out, "fatal error") || strings.Contains(out, "--- FAIL") {
		c.t.Errorf("the child:\n%.6000s", out)
	}
}

// finish waits until the child has ended by itself.
func (j *journal) finish(c *child) error {
	done := time.AfterFunc(60*time.Second, func() { _ = c.Process.Kill() })
	defer done.Stop()
	err := c.Wait()
	<-j.ended
	c.complain(j)
	return err
}

// doomedTopic is a topic that is deleted.
const doomedTopic = "doomed"

// entire checks that a store has everything in acks that retention has not deleted, that it
// has no gap in a queue and nothing that no producer appended.
func entire(t *testing.T, s *warmlog.Store, acks []acknowledged) {
	t.Helper()
	t.Logf("%d acknowledged", len(acks))
	begin, _ := s.Bounds()
	place := map[queueOffset]int64{}
	for v, err := range s.Records(context.Background(), 0) {
		if err != nil {
			t.Errorf("a record: %v", err)
			continue
		}
		if string(v.Topic()) == doomedTopic {
			continue
		}
		id, off := v.QueueID(), v.QueueOffset()
		if err := storetest.Check(v, crashTopic, id, off); err != nil {
			t.Errorf("a foreign or torn record at %d: %v", v.PhysicalOffset(), err)
		}
		if len(v.Body()) != crashBody(id, off) {
			t.Errorf("a record at %d: %d bytes in the body", v.PhysicalOffset(), len(v.Body()))
		}
		if at, ok := place[queueOffset{id, off}]; ok {
			t.Errorf("%d/%d lies at %d and at %d", id, off, at, v.PhysicalOffset())
		}
		place[queueOffset{id, off}] = v.PhysicalOffset()
	}
	lost := 0
	for _, a := range acks {
		if at, ok := place[queueOffset{a.id, a.off}]; a.pos >= begin && (!ok || at != a.pos) {
			if lost++; lost <= 5 {
				t.Errorf("acknowledged and lost: %+v; at %d, %v", a, at, ok)
			}
		}
	}
	if lost > 5 {
		t.Errorf("%d acknowledged messages are lost", lost)
	}
	n := 0
	for _, q := range s.Queues() {
		if q.Topic == doomedTopic {
			continue
		}
		offsets, errs := messages(t, s, q.Topic, q.ID)
		for i, off := range offsets {
			if off != int64(i) && (begin == 0 || off != offsets[0]+int64(i)) {
				t.Errorf("queue %d: offset %d follows %d others", q.ID, off, i)
				break
			}
		}
		if len(errs) > 0 {
			t.Errorf("queue %d: %v", q.ID, errs)
		}
		n += len(offsets)
	}
	if n != len(place) {
		t.Errorf("%d messages in queues, %d records", n, len(place))
	}
}

type queueOffset struct {
	id  int32
	off int64
}

// sound checks that Verify finds nothing wrong in an open store.
func sound(t *testing.T, s *warmlog.Store) {
	t.Helper()
	_, err := s.Verify(context.Background(), func(d *message.DamageError) {
		if !errors.Is(d, layout.ErrFileSize) { // a queue file whose making was cut short; whole by now
			t.Errorf("damage: %v", d)
		}
	})
	must(t, err)
}

// openCrashed opens a store for reading only, as it was left.
func openCrashed(p plan) (*warmlog.Store, error) {
	o := p.options()
	o.ReadOnly = true
	return warmlog.Open(p.Dir, o)
}

// reopen opens a store for writing and checks it: see entire. further, if any, check more.
func reopen(t *testing.T, p plan, acks []acknowledged, further ...func(*warmlog.Store)) {
	t.Helper()
	s, err := warmlog.Open(p.Dir, p.options())
	must(t, err)
	entire(t, s, acks)
	sound(t, s)
	for _, check := range further {
		check(s)
	}
	must(t, s.Close())
	if _, damage := verify(t, p.Dir); len(damage) > 0 {
		t.Error("after it was closed:", damage)
	}
}
