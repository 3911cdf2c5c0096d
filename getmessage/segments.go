package getmessage

import "unsafe"

// AppendSegments appends the batch's records to dst as slices of memory, for who sends them in
// a way of their own: several batches in one frame, another kind of connection. Records that
// lie one behind the other in the log, as those of a topic with one busy queue do, make one
// slice: so there are at most as many as records, and their bytes are [Batch.Bytes] together.
//
// The slices are views of the log's own memory, valid as long as the records are (see
// [Batch.Release]), and must not be written to. dst is the caller's: net.Buffers, which
// consumes what it writes, may have it. With room in dst nothing is allocated.
func (b *Batch) AppendSegments(dst [][]byte) [][]byte {
	records := b.Records()
	var run []byte
	for i := range records {
		raw := records[i].Raw()
		switch {
		case len(run) == 0:
			run = raw
		case follows(run, raw):
			// The batch holds what is on both sides of the seam, also where two mappings happen
			// to touch. Two objects on the heap must not: who reads records into buffers leaves
			// a byte at the end of each, for no slice may span two of them.
			run = unsafe.Slice(unsafe.SliceData(run), len(run)+len(raw))
		default:
			dst, run = append(dst, run), raw
		}
	}
	if len(run) > 0 {
		dst = append(dst, run)
	}
	return dst
}

// follows reports whether b lies right behind a in memory.
func follows(a, b []byte) bool {
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(a)), len(a)) == unsafe.Pointer(unsafe.SliceData(b))
}
