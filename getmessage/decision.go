package getmessage

import "fmt"

// Policy is how it is decided that a consumer should pull from the slave.
type Policy uint8

// Distance is RocketMQ's rule: data that lies further behind the end of the log than a
// share of the memory is taken for data on disk.
const Distance Policy = 0

// String returns the policy's name.
func (p Policy) String() string { return "distance" }

// ParsePolicy returns the policy of a name.
func ParsePolicy(name string) (Policy, error) {
	if name == Distance.String() {
		return Distance, nil
	}
	return 0, fmt.Errorf("unknown policy %q", name)
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
)

// String returns the reason in a word.
func (r Reason) String() string {
	return [...]string{"not-read", "within-threshold", "beyond-threshold", "no-entry-reached"}[r]
}

// Decision says whether the consumer should pull from the slave, and why.
type Decision struct {
	SuggestSlave bool
	Policy       Policy
	Reason       Reason
	// Diff is the distance in bytes from the last entry that the pull reached to the end
	// of the log; 0 where nothing was read.
	Diff int64
	// Threshold is the distance in bytes above which data is taken for data on disk.
	Threshold int64
}

// decide makes the decision of a pull that was within the bounds of its queue. pulled is
// the physical offset of the last entry reached, 0 if none was.
//
//	diff      = max physical offset − physical offset reached
//	threshold = memory × ratio / 100
//	suggest   = diff > threshold
//
// Source: the end of DefaultMessageStore.getMessage.
func decide(logMax, pulled, threshold int64, reached bool) Decision {
	d := Decision{Policy: Distance, Diff: logMax - pulled, Threshold: threshold}
	d.SuggestSlave = d.Diff > threshold
	switch {
	case !reached:
		d.Reason = NoEntryReached
	case d.SuggestSlave:
		d.Reason = BeyondThreshold
	default:
		d.Reason = WithinThreshold
	}
	return d
}
