package getmessage

import "github.com/warmlog/warmlog/message"

// Batch is the answer to a pull. The zero Batch is ready for use; use one again and again:
// it keeps its capacity. Release it when its records are no longer needed.
type Batch struct {
	Status     Status
	Hint       Hint
	NextOffset int64 // queue offset to ask for next
	MinOffset  int64 // of the queue's first message that is left
	MaxOffset  int64 // behind the queue's last message
	Bytes      int64 // of all records
	// Lost is how many messages from the offset asked for on were deleted before this pull:
	// those up to MinOffset, where the status is OffsetTooSmall.
	Lost     int64
	Decision Decision
	// Damaged lists the messages that were passed over because their record is damaged.
	Damaged []*message.DamageError

	records []message.View
	refs    []Ref // one of each segment that records lie in
	pin     Ref   // of the queue entries that Get is reading
	owned   owned // in a debug build, what it hands out
	sending sending
	ended   bool // released since the last Get
}

// Records returns the messages: views of the log's own memory, valid until Release or the
// next Get with this batch.
func (b *Batch) Records() []message.View {
	b.owned.take(b)
	return b.records
}

// Release gives the records' memory back. Calling it again does nothing. Using a record
// afterwards may read other bytes or end the process; built with the tag warmlogdebug it
// panics (see the package's Lifetime).
func (b *Batch) Release() {
	b.owned.release(b)
	b.unpin()
	for i, ref := range b.refs {
		ref.Release()
		b.refs[i] = nil
	}
	b.refs = b.refs[:0]
	b.records = b.records[:0]
	b.ended = true
}

func (b *Batch) unpin() {
	if b.pin != nil {
		b.pin.Release()
		b.pin = nil
	}
}

// reset makes the batch ready for another pull. Get sets the other fields.
func (b *Batch) reset() {
	b.Release()
	b.ended = false
	b.MinOffset, b.MaxOffset, b.Bytes, b.Lost = 0, 0, 0, 0
	b.Damaged = b.Damaged[:0]
}
