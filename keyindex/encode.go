package keyindex

// Append appends the stored form of the header.
func (h Header) Append(dst []byte) []byte {
	dst = be.AppendUint64(dst, uint64(h.BeginTimestamp))
	dst = be.AppendUint64(dst, uint64(h.EndTimestamp))
	dst = be.AppendUint64(dst, uint64(h.BeginOffset))
	dst = be.AppendUint64(dst, uint64(h.EndOffset))
	dst = be.AppendUint32(dst, uint32(h.SlotsUsed))
	return be.AppendUint32(dst, uint32(h.Count))
}

// Append appends the stored form of the entry.
func (e Entry) Append(dst []byte) []byte {
	dst = be.AppendUint32(dst, uint32(e.Hash))
	dst = be.AppendUint64(dst, uint64(e.Offset))
	dst = be.AppendUint32(dst, uint32(e.Seconds))
	return be.AppendUint32(dst, uint32(e.Prev))
}

// Builder makes the image of one index file in memory, byte for byte as RocketMQ writes it
// (IndexFile.putKey). The whole file is held: see [Layout.Size].
type Builder struct {
	layout Layout
	head   Header
	image  []byte
}

// NewBuilder starts a file. prev is the header of the full file before it, nil for the
// first: its end values are the new file's begin and end until the first key.
func NewBuilder(l Layout, prev *Header) *Builder {
	b := &Builder{layout: l, image: make([]byte, l.Size())}
	if prev != nil {
		b.head = follow(*prev)
	}
	b.putHeader()
	return b
}

// follow returns the header of a file without keys that comes after prev.
func follow(prev Header) (h Header) {
	if prev.EndOffset > 0 {
		h.BeginOffset, h.EndOffset = prev.EndOffset, prev.EndOffset
	}
	if prev.EndTimestamp > 0 {
		h.BeginTimestamp, h.EndTimestamp = prev.EndTimestamp, prev.EndTimestamp
	}
	return h
}

// Add adds a key: its [Hash], where the record begins in the log and the record's store
// time in ms. It reports false, and does nothing, when the file is full. The caller skips
// rollback records and records below the header's EndOffset, as RocketMQ does.
func (b *Builder) Add(hash int32, offset, storeTime int64) bool {
	n := max(b.head.Count, 1)
	if n >= b.layout.Entries {
		return false
	}
	slot := b.image[b.layout.SlotAt(hash%b.layout.Slots):]
	e := Entry{hash, offset, Seconds(b.head.BeginTimestamp, storeTime), int32(be.Uint32(slot))}
	e.Append(b.image[:b.layout.EntryAt(n)])
	be.PutUint32(slot, uint32(n))
	if n == 1 {
		b.head.BeginOffset, b.head.BeginTimestamp = offset, storeTime
	}
	if e.Prev == 0 {
		b.head.SlotsUsed++
	}
	b.head.Count = n + 1
	b.head.EndOffset, b.head.EndTimestamp = offset, storeTime
	b.putHeader()
	return true
}

// Header returns the header as it is now.
func (b *Builder) Header() Header { return b.head }

// Bytes returns the file. It is the builder's own memory: the next Add changes it.
func (b *Builder) Bytes() []byte { return b.image }

func (b *Builder) putHeader() { b.head.Append(b.image[:0]) }
