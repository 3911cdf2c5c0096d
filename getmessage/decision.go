package getmessage

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmlog/warmlog/internal/mapfile"
)

// Policy is how it is decided that a consumer should pull from the slave.
type Policy uint8

const (
	// Hybrid goes by where the bytes are that the next pull reads: what was written or seen
	// in memory a short while ago is there, and of the rest the kernel is asked. It is the
	// default.
	Hybrid Policy = iota
	// Residency asks the kernel about these bytes in each pull.
	Residency
	// Distance is RocketMQ's rule: data that lies further behind the end of the log than a
	// share of the memory is taken for data on disk. The others go by it where the kernel does
	// not tell, or cannot be believed.
	Distance
)

var policyNames = [...]string{"hybrid", "residency", "distance"}

// String returns the policy's name.
func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return "unknown"
}

// ParsePolicy returns the policy of a name.
func ParsePolicy(name string) (Policy, error) {
	if i := slices.Index(policyNames[:], name); i >= 0 {
		return Policy(i), nil
	}
	return 0, fmt.Errorf("unknown policy %q: there are %q", name, policyNames)
}

// Reason says what a decision rests on.
type Reason uint8

const (
	// NotRead: the offset has no message, so nothing was read, and nothing is suggested.
	NotRead Reason = iota
	// WithinThreshold: the pull reached data near the end of the log.
	WithinThreshold
	// BeyondThreshold: the pull reached data further behind than the threshold.
	BeyondThreshold
	// NoEntryReached: the pull could not read any queue entry. RocketMQ then takes the
	// whole log for the distance, and [Distance] does too.
	NoEntryReached
	// NextInMemory: what the next pull reads is in memory.
	NextInMemory
	// NextOnDisk: what the next pull reads is not in memory, or not all of it.
	NextOnDisk
	// NothingNext: there is no message for the next pull yet.
	NothingNext
)

// String returns the reason in a word.
func (r Reason) String() string {
	return [...]string{"not-read", "within-threshold", "beyond-threshold", "no-entry-reached", "next-in-memory", "next-on-disk", "nothing-next"}[r]
}

// Source says how it is known where bytes are.
type Source uint8

const (
	// NotKnown: by the distance alone, if it matters at all.
	NotKnown Source = iota
	// Written by this process a short while ago.
	Written
	// Remembered of an earlier look, or of a look in the background.
	Remembered
	// Kernel: it was asked in this pull.
	Kernel
)

// String returns the source in a word.
func (s Source) String() string {
	return [...]string{"not-known", "written", "remembered", "kernel"}[s]
}

// Decision says whether the consumer should pull from the slave, and why: the suggestion, and
// the evidence for it.
type Decision struct {
	SuggestSlave bool
	Policy       Policy
	Reason       Reason
	// Diff is the distance in bytes from the last entry that the pull reached to the end
	// of the log; 0 where nothing was read.
	Diff int64
	// Threshold is the distance in bytes above which data is taken for data on disk.
	Threshold int64

	// From and To are the physical offsets of the record that the next pull reads first, and by
	// which all of its batch is wholly hot or wholly cold; both 0 where it was not looked at.
	From, To int64
	// Source says how it is known where that is, and Age how long ago it was seen at the
	// longest.
	Source Source
	Age    time.Duration
	// Pages of that range, and those of them in memory, as the kernel said in this pull; 0 where it
	// was not asked.
	Pages, Resident int64
	// Calls is how often the kernel was asked in this pull, for its own records too.
	Calls int
	// Cold says that the batch's records were read by system call, and are not slices of the log.
	Cold bool
}

// decide makes the decision of a pull that was within the bounds of its queue.
//
//	diff      = max physical offset − physical offset reached
//	threshold = memory × ratio / 100
//	Distance:             suggest = diff > threshold
//	Hybrid, Residency:    suggest = not all of the next range is in memory
//
// Source of the first: the end of DefaultMessageStore.getMessage.
func (s *scan) decide() {
	d := &s.b.Decision
	*d = Decision{Policy: s.Policy, Diff: s.logMax - s.pulled, Threshold: s.threshold, Calls: s.calls, Cold: s.mode == cold}
	if s.Policy == Distance {
		d.byDistance()
		if !s.reached {
			d.Reason = NoEntryReached
		}
		return
	}
	s.findNext()
	if s.nextTo == 0 {
		d.Reason = NothingNext
		if !s.reached {
			d.Reason = NoEntryReached
		}
		return
	}
	d.From, d.To = s.nextFrom, s.nextTo
	r := s.whereIs(d, s.Policy == Residency)
	d.Calls = s.calls
	switch r {
	case InMemory:
		d.Reason = NextInMemory
	case OnDisk:
		d.SuggestSlave, d.Reason = true, NextOnDisk
	default:
		d.byDistance()
	}
}

// byDistance decides by RocketMQ's rule.
func (d *Decision) byDistance() {
	d.Reason = WithinThreshold
	if d.SuggestSlave = d.Diff > d.Threshold; d.SuggestSlave {
		d.Reason = BeyondThreshold
	}
}

// whereIs finds out where the next range is. ask asks the kernel even where that is known.
func (s *scan) whereIs(d *Decision, ask bool) Presence {
	if d.From >= s.fresh && !ask {
		d.Source = Written
		return InMemory
	}
	mem, base, end := s.mem, s.memBase, s.memEnd
	if mem == nil || d.From < base || d.From >= end {
		var data []byte
		var err error
		if base, data, mem, err = s.Log.Map(d.From); err != nil {
			return Unknown // the next pull meets it
		}
		defer mem.Release()
		end = base + int64(len(data))
	}
	d.To = min(d.To, end) // what lies in another segment is looked at by another pull
	if !ask {
		if r, steps := mem.Known(d.From-base, d.To-d.From); r != Unknown {
			d.Source, d.Age = Remembered, time.Duration(steps)*mapfile.StepInterval
			return r
		}
	}
	a := mem.Ask(d.From-base, d.To-d.From)
	s.calls += a.Calls
	if a.Presence != Unknown {
		d.Source, d.Pages, d.Resident = Kernel, a.Pages, a.Resident
	}
	return a.Presence
}
