package warmlog_test

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/message"
)

// stepMessage is message off of a queue, with a key where the plan wants keys.
func stepMessage(p *plan, id int32, off int64) *message.Message {
	m := crashMessage(id, off)
	if p.Keys {
		m.Keys = fmt.Sprintf("%d/%d", id, off)
	}
	return m
}

// appendStep appends messages to three queues in turn, and writes a checkpoint behind each
// ten of them.
func appendStep(t *testing.T, p *plan, s *warmlog.Store, tell func(string, ...any)) {
	ctx := context.Background()
	for n := range p.Messages {
		id, off := int32(n%3), int64(0)
		must(t, s.Dispatched(ctx))
		if _, end, err := s.QueueBounds(ctx, crashTopic, id); err == nil {
			off = end
		}
		r, err := s.Append(ctx, stepMessage(p, id, off))
		if err != nil {
			tell("E append: %v", err)
			return
		}
		tell("A %d %d %d 1", id, r.QueueOffset, r.PhysicalOffset)
		if n%10 == 9 {
			if err := s.Checkpoint(ctx); err != nil {
				tell("E checkpoint: %v", err)
			}
		}
	}
}

// expireStep deletes what is above the limit.
func expireStep(_ *testing.T, _ *plan, s *warmlog.Store, tell func(string, ...any)) {
	if _, err := s.Retain(context.Background()); err != nil {
		tell("E retain: %v", err)
	}
}

// deleteStep deletes a topic, or one of its queues.
func deleteStep(_ *testing.T, p *plan, s *warmlog.Store, tell func(string, ...any)) {
	err := s.DeleteQueue(context.Background(), doomedTopic, 1)
	if err == nil && p.Queues > 1 {
		err = s.DeleteTopic(context.Background(), doomedTopic)
	}
	if err != nil {
		tell("E delete: %v", err)
	}
}

// Of the records of a store, so many are left by truncateStep.
const (
	beforeCut = 40
	behindCut = 10
)

// truncateStep makes the store a slave, ends its log over three segments earlier, makes it a
// master again and appends a message.
func truncateStep(t *testing.T, p *plan, s *warmlog.Store, tell func(string, ...any)) {
	ctx := context.Background()
	must(t, s.SetRole(ctx, getmessage.Slave))
	n := 0
	for v, err := range s.Records(ctx, 0) {
		must(t, err)
		if n++; n > behindCut {
			if err := s.Truncate(ctx, v.PhysicalOffset()); err != nil {
				tell("E truncate: %v", err)
			}
			break
		}
	}
	must(t, s.SetRole(ctx, getmessage.Master))
	id := int32(behindCut % 3)
	r, err := s.Append(ctx, stepMessage(p, id, behindCut/3))
	if err != nil {
		tell("E append: %v", err)
		return
	}
	tell("A %d %d %d 1", id, r.QueueOffset, r.PhysicalOffset)
}

// beforeTruncate makes the store of truncateStep: what will be left is all that is promised.
func beforeTruncate(t *testing.T, p *plan) []acknowledged {
	return prepared(beforeCut)(t, p)[:behindCut]
}

// truncated sees that the log has everything, or what is left by truncateStep.
func truncated(t *testing.T, p *plan, s *warmlog.Store) {
	n := 0
	for _, err := range s.Records(context.Background(), 0) {
		must(t, err)
		n++
	}
	if n != beforeCut && n != behindCut && n != behindCut+1 {
		t.Errorf("%d records are left", n)
	}
	keysThere(t, p, s)
}

const (
	doomedQueues   = 3
	doomedMessages = 30
)

// killedStep is a change of several files.
type killedStep struct {
	plan    plan
	prepare func(t *testing.T, p *plan) []acknowledged // makes the store
	check   func(t *testing.T, p *plan, s *warmlog.Store)
	calls   int // about as many as the child makes
}

var killedSteps = map[string]killedStep{
	"creation":   {plan: plan{Job: "step append", Messages: 4}, calls: 70},
	"roll":       {plan: plan{Job: "step append", Messages: 12, SegmentSize: 4 << 10}, prepare: prepared(20), calls: 90},
	"checkpoint": {plan: plan{Job: "step append", Messages: 30}, prepare: prepared(20), calls: 130},
	"index file": {plan: plan{Job: "step append", Messages: 20, Keys: true}, prepare: prepared(20), check: keysThere, calls: 130},
	"expiry":     {plan: plan{Job: "step expire", Keep: 12 << 10, SegmentSize: 4 << 10, Keys: true}, prepare: prepared(80), check: expired, calls: 70},
	"topic":      {plan: plan{Job: "step delete", Queues: doomedQueues}, prepare: doomed, check: deleted, calls: 60},
	"queue":      {plan: plan{Job: "step delete", Queues: 1}, prepare: doomed, check: deleted, calls: 45},
	"truncate":   {plan: plan{Job: "step truncate", SegmentSize: 4 << 10, Keys: true}, prepare: beforeTruncate, check: truncated, calls: 90},
	"cut":        {plan: plan{Job: "open", SegmentSize: 4 << 10, Keys: true}, prepare: torn, calls: 90},
}

// fillStep opens a store, appends n messages and leaves it open.
func fillStep(t *testing.T, p *plan, n int) (*warmlog.Store, []acknowledged) {
	o := p.options()
	o.Retention = warmlog.Retention{}
	s, err := warmlog.Open(p.Dir, o)
	must(t, err)
	var acks []acknowledged
	for i := range n {
		id, off := int32(i%3), int64(i/3)
		r, err := s.Append(context.Background(), stepMessage(p, id, off))
		must(t, err)
		acks = append(acks, acknowledged{id, r.QueueOffset, r.PhysicalOffset, true})
	}
	must(t, s.Dispatched(context.Background()))
	return s, acks
}

// prepared makes a store of n messages that was closed.
func prepared(n int) func(*testing.T, *plan) []acknowledged {
	return func(t *testing.T, p *plan) []acknowledged {
		s, acks := fillStep(t, p, n)
		must(t, s.Close())
		return acks
	}
}

// keysThere sees that all messages are found by their key.
func keysThere(t *testing.T, p *plan, s *warmlog.Store) {
	for v, err := range s.Records(context.Background(), 0) {
		must(t, err)
		found, err := s.FindByKey(context.Background(), warmlog.KeyQuery{Topic: crashTopic, Key: fmt.Sprintf("%d/%d", v.QueueID(), v.QueueOffset())})
		if err != nil || len(found.Offsets) != 1 || found.Offsets[0] != v.PhysicalOffset() {
			t.Errorf("key of the record at %d: %+v, %v", v.PhysicalOffset(), found, err)
		}
	}
}

// expired sees that whole segments are gone, and no more than the limit allows.
func expired(t *testing.T, p *plan, s *warmlog.Store) {
	low, high := s.Bounds()
	if low%p.SegmentSize != 0 || low > 0 && high-low < p.Keep {
		t.Errorf("the log is [%d, %d), the limit %d", low, high, p.Keep)
	}
	keysThere(t, p, s)
}

// doomed makes a store with a topic that will be deleted, of more than one queue file.
func doomed(t *testing.T, p *plan) []acknowledged {
	s, acks := fillStep(t, p, 30)
	for off := range int64(doomedMessages) {
		for id := range int32(doomedQueues) {
			_, err := s.Append(context.Background(), doomedMessage(id, off))
			must(t, err)
		}
	}
	must(t, s.Close())
	return acks
}

func doomedMessage(id int32, off int64) *message.Message {
	m := crashMessage(id, off)
	m.Topic = doomedTopic
	return m
}

// deleted sees that each queue has all of its messages or never had one: of a topic, all or
// none but the one that was deleted first. Who appends gets the next offset, or 0.
func deleted(t *testing.T, p *plan, s *warmlog.Store) {
	ctx := context.Background()
	var left [doomedQueues]int64
	for id := range left {
		n := int64(0)
		for v, err := range s.Messages(ctx, doomedTopic, int32(id), 0) {
			if err != nil {
				break // not known
			}
			if v.QueueOffset() != n {
				t.Errorf("queue %d: offset %d follows %d others", id, v.QueueOffset(), n)
			}
			n++
		}
		if left[id] = n; n != 0 && n != doomedMessages {
			t.Errorf("queue %d has %d of %d messages", id, n, doomedMessages)
		}
		r, err := s.Append(ctx, doomedMessage(int32(id), n))
		if must(t, err); r.QueueOffset != n {
			t.Errorf("queue %d: appended at %d behind %d messages", id, r.QueueOffset, n)
		}
	}
	if left[0] != left[2] || left[1] > left[0] || p.Queues == 1 && left[0] == 0 {
		t.Errorf("messages left in the queues: %v", left)
	}
}

// torn makes a store that was killed and whose end is damaged, with records of three segments
// behind the damage.
func torn(t *testing.T, p *plan) []acknowledged {
	dir := p.Dir
	p.Dir = filepath.Join(dir, "running")
	s, acks := fillStep(t, p, 10)
	must(t, s.Checkpoint(context.Background()))
	must(t, s.Close())
	s, err := warmlog.Open(p.Dir, p.options())
	must(t, err)
	var places []int64
	for i := range 30 {
		id := int32(i % 3)
		_, off, err := s.QueueBounds(context.Background(), crashTopic, id)
		must(t, err)
		r, err := s.Append(context.Background(), stepMessage(p, id, off))
		must(t, err)
		must(t, s.Dispatched(context.Background()))
		places = append(places, r.PhysicalOffset)
		if i < 5 {
			acks = append(acks, acknowledged{id, r.QueueOffset, r.PhysicalOffset, true})
		}
	}
	killed := filepath.Join(dir, "killed")
	must(t, os.CopyFS(killed, os.DirFS(p.Dir)))
	must(t, s.Close())
	p.Dir = killed
	segment := layout.FileName(places[5] - places[5]%p.SegmentSize)
	put(t, filepath.Join(layout.Store(killed).CommitLog(), segment), places[5]%p.SegmentSize+90, []byte("damage"))
	return acks
}

// A process is killed after a system call of a change of several files: the first creation, a
// roll, a checkpoint, another index file, expiry, the deletion of a topic and of a queue, a
// truncation and role change, the cut of a damaged end over three segments. The next start needs no help; it finds the state
// before the step or after it, all that was acknowledged, and nothing to complain of. So does
// the one behind a start that was killed, too: after a few calls, each in a copy of what the
// first kill left. Which calls these are is left to chance; WARMLOG_CRASH_ROUNDS=1000 takes each
// call for the first kill, and one for the second.
func TestCase32KilledAfterEachCall(t *testing.T) {
	each(t, killedSteps, func(t *testing.T, step killedStep) {
		t.Parallel() // it mostly waits for the disk, and for children
		rng := chance(t)
		all := rounds(1) >= step.calls
		mode := rng.IntN(2) == 0
		for _, flushed := range []bool{false, true} {
			var calls []int
			switch {
			case all:
				for n := range 1000 { // it ends where the child does
					calls = append(calls, n+1)
				}
			case flushed == mode:
				for range rounds(1) {
					calls = append(calls, 1+rng.IntN(step.calls))
				}
			}
			for _, n := range calls {
				p := step.plan
				p.Dir, p.Flushed = filepath.Join(t.TempDir(), "store"), flushed
				must(t, os.Mkdir(p.Dir, 0o755))
				var j journal
				if step.prepare != nil {
					j.acks = step.prepare(t, &p)
				}
				made := j.killAfter(t, p, n)
				for _, err := range j.errors {
					t.Errorf("the child: %s", err)
				}
				acks := j.told(false)
				ends := map[string]plan{"": p}
				for second := range secondKills(t, rng, p, map[bool]int{false: 4, true: 1}[all]) {
					twice := p.elsewhere(t)
					again := j.killAfter(t, twice, second)
					ends[fmt.Sprintf(", then after %d of %d", again, second)] = twice
				}
				for how, one := range ends {
					one.Keep = 0 // else more expires while it is looked at
					reopen(t, one, acks, func(s *warmlog.Store) {
						if step.check != nil {
							step.check(t, &p, s)
						}
					})
					if t.Failed() {
						t.Fatalf("flushed %v, killed after call %d%s", flushed, n, how)
					}
				}
				if made < n {
					t.Logf("flushed %v: %d calls in all", flushed, made)
					if all {
						break
					}
				}
			}
		}
	})
}

// elsewhere is a plan to open a copy of the plan's store, and nothing more.
func (p plan) elsewhere(t *testing.T) plan {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	must(t, os.CopyFS(dir, os.DirFS(p.Dir)))
	p.Dir, p.Job = dir, "open"
	return p
}

// secondKills yields so many calls of the start that follows a kill: a part each of all that it
// makes, which are counted in a copy, has one. Of fewer calls it yields each.
func secondKills(t *testing.T, rng *rand.Rand, p plan, parts int) iter.Seq[int] {
	t.Helper()
	var j journal
	calls := j.killAfter(t, p.elsewhere(t), math.MaxInt)
	if calls == 0 || len(j.errors) > 0 || !j.finished {
		t.Fatalf("the start behind a kill: %d calls, %v", calls, j.errors)
	}
	parts = min(parts, calls)
	return func(yield func(int) bool) {
		for i := range parts {
			low, high := calls*i/parts, calls*(i+1)/parts
			if !yield(low + 1 + rng.IntN(high-low)) {
				return
			}
		}
	}
}
