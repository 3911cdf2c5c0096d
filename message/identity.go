package message

// Identity is what a queue entry says of a record: which message it is, where it lies.
type Identity struct {
	Topic          string
	QueueID        int32
	QueueOffset    int64
	PhysicalOffset int64
}

// ViewOf makes a view of rec if its head is that of the record that id names: total size
// (the length of rec), magic, queue, both offsets, and that it has an entry in a queue. It
// reads the first 40 bytes and nothing else: not the topic, and not whether the lengths
// inside add up. That is enough for a record that was decoded before; for any other,
// [Decode] and [View.Is].
func ViewOf(rec []byte, id *Identity) (View, bool) {
	if len(rec) < MinSize {
		return View{}, false
	}
	head := (*[MinSize]byte)(rec)
	sizeAndMagic := be.Uint64(head[:]) - uint64(len(rec))<<32
	if sizeAndMagic != uint64(MagicV1) && sizeAndMagic != uint64(MagicV2) ||
		be.Uint32(head[atQueueID:]) != uint32(id.QueueID) ||
		be.Uint64(head[atQueueOffset:]) != uint64(id.QueueOffset) ||
		be.Uint64(head[atPhysical:]) != uint64(id.PhysicalOffset) ||
		be.Uint32(head[atSysFlag:])&uint32(SysFlagPrepared) != 0 {
		return View{}, false
	}
	return View{rec}, true
}

// Is reports whether the record is message off of a queue: its own, or one of those to
// which it was dispatched besides (light message queues, see [PropMultiDispatch]).
func (v *View) Is(topic string, queueID int32, off int64) bool {
	if v.QueueOffset() == off && v.QueueID() == queueID && string(v.Topic()) == topic {
		return v.Queued()
	}
	return v.dispatchedTo(topic, queueID, off)
}
