// Package mapfile maps one file, counts who uses the mapping, and turns a fault on it into
// an error.
//
// It may open, map and read files; it decides nothing about their content.
//
// # Lifetime
//
// A [File] begins with one reference, its owner's. A reader takes another with Acquire and
// gives it back with Release; Close gives back the owner's. Whoever gives back the last one
// unmaps. So bytes that a reader holds stay valid whatever happens to the file's name, its
// owner or the store; and nobody waits for anybody.
//
//	Open ── refs 1 ──Acquire──▶ 2 ──Close──▶ 1 ──Release──▶ 0: unmapped, descriptor closed
//
// Acquire refuses at zero, by compare and swap: loading first and adding then would let the
// last Release unmap in between.
//
// A [Slot] is a file that is opened when it is first needed and may be closed when it has
// not been needed for a while. A [Cache] holds the slots that are open under a ceiling: at
// vm.max_map_count mappings the Go runtime itself dies, and descriptors are limited too.
//
// # Faults
//
// A mapped page whose file was shortened, or whose disk cannot be read, faults when it is
// touched. [Guard] makes that an error with file and offset for the goroutine that it runs
// in. Files register their address range, so that the error can name them and so that a
// fault anywhere else stays the crash that it should be.
//
// # What is in memory
//
// A File remembers by regions of 64 KiB whether all of it, or nothing, was in memory, and when
// that was seen: File.Known tells, File.Ask asks the kernel. It holds for half a second. Cache.Watch
// looks again, ten times a second, at what was in memory of the files that somebody asked about
// within five seconds. Where that goroutine does not get to run, what is remembered grows older than
// it says.
//
// # Locks
//
// Cache.mu → registry.mu. Slot.mu (held while one file is opened) → Cache.mu.
package mapfile
