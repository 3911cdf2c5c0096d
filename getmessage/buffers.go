package getmessage

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Sizes of kept buffers: powers of two, in bits.
const (
	leastBuffer = 12 // 4 KiB: what the kernel reads at least
	mostBuffer  = 23 // 8 MiB: twice RocketMQ's largest message. Larger ones are made and forgotten
	bufferSizes = mostBuffer - leastBuffer + 1
	defaultKeep = 16 << 20
)

// buffers lends memory for cold reads. It keeps what comes back, up to a number of bytes, for
// the next one. Not a sync.Pool: that has no bound, loses everything to two collections, just
// when cold reads are rare, and keeps a list per processor, which lanes make pointless. The one
// lock is taken twice in a read of 70 µs or more.
//
// Of all sizes together at most keep bytes are kept. One that does not fit takes the place of
// those of the size that was asked for longest ago: a size that nobody uses any more goes.
type buffers struct {
	keep int64 // bytes

	mu   sync.Mutex // guards what follows; held with no other lock
	kept int64      // bytes
	lent int64      // bytes that are in use, of those too that will not be kept
	free [bufferSizes][][]byte
	used [bufferSizes]uint64 // when a size was asked for last
	gets uint64              // counts what is asked for: the time of used
}

// newBuffers makes buffers that keep up to keep bytes; 0: 16 MiB, negative: none.
func newBuffers(keep int64) *buffers {
	if keep == 0 {
		keep = defaultKeep
	}
	return &buffers{keep: keep}
}

// sizeOf returns the index of the size for n bytes, false for more than are kept.
func sizeOf(n int) (int, bool) {
	size := max(0, bits.Len(uint(max(n, 1)-1))-leastBuffer)
	return size, size < bufferSizes
}

// get lends n bytes, none for n < 0. Their content is what another read left there: only what
// is read into them may be shown.
func (p *buffers) get(n int) *coldBuffer {
	n = max(0, n)
	data := p.take(n)
	if data == nil {
		// Made without the lock: the memory is cleared.
		// With a byte that nobody uses: records of two buffers never lie one behind the other,
		// as those of one slice do (see AppendSegments).
		data = make([]byte, roomOf(n), roomOf(n)+1)
	}
	lent := &lentBuffer{pool: p, data: data}
	lent.refs.Store(1)
	lent.first.bytes = data[:n:n]
	lent.first.of.Store(lent)
	return &lent.first
}

// roomOf returns how large a buffer for n bytes is.
func roomOf(n int) int {
	if size, ok := sizeOf(n); ok {
		return 1 << (size + leastBuffer)
	}
	return n
}

func (p *buffers) take(n int) []byte {
	size, ok := sizeOf(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lent += int64(roomOf(n))
	if !ok {
		return nil
	}
	p.gets++
	p.used[size] = p.gets
	return p.pop(size)
}

// pop takes a kept buffer of a size, nil if there is none: the last that came back, which is the
// likeliest to be in the processor's cache.
func (p *buffers) pop(size int) []byte {
	list := p.free[size]
	if len(list) == 0 {
		return nil
	}
	last := len(list) - 1
	data := list[last]
	list[last] = nil
	p.free[size] = list[:last]
	p.kept -= int64(len(data))
	return data
}

func (p *buffers) put(data []byte) {
	size, ok := sizeOf(len(data))
	n := int64(len(data))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lent -= n
	if !ok {
		return
	}
	for p.kept+n > p.keep {
		oldest := p.oldest(size)
		if oldest < 0 {
			return
		}
		p.pop(oldest)
	}
	p.free[size] = append(p.free[size], data)
	p.kept += n
}

// oldest returns which of the sizes that are kept, but for one, was asked for longest ago; −1:
// none is kept.
func (p *buffers) oldest(but int) int {
	oldest := -1
	for size := range p.free {
		if size != but && len(p.free[size]) > 0 && (oldest < 0 || p.used[size] < p.used[oldest]) {
			oldest = size
		}
	}
	return oldest
}

// sizes returns how many bytes are lent and kept.
func (p *buffers) sizes() (lent, kept int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lent, p.kept
}

// lentBuffer is memory with the number of its references.
type lentBuffer struct {
	pool  *buffers
	data  []byte
	refs  atomic.Int64
	first coldBuffer // here, so that a loan is one allocation
}

// coldBuffer is one reference to lent memory, a [Ref]. It is made anew for each loan, which costs
// one small allocation in a read that costs 70 µs: were it used again, a second Release by who
// had it before would take the memory from under who has it now.
type coldBuffer struct {
	bytes []byte // valid until Release
	from  int64  // physical offset of the first; of who reads into it
	of    atomic.Pointer[lentBuffer]
}

// again returns another reference to the same memory, nil if this one was released.
func (b *coldBuffer) again() *coldBuffer {
	of := b.of.Load()
	if of == nil {
		return nil
	}
	for {
		n := of.refs.Load()
		if n == 0 { // released since
			return nil
		}
		if of.refs.CompareAndSwap(n, n+1) {
			break
		}
	}
	other := &coldBuffer{bytes: b.bytes, from: b.from}
	other.of.Store(of)
	return other
}

// Release gives the memory back, with its last reference. Calling it again does nothing.
func (b *coldBuffer) Release() {
	of := b.of.Swap(nil)
	if of != nil && of.refs.Add(-1) == 0 {
		of.pool.put(of.data)
	}
}
