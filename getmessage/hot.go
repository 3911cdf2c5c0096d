package getmessage

// hot reports whether the record of a queue entry may be touched through the mapping. It is
// the one place that decides so. Every mapped segment counts as hot so far: what the kernel
// knows of its pages is not asked.
func (r *Reader) hot(off int64, size int32) bool { return true }
