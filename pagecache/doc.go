// Package pagecache asks the kernel what the engine has to know about memory: how much of
// it this process may use, and how much of it is used.
//
// RocketMQ takes the RAM of the host for that and reads it once. In a container that is
// wrong: sysinfo(2) and /proc/meminfo show the host whatever the container's limit is. So
// [ReadMemory] cuts RAM to the tightest limit of the control groups (cgroups, v1 or v2)
// that this process is in, and [Threshold] makes of that the number of bytes that a
// consumer may lag behind and still be thought to read from memory.
//
// # What it may touch
//
// It reads /proc/self/cgroup, /proc/self/mountinfo, /proc/meminfo and files of the cgroup
// file systems, and calls sysinfo(2); on darwin it calls sysctl(3). It writes nothing,
// keeps no file open and starts no goroutine: whoever owns a Threshold calls
// [Threshold.Refresh] at an interval, see [RefreshInterval].
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
// Threshold has one mutex, held while a reading is made and stored, with no other lock.
// Everything in the package may be called concurrently.
package pagecache
