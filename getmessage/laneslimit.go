package getmessage

import "time"

// burst is how much of a second's bytes a rate that was not used lets through at once.
const burst = 100 * time.Millisecond

// longestDebt bounds for how long one read can keep others waiting for a rate.
const longestDebt = 365 * 24 * time.Hour

// bucket is a rate. It is a token bucket kept as the time at which it is out of debt: a read may
// begin as soon as those before are paid for, however large it is, and puts it into debt. So in
// any time t no more is begun than rate × (t + burst) and one read.
type bucket struct {
	rate int64         // bytes in a second; 0: no bound
	free time.Duration // since the lanes were made
}

// set changes the rate. What is owed is owed still, in bytes.
func (b *bucket) set(now time.Duration, rate int64) {
	rate = max(0, rate)
	if rate == b.rate {
		return
	}
	if debt := b.free - now; b.rate > 0 && rate > 0 && debt > 0 {
		b.free = now + scaled(debt, b.rate, rate)
	} else {
		b.free = now
	}
	b.rate = rate
}

func (b *bucket) open(now time.Duration) bool { return b.rate == 0 || b.free <= now }

// full reports whether the bucket is as if it had never been used.
func (b *bucket) full(now time.Duration) bool { return b.rate == 0 || b.free <= now-burst }

func (b *bucket) pay(now time.Duration, bytes int64) {
	if b.rate == 0 {
		return
	}
	b.free = max(b.free, now-burst) + scaled(time.Second, bytes, b.rate)
	b.free = min(b.free, now+longestDebt)
}

// scaled returns d × by / of, without overflow.
func scaled(d time.Duration, by, of int64) time.Duration {
	return time.Duration(min(float64(d)*float64(by)/float64(of), float64(longestDebt)))
}

// laneRates are the bounds on bytes in a second.
type laneRates struct {
	all   bucket
	each  int64 // of each group without a rate of its own
	owned int   // groups that have one

	timer *time.Timer   // calls turn when a rate allows more
	armed time.Duration // when it will; never if it is not set
}

// SetRate bounds all cold bytes to all in a second, and those of each group that has no rate of
// its own to each; 0 or less: no bound. A read begins when those before are paid for, and its
// bytes count from when its prefetch is asked for: in t seconds no more than rate × (t + 0.1)
// bytes and one read are taken from the disk.
func (l *Lanes) SetRate(all, each int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.all.set(now, all)
	l.each = max(0, each)
	l.turn(nil, now)
}

// SetGroupRate bounds a group's cold bytes to rate in a second, whatever [Lanes.SetRate] says for
// each; 0: as for each, negative: no bound. What is set is kept in memory until it is set to 0.
func (l *Lanes) SetGroupRate(group string, rate int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.group(group)
	if g.own != 0 {
		l.owned--
	}
	if rate != 0 {
		l.owned++
	}
	g.own = rate
	l.turn(nil, l.now())
}

// limited reports whether there is any rate. Else nobody needs to know the time.
func (l *Lanes) limited() bool { return l.all.rate > 0 || l.each > 0 || l.owned > 0 }

// bucket returns a group's bucket with the rate that holds now.
func (l *Lanes) bucket(g *laneGroup, now time.Duration) *bucket {
	rate := g.own
	if rate == 0 {
		rate = l.each
	}
	g.bucket.set(now, rate)
	return &g.bucket
}

// open reports whether the rates let a group's read begin.
func (l *Lanes) open(g *laneGroup, now time.Duration) bool {
	return l.all.open(now) && l.bucket(g, now).open(now)
}

func (l *Lanes) pay(g *laneGroup, bytes int64, now time.Duration) {
	l.all.pay(now, bytes)
	l.bucket(g, now).pay(now, bytes)
}

// arm sets the timer for when a rate lets the next read begin, or be prefetched. A rate that lets
// one begin already waits for a lane, whose return calls turn.
func (l *Lanes) arm(now time.Duration) {
	at := time.Duration(never)
	switch {
	case l.waiting == l.asked || l.running == l.options.Lanes && l.asked >= l.options.Ahead || !l.limited():
	case !l.all.open(now):
		at = l.all.free // and then look at the groups
	default:
		for _, g := range l.active {
			if b := l.bucket(g, now); g.unasked != nil && !b.open(now) {
				at = min(at, b.free)
			}
		}
	}
	switch {
	case at == l.armed:
	case at == never:
		l.timer.Stop()
	case l.timer == nil:
		l.timer = time.AfterFunc(at-now, l.tick)
	default:
		l.timer.Reset(at - now)
	}
	l.armed = at
}

// tick is called by the timer.
func (l *Lanes) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = never
	l.turn(nil, l.now())
}
