package keyindex

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// files returns the files of the directory in order, but for those without a byte, which
// RocketMQ leaves when it is killed at the wrong moment.
func (w *Writer) files() ([]File, error) {
	names, _, err := w.index.list()
	if err != nil {
		return nil, err
	}
	var files []File
	for _, name := range names {
		f := w.index.examine(name)
		if f.Err != nil && w.opt.Layout.Slots > 0 { // of other settings?
			if g := w.other.examine(name); g.Err == nil {
				f = g
			}
		}
		if f.Size > 0 || f.Err != nil && !errors.Is(f.Err, fs.ErrNotExist) {
			files = append(files, f)
		}
	}
	w.index.forget(names)
	w.other.forget(names)
	return files, nil
}

// load finds out where to go on, and opens the last file if that is the place.
func (w *Writer) load(end int64) error {
	files, err := w.files()
	if err != nil {
		return err
	}
	w.cur, w.torn, w.dirty, w.head = nil, false, false, Header{}
	var last *File // nil if it is damaged, or there is none
	if n := len(files); n > 0 {
		if last = &files[n-1]; last.Err != nil {
			if !w.opt.PastDamage {
				return last.Err
			}
			last = nil
		}
	}
	keyed := slices.DeleteFunc(slices.Clone(files), func(f File) bool { return !f.usable() })
	if err := w.settleLayout(files); err != nil {
		return err
	}
	if err := w.syncFull(keyed); err != nil {
		return err
	}
	if err := w.findEnd(keyed, end); err != nil {
		return err
	}
	if n := len(keyed); n > 0 {
		w.head = keyed[n-1].Header
		w.head.EndOffset = w.at // a killed RocketMQ leaves the one before
	}
	if last == nil || last.Layout != w.layout && (last.Header.Keys() > 0 || last.Size != w.layout.Size()) || last.Header.Count >= w.layout.Entries {
		return nil
	}
	if w.cur, err = os.OpenFile(last.Path, os.O_RDWR, 0); err != nil {
		return fmt.Errorf("keyindex: %w", err)
	}
	w.path = last.Path
	before := w.head
	if last.Header.Keys() == 0 {
		w.head = follow(w.head)
	}
	first := max(w.head.Count, 1)
	top, err := w.leftovers(first)
	if err == nil && top > first {
		err = w.settle(w.head)
	}
	if err != nil && w.opt.PastDamage {
		if e := w.abandon(err); w.cur == nil {
			w.head, err = before, nil
		} else {
			err = e
		}
	}
	return err
}

// settleLayout decides once what new files look like.
func (w *Writer) settleLayout(files []File) error {
	for i := len(files) - 1; i >= 0 && w.layout.Slots == 0; i-- {
		if files[i].Err == nil {
			w.layout = files[i].Layout
		}
	}
	if w.layout.Slots == 0 {
		w.layout = Layout{DefaultSlots, DefaultEntries}
	}
	if w.layout.Entries < 2 {
		return fmt.Errorf("keyindex: files of %+v hold no key", w.layout)
	}
	return nil
}

// syncFull makes sure of the files that are full, whoever wrote them, and takes over the
// time up to which the index is safe. It costs next to nothing where that was done before.
func (w *Writer) syncFull(keyed []File) error {
	w.filledTime.Store(0)
	for _, f := range keyed {
		if f.Header.Count < f.Layout.Entries {
			continue
		}
		fd, _, err := openFile(f.Path)
		if err != nil {
			return fmt.Errorf("keyindex: %w", err)
		}
		err = w.fsync(fd)
		fd.Close()
		if err != nil {
			return err
		}
		w.filledTime.Store(f.Header.EndTimestamp)
	}
	return nil
}

// findEnd reads the last record that the files have and which of its keys, over as many
// files as these fill. A record that will be given again may not be whole.
func (w *Writer) findEnd(keyed []File, end int64) error {
	w.at, w.half = -1, nil
	before := int64(-1)
	for i := len(keyed) - 1; i >= 0 && before < 0; i-- {
		fd, _, err := openFile(keyed[i].Path)
		if err != nil {
			return fmt.Errorf("keyindex: %w", err)
		}
		f, b := &file{path: keyed[i].Path, at: fd, layout: keyed[i].Layout}, &block{size: minBlock}
		for n := keyed[i].Header.Keys(); n > 0 && before < 0; n-- {
			e, err := b.entry(f, n)
			if err != nil {
				fd.Close()
				return err
			}
			switch {
			case w.at < 0:
				w.at = e.Offset
			case e.Offset != w.at:
				before = e.Offset
				continue
			}
			w.half = append(w.half, e.Hash)
		}
		fd.Close()
	}
	slices.Reverse(w.half)
	w.last = w.at - 1
	if w.at < 0 {
		w.last = -1
	}
	done := w.at
	if w.at >= end {
		done = before
	}
	w.end.Store(done)
	return nil
}

// leftovers returns the number above the last entry that is stored from first on, which is
// the one after those that are counted. The entry of a key whose hash is 0 in a record at offset 0 can be all zero; there
// is but one such in a file, so that two of zeros are the end.
func (w *Writer) leftovers(first int32) (int32, error) {
	f, top := w.file(), first
	const most = maxBlock / EntrySize
	zeros := 0
	for n, step := top, int32(2); n < w.layout.Entries && zeros < 2; step = most {
		b := w.block[:EntrySize*min(step, w.layout.Entries-n)]
		if err := f.read(b, w.layout.EntryAt(n)); err != nil {
			return 0, err
		}
		for ; len(b) > 0 && zeros < 2; b, n = b[EntrySize:], n+1 {
			if zeros++; [EntrySize]byte(b) != [EntrySize]byte{} {
				zeros, top = 0, n+1
			}
		}
	}
	return top, nil
}

// settle undoes what is stored in the current file beyond the keys that head counts, which
// becomes its header. Then the slots get what they held when there were no more, and the
// entries become zero, in this order: while entries are left it can be done again, and a
// reader takes what it finds for a batch that is being written. It is for the rare times
// after a kill, a failure or a cut, and holds the slot table meanwhile.
func (w *Writer) settle(head Header) error {
	first := max(head.Count, 1)
	top, err := w.leftovers(first)
	if err != nil {
		return err
	}
	f, b := w.file(), &block{size: minBlock}
	table := make([]byte, SlotSize*int(w.layout.Slots))
	if err := f.read(table, HeaderSize); err != nil {
		return err
	}
	changed := make([]bool, len(table)/minBlock+1)
	for n := min(top, w.layout.Entries-1); n >= first; n-- {
		e, err := b.entry(f, n)
		if err != nil {
			return err
		}
		// What never got into its slot may be torn, and is not looked at.
		if at := SlotSize * int(max(e.Hash, 0)%w.layout.Slots); int32(be.Uint32(table[at:])) == n {
			be.PutUint32(table[at:], uint32(e.Prev))
			changed[at/minBlock] = true
		}
	}
	head.SlotsUsed = 0
	for i := range w.layout.Slots {
		v := int32(be.Uint32(table[SlotSize*i:]))
		if v < 0 || v >= first {
			return f.damage(w.layout.SlotAt(i), ErrSlot, "it holds %d of %d entries", v, first-1)
		}
		if v > 0 {
			head.SlotsUsed++
		}
	}
	w.dirty = true
	if err := w.putHeader(head); err != nil {
		return err
	}
	if err := w.fsync(w.cur); err != nil { // entries that are counted keep their slots
		return err
	}
	for i, c := range changed {
		if !c {
			continue
		}
		at := i * minBlock
		if err := w.put(table[at:min(at+minBlock, len(table))], HeaderSize+int64(at)); err != nil {
			return err
		}
	}
	if err := w.fsync(w.cur); err != nil { // slots never lead to an entry that is gone
		return err
	}
	return w.zero(first, top)
}

// zero makes the entries from first up to top, exclusive, what they were before.
func (w *Writer) zero(first, top int32) error {
	clear(w.block)
	for at, to := w.layout.EntryAt(first), w.layout.EntryAt(top); at < to; {
		b := w.block[:min(int64(len(w.block)), to-at)]
		if err := w.put(b, at); err != nil {
			return err
		}
		at += int64(len(b))
	}
	return nil
}
