package mapfile

import (
	"sync/atomic"
	"unsafe"
)

// mostKept is how many things the files of a cache remember.
const mostKept = 1024

// kept is something that is remembered of a part of a file. Immutable.
type kept struct {
	slot *Slot
	key  int64
	v    any
}

// Keep remembers something about a part of the file that a key names. The files of a cache share a
// bounded number of places, and each key has one of them only: what was there is forgotten.
func (s *Slot) Keep(key int64, v any) { s.place(key).Store(&kept{s, key, v}) }

// Kept returns what is remembered by a key, nil if that was forgotten.
func (s *Slot) Kept(key int64) any {
	if k := s.place(key).Load(); k != nil && k.slot == s && k.key == key {
		return k.v
	}
	return nil
}

func (s *Slot) place(key int64) *atomic.Pointer[kept] {
	h := (uint64(uintptr(unsafe.Pointer(s))) ^ uint64(key)*0xC2B2AE3D27D4EB4F) * 0x9E3779B97F4A7C15
	return &s.cache.kept[h>>32%mostKept]
}
