package getmessage

// Status is the outcome of a pull, RocketMQ's GetMessageStatus.
type Status uint8

const (
	// Found: the batch has messages.
	Found Status = iota
	// NoMatchedMessage: the filter accepted nothing of what was looked at; ask again from
	// the next offset.
	NoMatchedMessage
	// MessageWasRemoving: what was looked at is no longer in the log, or is damaged; ask
	// again from the next offset.
	MessageWasRemoving
	// OffsetFoundNull: the queue's entries cannot be had for now.
	OffsetFoundNull
	// OffsetOverflowBadly: the offset is above the end of the queue.
	OffsetOverflowBadly
	// OffsetOverflowOne: the offset is the end of the queue: nothing there yet.
	OffsetOverflowOne
	// OffsetTooSmall: the offset is below the first message that is left.
	OffsetTooSmall
	// NoMatchedLogicQueue: there can be no such queue.
	NoMatchedLogicQueue
	// NoMessageInQueue: the queue has never had a message, or is not known.
	NoMessageInQueue
)

var statusNames = [...]string{"FOUND", "NO_MATCHED_MESSAGE", "MESSAGE_WAS_REMOVING", "OFFSET_FOUND_NULL",
	"OFFSET_OVERFLOW_BADLY", "OFFSET_OVERFLOW_ONE", "OFFSET_TOO_SMALL", "NO_MATCHED_LOGIC_QUEUE", "NO_MESSAGE_IN_QUEUE"}

// String returns RocketMQ's name.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "UNKNOWN"
}

// Role is the part that this store plays in its replication group.
type Role int32

const (
	Master Role = iota
	Slave
)

// Hint says why a slave did not correct an offset that it has no message for.
type Hint uint8

const (
	// NoHint: the answer is final.
	NoHint Hint = iota
	// NotYet: the slave does not hold the offset yet. Hold the pull, or ask the master.
	NotYet
	// AskMaster: the offset lies below what this slave holds, or the slave does not know
	// the queue. Only the master can say whether the message exists.
	AskMaster
)

// String returns a word for the hint, empty for none.
func (h Hint) String() string { return [...]string{"", "not-yet", "ask-master"}[h] }
