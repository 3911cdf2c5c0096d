package keyindex

// Blocks are read downwards, since a chain leads to lower and lower numbers: 4 KiB for an
// entry that lies far from the one before, up to 256 KiB while entries are neighbours. So
// a chain that is scattered costs one page per entry, and one of a million keys that were
// all the same costs a hundred reads.
const (
	minBlock = 4 << 10
	maxBlock = 256 << 10
	pageMask = 4<<10 - 1
)

// block is a piece of a file: bytes [from, to).
type block struct {
	buf      []byte
	from, to int64
	size     int64
}

// entry returns entry n of the file, by way of the block.
func (b *block) entry(f *file, n int32) (Entry, error) {
	at := f.layout.EntryAt(n)
	if at < b.from || at+EntrySize > b.to {
		if at < b.from && at >= b.from-b.size {
			b.size = min(2*b.size, maxBlock)
		} else {
			b.size = minBlock
		}
		to := at + EntrySize
		// Whole pages below the entry, and the one that it begins in.
		from := max(min((to-b.size+pageMask)&^pageMask, at&^pageMask), f.layout.EntryAt(1))
		if int64(cap(b.buf)) < to-from {
			b.buf = make([]byte, b.size+minBlock)
		}
		b.from, b.to = 0, 0
		if err := f.read(b.buf[:to-from], from); err != nil {
			return Entry{}, err
		}
		b.from, b.to = from, to
	}
	return ParseEntry(b.buf[at-b.from:]), nil
}

// chain is a walk from a slot's newest entry to its oldest. Every step proves that it
// stays in the chain: numbers fall, offsets do not rise, hashes belong to the slot. So it
// ends, whatever the file holds.
type chain struct {
	f      *file
	b      *block
	head   Header
	slot   int32
	number int32 // of the next entry; 0 at the end
	last   int64 // offset of the entry before
}

// start begins the walk at the value of a slot that was read before the header. It can be
// ahead of the count: a [Writer] stores the entries of a batch, then their slots, then the
// header. So what lies beyond is whole, and is passed over down to what is counted.
func (c *chain) start(value int32) error {
	n, known := value, c.head.Count
	for n > known {
		if n >= c.f.layout.Entries {
			break
		}
		e, err := c.b.entry(c.f, n)
		if err != nil {
			return err
		}
		if e.Hash < 0 || e.Hash%c.f.layout.Slots != c.slot || e.Prev < 0 || e.Prev >= n || e.Offset < c.head.EndOffset {
			break
		}
		n = e.Prev
	}
	if n < 0 || n > known || n >= c.f.layout.Entries {
		return c.f.damage(c.f.layout.SlotAt(c.slot), ErrSlot, "it holds %d of %d entries", value, c.head.Keys())
	}
	c.number, c.last = n, 1<<63-1
	return nil
}

// next returns the next entry and its number, 0 at the end of the chain.
func (c *chain) next() (n int32, e Entry, err error) {
	if n = c.number; n == 0 {
		return 0, e, nil
	}
	if e, err = c.b.entry(c.f, n); err != nil {
		return 0, e, err
	}
	at := c.f.layout.EntryAt(n)
	switch {
	case e.Hash < 0 || e.Hash%c.f.layout.Slots != c.slot:
		err = c.f.damage(at, ErrChain, "entry %d of another slot's hash %d in the chain of slot %d", n, e.Hash, c.slot)
	case e.Prev < 0 || e.Prev >= n:
		err = c.f.damage(at+16, ErrChain, "entry %d links to %d", n, e.Prev)
	case e.Offset < c.head.BeginOffset || e.Offset > c.last || e.Offset > c.head.EndOffset && n < c.head.Keys():
		err = c.f.damage(at+4, ErrPlace, "entry %d names %d; the file goes from %d to %d", n, e.Offset, c.head.BeginOffset, c.head.EndOffset)
	case e.Seconds < 0:
		err = c.f.damage(at+12, ErrTime, "entry %d says %d s", n, e.Seconds)
	}
	c.number, c.last = e.Prev, e.Offset
	return n, e, err
}
