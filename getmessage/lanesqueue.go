package getmessage

import (
	"strings"
	"time"
)

// readCost is what a read costs the device beside its bytes, in bytes: reading 4 KiB takes about
// 70 µs where 64 KiB take 110 and 1 MiB 770. Without it a group of many small reads would get
// more of the device than one of few large ones.
const readCost = 64 << 10

// mostCost bounds what a read counts, so that sums of it do not overflow in a lifetime.
const mostCost = 1 << 30

func costOf(bytes int64) int64 { return min(bytes, mostCost) + readCost }

// laneQueue holds the jobs that wait, each group's in the order of their coming. Between groups
// it is start-time fair queueing: a group's tag is the virtual time at which its next job may
// begin, later by what its jobs cost; the smallest tag is next, and its beginning is the new
// virtual time. Like deficit round robin this shares by bytes, but a group without waiting jobs
// that comes back finds its debts kept, and a large read takes no rounds to save for.
type laneQueue struct {
	groups  map[string]*laneGroup
	active  []*laneGroup // those with jobs that wait. Searched one by one: a look costs far less than a read
	virtual int64        // time, in bytes of cost
	latest  int64        // the largest tag there ever was
	seq     uint64       // of the last job
	waiting int          // jobs
	asked   int          // of those, whose prefetch was asked for
	sweepAt int          // groups at which those that are as good as new are forgotten

	spare  *laneJob // to be used again, linked by next
	spares int
}

// laneGroup is what is known of a consumer group.
type laneGroup struct {
	tag         int64
	first, last *laneJob
	unasked     *laneJob // first of the jobs whose prefetch was not asked for: they come last
	askedCost   int64    // of the jobs before it
	bucket      bucket
	own         int64 // rate: 0 that of each group, negative none
	waiting     int
	at          int // in active
}

type laneState uint8

const (
	laneWaits laneState = iota
	laneGranted
	laneRefused
	laneGivenUp
)

// laneJob is a read that waits. Everything but wake is guarded by Lanes.mu.
type laneJob struct {
	group      *laneGroup
	bytes      int64
	seq        uint64
	since      time.Duration
	ahead      bool // there is a prefetch
	asked      bool // it was asked for, and the rates have paid for its bytes
	called     bool // it was, or is being, called
	state      laneState
	prev, next *laneJob
	wake       chan struct{} // of one: something happened
}

func (j *laneJob) tell() {
	select {
	case j.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Jobs and groups at which lists of what is over are cut short.
const (
	mostSpareJobs = 64
	firstSweep    = 64
)

// job returns a job to fill in.
func (q *laneQueue) job() *laneJob {
	j := q.spare
	if j == nil {
		return &laneJob{wake: make(chan struct{}, 1)}
	}
	q.spare, j.next = j.next, nil
	q.spares--
	return j
}

// recycle keeps a job that has left the queue for another read.
func (q *laneQueue) recycle(j *laneJob) {
	select {
	case <-j.wake: // what it was told and did not need
	default:
	}
	if q.spares == mostSpareJobs {
		return
	}
	*j = laneJob{wake: j.wake, next: q.spare}
	q.spare = j
	q.spares++
}

// group returns what is known of a group. Those that are as good as new are forgotten now and
// then: names come from requests.
func (l *Lanes) group(name string) *laneGroup {
	g := l.groups[name]
	if g != nil {
		return g
	}
	if len(l.groups) >= max(l.sweepAt, firstSweep) {
		now := l.now()
		for name, g := range l.groups {
			if g.waiting == 0 && g.own == 0 && g.tag <= l.virtual && g.bucket.full(now) {
				delete(l.groups, name)
			}
		}
		l.sweepAt = 2 * len(l.groups)
	}
	g = &laneGroup{}
	l.groups[strings.Clone(name)] = g
	return g
}

// push puts a job at the end of its group.
func (q *laneQueue) push(j *laneJob) {
	g := j.group
	q.seq++
	j.seq = q.seq
	if j.prev = g.last; j.prev != nil {
		j.prev.next = j
	} else {
		g.first = j
		g.at = len(q.active)
		q.active = append(q.active, g)
	}
	g.last = j
	if g.unasked == nil {
		g.unasked = j
	}
	g.waiting++
	q.waiting++
}

// remove takes a job out.
func (q *laneQueue) remove(j *laneJob) {
	g := j.group
	if g.unasked == j {
		g.unasked = j.next
	}
	if j.asked {
		g.askedCost -= costOf(j.bytes)
		q.asked--
	}
	if j.prev != nil {
		j.prev.next = j.next
	} else {
		g.first = j.next
	}
	if j.next != nil {
		j.next.prev = j.prev
	} else {
		g.last = j.prev
	}
	j.prev, j.next = nil, nil
	g.waiting--
	q.waiting--
	if g.first == nil {
		n := len(q.active) - 1
		last := q.active[n]
		q.active[g.at], last.at = last, g.at
		q.active[n] = nil
		q.active = q.active[:n]
	}
}

// ask notes that a job's prefetch is to be called, which its own goroutine does. The job is its
// group's first that was not asked.
func (q *laneQueue) ask(j *laneJob) {
	j.asked = true
	j.group.unasked = j.next
	j.group.askedCost += costOf(j.bytes)
	q.asked++
	j.tell()
}

// next returns the group whose first job is to have a lane; or, ahead, whose first job without
// a prefetch is to have one; nil if there is none, or rates forbid it. Of equals the one whose
// job came first.
func (l *Lanes) next(now time.Duration, ahead bool) *laneGroup {
	var best *laneGroup
	var least int64
	var seq uint64
	rates, open := l.limited(), l.all.open(now)
	if !open && (ahead || l.asked == 0) {
		return nil
	}
	for _, g := range l.active {
		j, tag := g.first, max(l.virtual, g.tag)
		if ahead {
			j = g.unasked
			tag += g.askedCost
		}
		// What was asked for is paid for. The job itself is looked at last: most groups fail
		// before, where there are many.
		if j == nil || best != nil && tag > least || j == g.unasked && (!open || rates && !l.bucket(g, now).open(now)) {
			continue
		}
		if ahead && !j.ahead || best != nil && tag == least && j.seq > seq {
			continue
		}
		best, least, seq = g, tag, j.seq
	}
	return best
}

// charge moves the virtual time to the beginning of a group's job, and the group's behind it.
func (q *laneQueue) charge(g *laneGroup, bytes int64) {
	q.virtual = max(q.virtual, g.tag)
	g.tag = q.virtual + costOf(bytes)
	q.latest = max(q.latest, g.tag)
}

// idle forgives all debts, as nobody is there to be paid: the virtual time catches up.
func (q *laneQueue) idle() { q.virtual = q.latest }

// surplus returns a job that may not wait, where the newest one, j, is too many: j itself if its
// group has too many, or as many as any other; else the newest of the group with the most. So
// one group cannot take all room. nil: there is room.
func (q *laneQueue) surplus(j *laneJob, all, each int) *laneJob {
	if j.group.waiting > each {
		return j
	}
	if q.waiting <= all {
		return nil
	}
	most := j.group
	for _, g := range q.active {
		if g.waiting > most.waiting {
			most = g
		}
	}
	return most.last
}
