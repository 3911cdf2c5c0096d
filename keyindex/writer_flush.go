package keyindex

import "slices"

// Flush writes what is buffered, without fsync: file by file the entries, then the slots,
// then the header. A reader that looks in between, or after a kill in between, finds slots
// that are ahead of the header's count, and no damage.
//
// After an error, which names file and byte, the next Flush tries again. If the error is an
// [ErrSlot] the current file was found damaged: it is left as it is, and the next Flush goes
// on in a new one.
func (w *Writer) Flush() error {
	if w.err != nil {
		return w.err
	}
	for len(w.buf) > 0 {
		if err := w.ready(); err != nil {
			return err
		}
		n := min(int(w.layout.Entries-max(w.head.Count, 1)), len(w.buf))
		if w.head.Keys() == 0 {
			// Alone, so that slots are never ahead of a header without a count: that is how a
			// header that was lost shows.
			n = 1
		}
		if err := w.batch(n); err != nil {
			return err
		}
		w.buf = w.buf[:copy(w.buf, w.buf[n:])]
		if w.head.Count >= w.layout.Entries {
			w.full = append(w.full, fullFile{w.cur, w.path, w.head.EndTimestamp})
			w.cur, w.dirty = nil, false
		}
	}
	w.end.Store(max(w.end.Load(), w.given))
	return nil
}

// ready provides a file with room, in order.
func (w *Writer) ready() error {
	if w.cur == nil {
		return w.next()
	}
	if !w.torn {
		return nil
	}
	if err := w.settle(w.head); err != nil {
		return w.abandon(err)
	}
	w.torn = false
	return nil
}

// batch writes the first n keys of the buffer, for which the current file has room.
func (w *Writer) batch(n int) error {
	keys, base, slots := w.buf[:n], max(w.head.Count, 1), w.layout.Slots
	w.order = w.order[:0]
	for i := range keys {
		w.order = append(w.order, uint64(keys[i].hash%slots)<<32|uint64(i))
	}
	slices.Sort(w.order)

	head := w.head
	if base == 1 {
		head.BeginOffset, head.BeginTimestamp = keys[0].offset, keys[0].store
	}
	head.EndOffset, head.EndTimestamp = keys[n-1].offset, keys[n-1].store
	head.Count = base + int32(n)

	if err := w.link(&head); err != nil {
		return w.abandon(err)
	}
	if base == 1 { // the one that was computed before the begin timestamp was set
		be.PutUint32(w.image[12:], uint32(Seconds(w.head.BeginTimestamp, keys[0].store)))
	}
	w.dirty = true
	if err := w.put(w.image, w.layout.EntryAt(base)); err != nil {
		return err
	}
	w.torn = true
	if err := w.putSlots(base); err != nil {
		return err
	}
	if err := w.putHeader(head); err != nil {
		return err
	}
	w.torn = false
	return nil
}

// link makes the entries of the batch in image, from the newest entries that the slots hold
// until now, and counts in head the slots that were empty.
func (w *Writer) link(head *Header) error {
	n := len(w.order)
	base := head.Count - int32(n)
	w.image = slices.Grow(w.image[:0], n*EntrySize)[:n*EntrySize]
	return w.windows(func(b []byte, first int32, part []uint64) error {
		for i := 0; i < len(part); {
			slot := int32(part[i] >> 32)
			prev := int32(be.Uint32(b[SlotSize*(slot-first):]))
			if prev < 0 || prev >= base {
				return w.file().damage(w.layout.SlotAt(slot), ErrSlot, "it holds %d of %d entries", prev, base-1)
			}
			if prev == 0 {
				head.SlotsUsed++
			}
			for ; i < len(part) && int32(part[i]>>32) == slot; i++ {
				k := int32(uint32(part[i]))
				p := &w.buf[k]
				e := Entry{p.hash, p.offset, Seconds(head.BeginTimestamp, p.store), prev}
				e.Append(w.image[:k*EntrySize])
				prev = base + k
			}
		}
		return nil
	})
}

// putSlots stores the newest entries of the batch, whose first one has number base.
func (w *Writer) putSlots(base int32) error {
	return w.windows(func(b []byte, first int32, part []uint64) error {
		for _, o := range part { // the newest comes last
			be.PutUint32(b[SlotSize*(int32(o>>32)-first):], uint32(base+int32(uint32(o))))
		}
		return w.put(b, w.layout.SlotAt(first))
	})
}

// windows reads the slots that the batch needs, in pieces, and calls do for each: b begins
// at slot first and ends at the last one of part. Slots of one page are read together, as
// are those of neighbouring pages: a batch of the default size needs nearly every page of a
// default table, 20 MB in some 80 reads, and a small one a slot here and there.
func (w *Writer) windows(do func(b []byte, first int32, part []uint64) error) error {
	const near, most = minBlock / SlotSize, maxBlock / SlotSize
	slot := func(i int) int32 { return int32(w.order[i] >> 32) }
	f := w.file()
	for i, j := 0, 0; i < len(w.order); i = j {
		first := slot(i)
		for j = i + 1; j < len(w.order) && slot(j)-slot(j-1) <= near && slot(j)-first < most; {
			j++
		}
		b := w.block[:SlotSize*(slot(j-1)-first+1)]
		if err := f.read(b, w.layout.SlotAt(first)); err != nil {
			return err
		}
		if err := do(b, first, w.order[i:j]); err != nil {
			return err
		}
	}
	return nil
}
