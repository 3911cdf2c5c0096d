// Package consumequeue is the index of one queue of a topic: for each message, in order,
// where its record lies in the commit log.
//
//	queue offset   0        1        2        3        4        5
//	               ├────────┼────────┼────────┼────────┼────────┤
//	file           │ consumequeue/T/0/000…000 │ …/000…060       │   3 entries a file here,
//	                                                                300,000 by default
//	entry, 20 bytes, big-endian
//	0   8   physical offset of the record
//	8   4   its size
//	12  8   tag code: hash of its tag, or time of delivery in the schedule topic
//
// Files have one size and are named for the byte, within the queue, that they begin with.
// A queue whose first message had an offset above 0 (its log began later, or it is a
// slave's) has the head of its first file filled with entries {0, 0x7FFFFFFF, 0}.
//
// The package may list, map and read the files of one store's queues. It reads no record:
// what it has to know of the log it asks through the [Log] interface.
//
// # Derived data
//
// Everything here can be made again from the log, so nothing here is believed against the
// log. A [Queue] is what its files say, overlaid with runs of entries in memory that the
// log said: entries that are missing, wrong, or newer than the files.
//
//	files   ├──────────── ✗✗✗ ────────┤
//	runs                  ├─┤          ├── newer ──┤
//	        min                                    max
//
// [Queue.Merge] takes what a scan of the log saw. [Queue.Heal] looks a single offset up
// when a reader finds that its entry does not name its record, and remembers the answer.
//
// # Concurrency
//
// All methods may be called concurrently. Readers use an immutable state behind an atomic
// pointer and the published max; Queue.mu serialises those who replace the state, and is
// held while they read files or the log. Lock order: Queue.mu → locks of the log.
package consumequeue
