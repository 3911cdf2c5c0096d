package consumequeue

import (
	"math"
	"sort"
)

// state is what a queue's readers use: its files, and the runs that overlay them.
// Immutable, but for the free capacity behind a run's entries, which no reader sees.
type state struct {
	files *files
	runs  []run // by offset, not overlapping, not touching
}

// run is a stretch of consecutive entries in memory.
type run struct {
	first   int64
	entries []byte // encoded
}

func (r run) end() int64 { return r.first + int64(len(r.entries)/EntrySize) }

// low returns the lowest offset that there may be an entry for.
func (st *state) low() int64 {
	switch {
	case len(st.files.slots) == 0 && len(st.runs) == 0:
		return 0
	case len(st.files.slots) == 0:
		return st.runs[0].first
	case len(st.runs) == 0:
		return st.files.first
	}
	return min(st.files.first, st.runs[0].first)
}

func (st *state) runsEnd() int64 {
	if n := len(st.runs); n > 0 {
		return st.runs[n-1].end()
	}
	return 0
}

// runAt returns the run that holds an offset, or the offset where the next one begins
// (-1: none follows).
func (st *state) runAt(off int64) (r *run, next int64) {
	n := len(st.runs)
	if n == 0 || off >= st.runs[n-1].end() {
		return nil, -1
	}
	i := sort.Search(n, func(i int) bool { return st.runs[i].end() > off })
	if r = &st.runs[i]; r.first > off {
		return nil, r.first
	}
	return r, -1
}

// below returns the highest offset, at or below off, that lies in a run or in a file that is
// there; -1 if none does. above is the same upwards; math.MaxInt64. Offsets can have holes
// of any size: nobody walks through them.
func (st *state) below(off int64) int64 {
	run, _ := st.runAt(off)
	slot, _ := st.files.slot(off)
	if run != nil || slot != nil {
		return off
	}
	best := int64(-1)
	if i := sort.Search(len(st.runs), func(i int) bool { return st.runs[i].first > off }); i > 0 {
		best = st.runs[i-1].end() - 1
	}
	f := st.files
	for i := min(int64(len(f.slots)), (off-f.first)/f.per) - 1; off >= f.first && i >= 0; i-- {
		if f.slots[i] != nil {
			return max(best, f.first+(i+1)*f.per-1)
		}
	}
	return best
}

func (st *state) above(off int64) int64 {
	run, next := st.runAt(off)
	slot, _ := st.files.slot(off)
	if run != nil || slot != nil {
		return off
	}
	best := int64(math.MaxInt64)
	if next >= 0 {
		best = next
	}
	f := st.files
	for i := max(0, (off-f.first)/f.per); i < int64(len(f.slots)); i++ {
		if from := f.first + i*f.per; f.slots[i] != nil && from >= off {
			return min(best, from)
		}
	}
	return best
}

// with returns the state with the entries from off on laid over it.
func (st *state) with(off int64, entries []byte) *state {
	end := off + int64(len(entries)/EntrySize)
	// The usual case: entries that continue the last run. They go into its free capacity.
	if n := len(st.runs); n > 0 && st.runs[n-1].end() == off {
		runs := append([]run(nil), st.runs...)
		runs[n-1].entries = append(runs[n-1].entries, entries...)
		return &state{st.files, runs}
	}
	// Runs that overlap or touch [off, end) become one with it.
	from := sort.Search(len(st.runs), func(i int) bool { return st.runs[i].end() >= off })
	to := sort.Search(len(st.runs), func(i int) bool { return st.runs[i].first > end })
	merged := run{first: off, entries: append([]byte(nil), entries...)}
	if from < to {
		if r := st.runs[from]; r.first < off {
			merged.first = r.first
			merged.entries = append(append([]byte(nil), r.entries[:(off-r.first)*EntrySize]...), merged.entries...)
		}
		if r := st.runs[to-1]; r.end() > end {
			merged.entries = append(merged.entries, r.entries[(end-r.first)*EntrySize:]...)
		}
	}
	runs := append([]run(nil), st.runs[:from]...)
	runs = append(append(runs, merged), st.runs[to:]...)
	return &state{st.files, runs}
}

// overlaid returns the encoded entries from off on: of the run that holds it, or of the
// files up to the next run.
func (st *state) overlaid(off int64, r *run, next int64) ([]byte, interface{ Release() }, error) {
	if r != nil {
		return r.entries[(off-r.first)*EntrySize:], nil, nil
	}
	return st.files.slice(off, next)
}

// reader reads single entries, the files' by pread in small blocks. For one goroutine.
type reader struct {
	st   *state
	from int64
	buf  []byte
	err  error // the first one; entries that cannot be read are as if not written
	// missing says that a file was asked for that is not there, or no longer as it was.
	missing bool
}

const readerBlock = 64

func (q *Queue) reader(st *state) *reader { return &reader{st: st} }

// at returns the entry of an offset, the zero Entry where there is none.
func (r *reader) at(off int64) Entry {
	if run, _ := r.st.runAt(off); run != nil {
		return Decode(run.entries[(off-run.first)*EntrySize:])
	}
	if i := off - r.from; i < 0 || i >= int64(len(r.buf)/EntrySize) {
		r.from = off - off%readerBlock
		r.from = max(r.from, off-(off-r.st.files.first)%r.st.files.per) // within off's file
		b, err := r.st.files.read(r.from, readerBlock, r.buf)
		if err != nil && r.err == nil {
			r.err = err
		}
		r.buf = b
	}
	if i := (off - r.from) * EntrySize; i >= 0 && i+EntrySize <= int64(len(r.buf)) {
		return Decode(r.buf[i:])
	}
	if f := r.st.files; off >= f.first && off < f.limit() {
		r.missing = true
	}
	return Entry{}
}

// lastReal returns the highest offset in [low, end) with a real entry, below low if there
// is none.
func (r *reader) lastReal(low, end int64) int64 {
	for off := r.st.below(end - 1); off >= low; off = r.st.below(off - 1) {
		if r.at(off).Real() {
			return off
		}
	}
	return low - 1
}
