package getmessage

import "sync"

// readerName names a consumer group's reader of a queue.
type readerName struct {
	group, topic string
	queueID      int32
}

const (
	mostKept      = 16       // readers
	mostKeptBytes = 16 << 20 // of all of them
)

// kept are the windows that were read for readers who go on: their next pulls find them here. The
// ones used longest ago go first.
type kept struct {
	mu    sync.Mutex // guards what follows; held with no other lock but that of buffers
	list  []keptWindow
	bytes int64
	clock uint64
}

type keptWindow struct {
	name readerName
	// mem is the mapping of the segment at that time: another one can be another file, with other
	// bytes at the same offsets. It is compared, and keeps nothing mapped.
	mem  Memory
	buf  *coldBuffer
	used uint64
}

// get returns a reference to a reader's window, nil where it does not hold the bytes from one
// physical offset to another.
func (k *kept) get(name readerName, mem Memory, from, to int64) *coldBuffer {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.list {
		w := &k.list[i]
		if w.name != name {
			continue
		}
		if w.mem != mem || from < w.buf.from || to > w.buf.from+int64(len(w.buf.bytes)) {
			return nil
		}
		k.clock++
		w.used = k.clock
		return w.buf.again()
	}
	return nil
}

// put keeps a reader's window in place of the one before.
func (k *kept) put(name readerName, mem Memory, buf *coldBuffer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.list {
		if k.list[i].name == name {
			k.dropLocked(i)
			break
		}
	}
	n := int64(len(buf.bytes))
	for len(k.list) > 0 && (len(k.list) >= mostKept || k.bytes+n > mostKeptBytes) {
		oldest := 0
		for i := range k.list {
			if k.list[i].used < k.list[oldest].used {
				oldest = i
			}
		}
		k.dropLocked(oldest)
	}
	k.clock++
	k.bytes += n
	k.list = append(k.list, keptWindow{name, mem, buf.again(), k.clock})
}

func (k *kept) dropLocked(i int) {
	w := k.list[i]
	k.bytes -= int64(len(w.buf.bytes))
	w.buf.Release()
	last := len(k.list) - 1
	k.list[i], k.list[last] = k.list[last], keptWindow{}
	k.list = k.list[:last]
}
