package keyindex

// slots compares the slot table of the file, and how many slots the header says are used,
// with what the entries have made of it. Entries that a live writer put since the check
// began are followed back to the ones that were checked.
func (t *tally) slots() error {
	used, count := t.Header.SlotsUsed, max(t.Header.Count, 1)
	// The slot of an entry that is being put is counted before the entry is.
	if used != t.used && (used != t.used+1 || count == t.Layout.Entries) {
		t.damage(32, ErrHeader, "%d slots used, the entries use %d", used, t.used)
	}
	if t.Header.Count < 0 {
		t.damage(36, ErrHeader, "count %d", t.Header.Count)
	}
	buf := make([]byte, min(maxBlock, SlotSize*int64(t.Layout.Slots)))
	for i := int32(0); i < t.Layout.Slots; {
		b := buf[:min(int64(len(buf)), SlotSize*int64(t.Layout.Slots-i))]
		if err := t.file.read(b, t.Layout.SlotAt(i)); err != nil {
			return err
		}
		now, err := t.file.header()
		if err != nil {
			return err
		}
		for ; len(b) > 0; b, i = b[SlotSize:], i+1 {
			v := int32(be.Uint32(b))
			if v == t.heads[i] {
				continue
			}
			// The count may be behind, as in chain.start, but not before there is one.
			if v > t.keys && v < t.Layout.Entries && (v <= 1 || now.Count > 1) {
				if v, err = t.back(v, i); err != nil {
					return err
				}
			}
			if v != t.heads[i] {
				t.damage(t.Layout.SlotAt(i), ErrSlot, "slot %d holds %d, its newest entry is %d", i, int32(be.Uint32(b)), t.heads[i])
			}
		}
	}
	return nil
}

// back follows a chain from an entry that was not checked to one that was; -1 if it leads
// astray.
func (t *tally) back(n, slot int32) (int32, error) {
	for n > t.keys {
		e, err := t.file.entry(n)
		if err != nil {
			return 0, err
		}
		if e.Hash < 0 || e.Hash%t.Layout.Slots != slot || e.Prev < 0 || e.Prev >= n || e.Offset < t.Header.EndOffset {
			return -1, nil
		}
		n = e.Prev
	}
	return n, nil
}
