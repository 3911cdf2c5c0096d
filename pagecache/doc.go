// Package pagecache asks the kernel what the engine has to know about memory: how much of
// it this process may use, how much of it is used, and which pages of a file are in it.
//
// # Memory
//
// RocketMQ takes the RAM of the host for that and reads it once. In a container that is
// wrong: sysinfo(2) and /proc/meminfo show the host whatever the container's limit is. So
// [ReadMemory] cuts RAM to the tightest limit of the control groups (cgroups, v1 or v2)
// that this process is in, and [Threshold] makes of that the number of bytes that a
// consumer may lag behind and still be thought to read from memory.
//
// # Residency
//
// A [Prober] asks which pages of a file are in memory: by cachestat(2), else by mincore(2),
// else it is not known. It asks only methods that it found to tell the truth when it was made,
// since there are those that do not, without an error:
//
//	                                  cachestat         mincore
//	the process may not write         EPERM             all in memory
//	overlayfs                         nothing in memory right
//	old kernel, system call filter    ENOSYS, EPERM     right
//	tmpfs                             right             right
//	pages that are being read         in memory         absent
//
// So it brings pages into memory, evicts them, and believes who notices both. That nobody sees
// them go, by another method or by a read that does not wait (RWF_NOWAIT), shows no lie: they
// are dirty, locked, mapped by somebody, a part of a folio, or on tmpfs. Then the kernel's
// contract decides, and [ErrCannotTell] stands in the finding: cachestat is believed, mincore
// where this process owns or may write the file.
//
// [Prefetch], [Prober.ReadUncached], [Drop] and [Prober.Evict] act on exact ranges.
//
// # What it may touch
//
// For memory it reads /proc/self/cgroup, /proc/self/mountinfo, /proc/meminfo and files of the
// cgroup file systems, and calls sysinfo(2); on darwin it calls sysctl(3). NewProber makes and
// removes a file in the directory that it is given, or evicts at most 16 pages of a file
// ([ProberOptions].Unnamed: neither). What
// it is given open it keeps open; it never touches a page of a mapping. It keeps no file open
// and starts no goroutine: whoever owns a Threshold calls [Threshold.Refresh] at an interval,
// see [RefreshInterval].
//
// # Which limit counts
//
//	        RAM                 the host's, sysinfo(2)
//	         |
//	/        group              memory.max and memory.high (v2)
//	         |                  memory.limit_in_bytes (v1)
//	/a       group              the same
//	         |
//	/a/b     group of this process
//
// The smallest number on the way up counts; one that is not below RAM is no limit, which
// covers "max" and the rounded 2^63 of v1. memory.high counts like memory.max although it
// does not kill: above it the kernel reclaims at once, page cache first, so what lies
// above it does not stay in memory. v1's soft limit and v2's memory.low and memory.min do
// not bound anything and are not read; nor is swap.
//
// Groups above the top of what is mounted are out of sight, as they are for a container
// with a cgroup namespace. v1 tells the tightest limit above nevertheless
// (hierarchical_memory_limit), and it is taken; v2 does not.
//
// # Locks
//
// Threshold has one mutex, held while a reading is made and stored, with no other lock. A
// Prober has none.
// Everything in the package may be called concurrently.
package pagecache
