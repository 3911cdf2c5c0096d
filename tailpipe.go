package warmlog

import (
	"sync"
	"sync/atomic"

	"github.com/warmlog/warmlog/message"
)

// pipe gives the records of a scan to the queues and to the index in a goroutine of its own:
// that takes as long as to read and check them.
type pipe struct {
	add func(v *message.View, pos int64) error
	now chunk // is being filled
	// Chunks go round: those that are full to the goroutine, those that it has done back.
	full, done chan chunk
	// unsettled counts the full chunks that are not done.
	unsettled sync.WaitGroup
	failed    atomic.Pointer[error] // add's; nothing is added after it
	ended     sync.WaitGroup
}

// chunk is records in a buffer of a scanner.
type chunk struct {
	records []message.View
	buf     []byte // nil: the scanner has it still
}

// chunks is how many chunks go round: one is filled, one taken, and one waits in between.
const chunks = 3

// newPipe returns a pipe to be closed. add is not called after it has failed.
func newPipe(add func(v *message.View, pos int64) error) *pipe {
	p := &pipe{add: add, full: make(chan chunk, chunks), done: make(chan chunk, chunks)}
	for range chunks - 1 {
		p.done <- chunk{}
	}
	p.ended.Go(p.run)
	return p
}

func (p *pipe) run() {
	for c := range p.full {
		for i := range c.records {
			if p.failed.Load() != nil {
				break
			}
			// A scan that compares checksums compares the physical offset, too.
			if err := p.add(&c.records[i], c.records[i].PhysicalOffset()); err != nil {
				p.failed.Store(&err)
			}
		}
		if c.buf != nil {
			p.done <- chunk{c.records[:0], c.buf}
		}
		p.unsettled.Done()
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

// close ends the pipe's goroutine. What was put and not drained may not have been added.
func (p *pipe) close() {
	close(p.full)
	p.ended.Wait()
}
