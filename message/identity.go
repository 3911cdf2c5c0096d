package message

// Head is the first 40 bytes of a record: what a queue entry can be compared with.
type Head [atSysFlag + 4]byte

// SizeAndMagic returns total size and magic, the size in the upper half.
func (h *Head) SizeAndMagic() uint64 { return be.Uint64(h[:]) }

// QueueID returns the number of the queue within the topic.
func (h *Head) QueueID() int32 { return int32(be.Uint32(h[atQueueID:])) }

// QueueOffset returns the index of the message in its queue.
func (h *Head) QueueOffset() int64 { return int64(be.Uint64(h[atQueueOffset:])) }

// PhysicalOffset returns the byte position in the commit log that the record claims.
func (h *Head) PhysicalOffset() int64 { return int64(be.Uint64(h[atPhysical:])) }

// Queued reports whether the record has an entry in its consume queue.
func (h *Head) Queued() bool { return h[atSysFlag+3]&byte(SysFlagPrepared) == 0 }

// ViewOf makes a view of a record that was decoded before, of which the caller has compared
// the head: nothing is checked here. rec has MinSize bytes at the least.
func ViewOf(rec []byte) View { return View{rec} }

// Whole reports whether the lengths inside the record add up to its size and its properties,
// if it has any, do not end with a zero byte, as they never do. It reads both ends of the
// record, and so sees that the rest of its file was cut off, which reads as zeros.
func (v *View) Whole() bool {
	from, ok := v.properties()
	return ok && (from == len(v.raw) || v.raw[len(v.raw)-1] != 0)
}

// Is reports whether the record is message off of a queue: its own, or one of those to
// which it was dispatched besides (light message queues, see [PropMultiDispatch]).
func (v *View) Is(topic string, queueID int32, off int64) bool {
	if v.QueueID() == queueID && string(v.Topic()) == topic {
		return v.QueueOffset() == off && v.Queued()
	}
	return v.dispatchedTo(topic, queueID, off)
}
