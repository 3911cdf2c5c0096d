//go:build unix && !linux

package mapfile

// DataFrom returns off: every byte is taken for written.
func (m *File) DataFrom(off int64) int64 { return off }
