package warmlog

import (
	"sync"
	"sync/atomic"

	"github.com/warmlog/warmlog/message"
)

// pipe gives the records of a scan to the queues and to the index, each in a goroutine of its
// own: either takes about as long as to read and check them.
type pipe struct {
	now chunk // is being filled
	// Chunks go round: those that are full from stage to stage, those that all have done back.
	full, done chan chunk
	// unsettled counts the full chunks that are not done.
	unsettled sync.WaitGroup
	failed    atomic.Pointer[error] // a stage's; none goes on after it
	ended     sync.WaitGroup
}

// chunk is records in a buffer of a scanner.
type chunk struct {
	records []message.View
	buf     []byte // nil: the scanner has it still
}

// newPipe returns a pipe to be closed. Each stage is called with the records in order, and not
// any more after one has failed.
func newPipe(stages ...func(*message.View) error) *pipe {
	chunks := 2 + len(stages) // one is filled, each stage has one, and one waits in between
	p := &pipe{full: make(chan chunk, chunks), done: make(chan chunk, chunks)}
	for range chunks - 1 {
		p.done <- chunk{}
	}
	in := p.full
	for i, stage := range stages {
		out := make(chan chunk, chunks)
		last := i == len(stages)-1
		from := in
		p.ended.Go(func() {
			defer close(out)
			for c := range from {
				p.each(stage, c.records)
				if !last {
					out <- c
					continue
				}
				if c.buf != nil {
					p.done <- chunk{c.records[:0], c.buf}
				}
				p.unsettled.Done()
			}
		})
		in = out
	}
	return p
}

func (p *pipe) each(stage func(*message.View) error, records []message.View) {
	for i := range records {
		if p.failed.Load() != nil {
			return
		}
		if err := stage(&records[i]); err != nil {
			failure := err // not err: it would be allocated for each record
			p.failed.Store(&failure)
		}
	}
}

// put takes a record, whose bytes stay as they are until their buffer is traded.
func (p *pipe) put(v *message.View) { p.now.records = append(p.now.records, *v) }

// trade takes a buffer with all records that were put, and returns another one.
func (p *pipe) trade(used []byte) []byte {
	p.now.buf = used
	p.hand()
	p.now = <-p.done
	return p.now.buf
}

func (p *pipe) hand() {
	p.unsettled.Add(1)
	p.full <- p.now
}

// drain returns when all records that were put are added, or one of them has failed.
func (p *pipe) drain() error {
	p.now.buf = nil
	p.hand()
	p.now = chunk{}
	p.unsettled.Wait()
	return p.err()
}

// err returns why nothing is added any more, nil if that is not so.
func (p *pipe) err() error {
	if err := p.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// close ends the pipe's goroutines. What was put and not drained may not have been added.
func (p *pipe) close() {
	close(p.full)
	p.ended.Wait()
}
