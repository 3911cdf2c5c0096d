package getmessage

// hot returns the bytes of the segment that holds a physical offset, as they may be touched
// by a pull. It is the one place that decides so. Every mapped segment counts as hot so
// far: what the kernel knows of its pages is not asked.
func (s *scan) hot(off int64) (base int64, data []byte, held Ref, err error) {
	return s.Log.Map(off)
}
