package warmlog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

// The tests in crash_*_test.go run this program again as a child that writes a store, make
// it or its disk fail, and compare what the store has then with what the child was promised.

// plan is what a child does. It is handed over as JSON in the environment.
type plan struct {
	Dir         string
	Flushed     bool // durability of the store
	CRC         bool
	SegmentSize int64  // 0: 64 KiB
	Queues      int    // each has a producer; 0: 6
	Messages    int    // of each producer; 0: until it is killed
	Pause       int    // µs between appends
	Body        int    // bytes of a body of zeros, of the first queue; 0: bodies that are known
	CloseAfter  int    // ms; 0: when all messages are appended
	DieAt       int64  // bytes that Open has read: it then sends itself SIGKILL
	DieIn       string // how the phase of Open begins to which DieAt belongs
	// Job is what is done in place of appending: see jobs.
	Job string
	// Keep is Retention.MaxBytes.
	Keep int64
	// User is who the child becomes before it opens the store; 0: it stays root.
	User int
	// Keys gives messages of some jobs keys, in index files of eight.
	Keys bool
}

// jobs are what a child can do with its store, by plan.Job. They tell with tell, as
// TestCrashChild does.
var jobs = map[string]func(t *testing.T, p *plan, s *warmlog.Store, tell func(string, ...any)){
	"":              produce,
	"failed flush":  failedFlushJob,
	"consume":       consumeJob,
	"open":          func(*testing.T, *plan, *warmlog.Store, func(string, ...any)) {},
	"step append":   appendStep,
	"step expire":   expireStep,
	"step delete":   deleteStep,
	"step truncate": truncateStep,
}

const (
	planVariable = "WARMLOG_CRASH_PLAN"
	crashTopic   = "crash"
)

// crashOptions are those of the stores of crash tests.
func (p *plan) options() warmlog.Options {
	o := warmlog.Options{SegmentSize: p.SegmentSize, QueueFileSize: 20 * 500, RecordCRC: p.CRC, Durability: warmlog.Written}
	if o.SegmentSize == 0 {
		o.SegmentSize = 64 << 10
	}
	if p.Flushed {
		o.Durability = warmlog.Flushed
	}
	if p.Keep > 0 {
		o.Retention = warmlog.Retention{MaxBytes: p.Keep, Interval: time.Hour}
	}
	if p.Keys {
		o.Index = keyindex.Layout{Slots: 5, Entries: 8}
	}
	return o
}

// crashMessage is message off of a queue: whoever knows the place knows every byte.
func crashMessage(id int32, off int64) *message.Message {
	return storetest.Message(crashTopic, id, off, crashBody(id, off))
}

func crashBody(id int32, off int64) int { return 20 + int((off*37+int64(id)*101)%1500) }

// TestCrashChild is the child. It tells, one line each:
//
//	P done total           how far Open has come, in bytes
//	O                      the store is open
//	A queue offset physical flushed   an append was acknowledged, flushed 1 or 0
//	E error                an append, open or close failed, or a background error was logged
//	N text                 something that a job has seen
//	C                      the store is about to be closed
//	D                      it is closed
func TestCrashChild(t *testing.T) {
	var p plan
	if err := json.Unmarshal([]byte(os.Getenv(planVariable)), &p); err != nil {
		t.Skip("for other tests")
	}
	out := os.NewFile(3, "pipe")
	tell := func(format string, args ...any) { // one write a line
		fmt.Fprintln(out, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; "))
	}
	o := p.options()
	o.Logger = slog.New(slog.NewTextHandler(lines(func(s string) { tell("E log %q", s) }), &slog.HandlerOptions{Level: slog.LevelError}))
	if p.DieAt > 0 {
		o.Progress = func(now warmlog.Progress) {
			if tell("P %d %d", now.Done, now.Total); now.Done >= p.DieAt && strings.HasPrefix(now.Phase, p.DieIn) {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
	}
	if p.User != 0 {
		must(t, syscall.Setuid(p.User))
	}
	s, err := warmlog.Open(p.Dir, o)
	if err != nil {
		tell("E open: %v", err)
		return
	}
	tell("O")
	jobs[p.Job](t, &p, s, tell)
	tell("C")
	if err := s.Close(); err != nil {
		tell("E close: %v", err)
	}
	tell("D")
}

// produce appends from all producers at once.
func produce(t *testing.T, p *plan, s *warmlog.Store, tell func(string, ...any)) {
	var stop atomic.Bool
	if p.CloseAfter > 0 {
		time.AfterFunc(time.Duration(p.CloseAfter)*time.Millisecond, func() { stop.Store(true) })
	}
	if p.Queues == 0 {
		p.Queues = 6
	}
	var group sync.WaitGroup
	for id := range int32(p.Queues) {
		group.Go(func() { (&producer{t, p, s, id, tell, &stop}).run() })
	}
	group.Wait()
}

// lines is a writer that gives on what is written to it.
type lines func(string)

func (l lines) Write(b []byte) (int, error) { l(string(b)); return len(b), nil }

// producer appends to a queue of its own.
type producer struct {
	t    *testing.T
	plan *plan
	s    *warmlog.Store
	id   int32
	tell func(string, ...any)
	stop *atomic.Bool
}

// triesAfterError is how many appends follow one that failed.
const triesAfterError = 5

func (p *producer) run() {
	next := int64(0)
	if _, end, err := p.s.QueueBounds(context.Background(), crashTopic, p.id); err == nil {
		next = end
	}
	failed, last := 0, error(nil)
	for n := 0; (p.plan.Messages == 0 || n < p.plan.Messages) && !p.stop.Load() && failed < triesAfterError; n++ {
		placed, err := p.append(next, n)
		next += placed
		if err != nil {
			p.tell("E append to %d: %v", p.id, err)
			failed++
		} else if errors.Is(last, warmlog.ErrFailed) {
			p.tell("X queue %d: acknowledged after %v", p.id, last)
		}
		if last = err; err != nil && !errors.Is(err, warmlog.ErrFailed) {
			time.Sleep(5 * time.Millisecond)
		}
		if p.plan.Pause > 0 {
			time.Sleep(time.Duration(p.plan.Pause) * time.Microsecond)
		}
	}
}

func (p *producer) ack(r warmlog.Appended, d warmlog.Durability) {
	flushed := 0
	if d == warmlog.Flushed || p.plan.Flushed {
		flushed = 1
	}
	p.tell("A %d %d %d %d", p.id, r.QueueOffset, r.PhysicalOffset, flushed)
}

// append appends one message, several at once, or several asynchronously, from an offset on.
// It returns how many are in the log.
func (p *producer) append(off int64, n int) (placed int64, err error) {
	d := warmlog.Written
	if n%10 == 0 {
		d = warmlog.Flushed
	}
	switch p.id % 3 {
	case 0:
		m := crashMessage(p.id, off)
		if p.plan.Body > 0 {
			m.Body = make([]byte, p.plan.Body)
		}
		r, err := p.s.AppendWith(context.Background(), m, d)
		if err == nil {
			p.ack(r, d)
		}
		return min(int64(r.Size), 1), err
	case 1:
		ms := make([]*message.Message, 1+n%5)
		for i := range ms {
			ms[i] = crashMessage(p.id, off+int64(i))
		}
		rs, err := p.s.AppendAll(context.Background(), ms, d)
		for _, r := range rs {
			if err == nil {
				p.ack(r, d)
			}
		}
		return int64(len(rs)), err
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	for range 1 + n%30 {
		group.Add(1)
		p.s.AppendAsync(crashMessage(p.id, off+placed), d, func(r warmlog.Appended, failed error) {
			defer group.Done()
			mu.Lock()
			defer mu.Unlock()
			if failed == nil {
				p.ack(r, d)
			} else {
				err = failed
			}
		})
		mu.Lock()
		refused := err != nil
		mu.Unlock()
		if refused {
			break // what follows would have other offsets than their bodies say
		}
		placed++
	}
	group.Wait()
	return placed, err
}
