//go:build !linux

package mapfile

// Absent returns nil: the kernel is not asked which pages are in memory.
func (m *File) Absent() []bool { return nil }

// Evict does nothing.
func (m *File) Evict([]bool) {}
