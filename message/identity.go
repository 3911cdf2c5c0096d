package message

import "encoding/binary"

// Head is the first 40 bytes of a record: what a queue entry can be compared with.
type Head [atSysFlag + 4]byte

// Names reports whether a queue entry names the record: the entry begins, as all entries do,
// with the record's physical offset and size, and is the one of message off of a queue.
func (h *Head) Names(entry *[12]byte, queueID int32, off int64) bool {
	// Both sides are big endian, so that equal bytes are equal numbers.
	le := binary.LittleEndian
	wrong := le.Uint64(h[atPhysical:]) ^ le.Uint64(entry[:])
	wrong |= uint64(le.Uint32(h[:]) ^ le.Uint32(entry[8:]))
	wrong |= be.Uint64(h[atQueueOffset:]) ^ uint64(off)
	wrong |= uint64(be.Uint32(h[atQueueID:]) ^ uint32(queueID))
	wrong |= uint64(h[atSysFlag+3] & byte(SysFlagPrepared)) // those have no entry
	magic := be.Uint32(h[atMagic:])
	return wrong == 0 && (magic == MagicV1 || magic == MagicV2)
}

// ViewOf makes a view of a record that was decoded before, of which the caller has compared
// the head: nothing is checked here. rec has MinSize bytes at the least.
func ViewOf(rec []byte) View { return View{rec} }

// Whole reports whether the lengths inside the record add up to its size and its properties,
// if it has any, do not end with a zero byte, as they never do: it sees that the rest of the
// file was cut off, which reads as zeros up to the end of a page.
func (v *View) Whole() bool {
	if v.live()[len(v.raw)-1] != 0 {
		return true // and so nothing before it was cut off
	}
	from, ok := v.properties()
	return ok && from == len(v.raw)
}

// Is reports whether the record is message off of a queue: its own, or one of those to
// which it was dispatched besides (light message queues, see [PropMultiDispatch]).
func (v *View) Is(topic string, queueID int32, off int64) bool {
	if v.QueueID() == queueID && string(v.Topic()) == topic {
		return v.QueueOffset() == off && v.Queued()
	}
	return v.dispatchedTo(topic, queueID, off)
}
