package getmessage

// boundary answers a pull whose offset has no message: rows 1 to 4 of the state table.
// done is false for an offset within [min, max), which row 5, the scan, answers.
//
//	row  condition        status                 next on a master   next on a slave, hint
//	1    max = 0          NO_MESSAGE_IN_QUEUE    0                  offset, ask-master
//	2    offset < min     OFFSET_TOO_SMALL       min                offset, ask-master
//	3    offset = max     OFFSET_OVERFLOW_ONE    offset             offset, not-yet
//	4    offset > max     OFFSET_OVERFLOW_BADLY  max                offset, not-yet
//
// A slave leaves the consumer's offset alone: it may be behind its master, begin later, or
// not know the queue yet, and a correction would make the consumer skip or repeat.
// Source: DefaultMessageStore.getMessage and nextOffsetCorrection.
func boundary(role Role, offset, min, max int64) (status Status, next int64, hint Hint, done bool) {
	switch {
	case max == 0:
		status, next, hint = NoMessageInQueue, 0, AskMaster
	case offset < min:
		status, next, hint = OffsetTooSmall, min, AskMaster
	case offset == max:
		status, next, hint = OffsetOverflowOne, offset, NotYet
	case offset > max:
		status, next, hint = OffsetOverflowBadly, max, NotYet
	default:
		return NoMatchedMessage, offset, NoHint, false
	}
	if role == Slave {
		return status, offset, hint, true
	}
	return status, next, NoHint, true
}
