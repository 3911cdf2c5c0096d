package commitlog

import (
	"sync/atomic"

	"github.com/warmlog/warmlog/internal/mapfile"
)

// fresh remembers where the log ended a short while ago: what came since was written by this
// process, and so is in memory.
type fresh struct {
	from atomic.Int64
	// ends are the log's last ends, one for each step. Of who calls Step.
	ends [mapfile.WarmSteps]int64
	next int
}

// noneFresh is where what was written lately begins in a log that this process does not write.
const noneFresh = 1<<63 - 1

// StartFresh says that from now on this process writes the log, from a physical offset on. It is
// called before the first append.
func (l *Log) StartFresh(end int64) {
	for i := range l.fresh.ends {
		l.fresh.ends[i] = end
	}
	l.fresh.from.Store(end)
}

// Fresh returns the physical offset from which on this process has written the log a short while
// ago, so that it is in memory.
func (l *Log) Fresh() int64 { return l.fresh.from.Load() }

// Step is called once in a [mapfile.StepInterval] with the physical offset up to which this process
// has written the log. The kernel is asked about what is not fresh
// any more, so that who reads a little behind the end need not ask. The error says once that what
// [Log.Pin] asks for is refused.
func (l *Log) Step(end int64) error {
	l.stepFresh(end)
	return l.movePins(min(end, l.Max()))
}

func (l *Log) stepFresh(end int64) {
	f := &l.fresh
	from := f.from.Load()
	if from == noneFresh {
		return
	}
	to := f.ends[f.next]
	if end < f.ends[(f.next+len(f.ends)-1)%len(f.ends)] { // the log was cut
		l.StartFresh(end)
		return
	}
	f.ends[f.next] = end
	f.next = (f.next + 1) % len(f.ends)
	for at := from; at < to; {
		s, file, err := l.open(at)
		if err != nil {
			break
		}
		n := min(s.End(), to) - at
		file.Ask(at-s.Base, n)
		file.Release()
		at += n
	}
	f.from.Store(to)
}

// ReadCold reads visible bytes of one segment by system call, fewer where they end, and leaves
// nothing of them in memory that was not there. The error is [ErrGone], [ErrBeyond], a damage, or
// what the system said.
func (l *Log) ReadCold(b []byte, off int64) (int, error) {
	got, err := l.readWith((*mapfile.File).ReadCold, off, int64(len(b)), b)
	return len(got), err
}

// Prefetch asks the kernel to read a part of one segment, without waiting for it. forget, called
// when it was read, leaves nothing in memory that was not there.
func (l *Log) Prefetch(off, n int64) (forget func()) {
	s, file, err := l.open(off)
	if err != nil {
		return func() {}
	}
	absent := file.Prefetch(off-s.Base, min(n, s.End()-off))
	return func() {
		file.Forget(absent)
		file.Release()
	}
}
