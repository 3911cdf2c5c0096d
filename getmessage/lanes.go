package getmessage

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// ErrColdBusy says that a cold read was not made: as many wait already as may, of its consumer
// group or in all. The consumer should pull again after a pause, or from the slave.
var ErrColdBusy = errors.New("too many cold reads wait")

// LaneOptions are the options of [NewLanes]. What is 0 has its default; what is negative too,
// but where it says otherwise.
type LaneOptions struct {
	// Lanes is how many cold reads run at once; 0: GOMAXPROCS − 1, at least 1. A read that
	// blocks keeps its processor until the runtime notices: one should be left for the others.
	Lanes int
	// Waiting is how many cold reads wait at most; 0: 4096.
	Waiting int
	// GroupWaiting is how many of one consumer group wait at most; 0: 1024.
	GroupWaiting int
	// Ahead is how many of those that wait have had their prefetch submitted; 0: 16, negative:
	// none. More keep more of the device busy, and more memory in pages that nobody reads yet.
	Ahead int
	// RateAll bounds all cold bytes in a second; 0 or less: no bound. See [Lanes.SetRate].
	RateAll int64
	// RateEach bounds the cold bytes of each group in a second; 0 or less: no bound. See
	// [Lanes.SetGroupRate].
	RateEach int64
}

const (
	defaultLaneWaiting  = 4096
	defaultGroupWaiting = 1024
	defaultAhead        = 16
)

// Lanes are where cold reads take turns. Make them with [NewLanes]. A lane is a right to read, no
// worker: the read runs on the goroutine that asks. There is no goroutine, and nothing to close;
// a timer is set only while somebody waits for a rate. All methods may be called concurrently.
//
// Turns are fair between consumer groups by what their reads cost the device (see readCost),
// whatever number of reads each has waiting: a group that has had less than others is next.
type Lanes struct {
	options LaneOptions // with every default set
	began   time.Time

	mu sync.Mutex // guards what follows; held with no other lock
	laneQueue
	laneRates
	running int
	stats   LaneStats // Waiting and Running are not kept there
}

// LaneStats are what lanes did since they were made, and do now.
type LaneStats struct {
	Waiting   int   // reads that wait for a lane
	Submitted int   // of those, whose prefetch was asked for
	Running   int   // reads that have a lane
	Done      int64 // reads that gave their lane back, with an error and by panic too
	Bytes     int64 // that those said they would read
	Refused   int64 // reads that were not made: ErrColdBusy
	GivenUp   int64 // reads that were not made: their context ended, or their prefetch panicked
	// LongestWait is the longest that a read waited, whatever became of it.
	LongestWait time.Duration
}

// NewLanes makes lanes.
func NewLanes(o LaneOptions) *Lanes {
	set := func(n *int, def int) {
		if *n <= 0 {
			*n = def
		}
	}
	set(&o.Lanes, max(1, runtime.GOMAXPROCS(0)-1))
	set(&o.Waiting, defaultLaneWaiting)
	set(&o.GroupWaiting, defaultGroupWaiting)
	if o.Ahead == 0 {
		o.Ahead = defaultAhead
	}
	l := &Lanes{options: o, began: time.Now()}
	l.groups = make(map[string]*laneGroup)
	l.all.set(0, o.RateAll)
	l.each = max(0, o.RateEach)
	l.armed = never
	return l
}

// Do runs read, on the caller's goroutine, when it is the turn of its consumer group, and returns
// its error. bytes is what it will read, for turns and rates.
//
// Where a lane is free at once nothing else happens, and nothing is allocated. Else Do waits, and
// calls prefetch (may be nil) once when the read gets among the first that wait: it should tell
// the kernel what will be read, and not block. It is called by the caller's goroutine too, so
// neither function runs after Do has returned. A lane that gets free before makes the call
// needless.
//
// The error is that of ctx when it ends before read begins, which is not cut short; or
// [ErrColdBusy]: a read that may not wait any more is refused at once and does not block, as who
// waits holds a goroutine, a connection's turn and perhaps a prefetch, and a consumer that is
// told to come back loses nothing. A refusal can also hit a read that waits already: when all
// room is taken, the group with the most waiting loses its newest to a group that has fewer. A
// panic of read or prefetch passes through and gives back what was taken.
func (l *Lanes) Do(ctx context.Context, group string, bytes int64, prefetch func(), read func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	bytes = max(0, bytes)
	if j := l.enter(group, bytes, prefetch != nil); j != nil {
		if err := l.wait(ctx, j, prefetch); err != nil {
			return err
		}
	}
	defer l.leave(bytes)
	return read()
}

// Stats returns what the lanes did and do.
func (l *Lanes) Stats() LaneStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Waiting, s.Submitted, s.Running = l.waiting, l.asked, l.running
	return s
}

// now is the time since the lanes were made.
func (l *Lanes) now() time.Duration { return time.Since(l.began) }

// enter takes a free lane and returns nil, or a place in the queue.
func (l *Lanes) enter(group string, bytes int64, ahead bool) *laneJob {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.group(group)
	var now time.Duration
	if l.limited() {
		now = l.now()
	}
	// Somebody may wait although a lane is free: for a rate. Then even who could start takes a
	// place, or those that come by would take what the others wait for.
	if l.waiting == 0 && l.running < l.options.Lanes && l.open(g, now) {
		l.pay(g, bytes, now)
		l.start(g, bytes)
		return nil
	}
	j := l.job()
	j.group, j.bytes, j.ahead, j.since = g, bytes, ahead, l.now()
	l.push(j)
	l.turn(j, j.since)
	return j
}

// start gives a lane to a group.
func (l *Lanes) start(g *laneGroup, bytes int64) {
	l.charge(g, bytes)
	l.running++
}

// turn does what has become possible: lanes, then room, which newest (or nil) needs if it got
// none, then prefetches; and sees to it that it is called again when a rate allows more.
func (l *Lanes) turn(newest *laneJob, now time.Duration) {
	for l.running < l.options.Lanes {
		g := l.next(now, false)
		if g == nil {
			break
		}
		j := g.first
		if !j.asked {
			l.pay(g, j.bytes, now)
		}
		l.take(j, laneGranted, now)
		l.start(g, j.bytes)
	}
	if newest != nil && newest.state == laneWaits {
		if j := l.surplus(newest, l.options.Waiting, l.options.GroupWaiting); j != nil {
			l.take(j, laneRefused, now)
		}
	}
	for l.asked < l.options.Ahead {
		g := l.next(now, true)
		if g == nil {
			break
		}
		l.pay(g, g.unasked.bytes, now)
		l.ask(g.unasked)
	}
	l.arm(now)
	if l.waiting == 0 && l.running == 0 {
		l.idle()
	}
}

// take ends a job's waiting.
func (l *Lanes) take(j *laneJob, state laneState, now time.Duration) {
	l.stats.LongestWait = max(l.stats.LongestWait, now-j.since)
	l.remove(j)
	j.state = state
	j.tell()
}

// wait returns when a job has a lane, else with an error. The job is not to be used any more.
func (l *Lanes) wait(ctx context.Context, j *laneJob, prefetch func()) error {
	settled := false
	defer func() {
		if !settled { // the context, or a panic of prefetch
			l.giveUp(j)
		}
	}()
	for {
		state, ask := l.look(j)
		switch {
		case state == laneGranted:
			settled = true
			return nil
		case state == laneRefused:
			settled = true
			return ErrColdBusy
		case ask:
			prefetch()
			continue // what happened meanwhile
		}
		select {
		case <-j.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look returns what became of a job, and whether its prefetch is to be called now. A job that
// does not wait any more is gone.
func (l *Lanes) look(j *laneJob) (state laneState, ask bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j.state != laneWaits {
		state = j.state
		l.recycle(j)
		if state == laneRefused {
			l.stats.Refused++
		}
		return state, false
	}
	ask = j.asked && !j.called
	j.called = j.asked
	return laneWaits, ask
}

// giveUp takes a job away, and gives its lane to the next if it got one meanwhile.
func (l *Lanes) giveUp(j *laneJob) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	switch j.state {
	case laneGranted:
		l.running--
	case laneWaits:
		l.take(j, laneGivenUp, now)
	}
	l.stats.GivenUp++
	l.recycle(j)
	l.turn(nil, now)
}

// leave gives a lane to the next.
func (l *Lanes) leave(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	l.stats.Done++
	l.stats.Bytes += bytes
	if l.waiting > 0 {
		l.turn(nil, l.now())
	} else if l.running == 0 {
		l.idle()
	}
}
