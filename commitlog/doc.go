// Package commitlog is the endless log of records: segments of one size, each a file named
// for its first byte, found by arithmetic, read by mapping or by system call.
//
//	physical offset  0            S            2·S          3·S
//	                 ├────────────┼────────────┼────────────┤
//	file             │ 000…000    │ 000…0S     │ 000…02S    │      S = segment size
//	content          │ rec rec ▒▒ │ rec rec ▒▒ │ rec ░░░░░░ │
//	                        blank ┘                └ tail: nothing was written yet
//
// A record never spans two segments: what does not fit is left blank (message.MagicBlank
// with the number of bytes left).
//
// The package may open, list, map, read, make, write and delete the files of one directory.
// It knows nothing of queues; who decides where the log ends, and whether damage is a torn tail
// or corruption, is the store above.
//
// # Reading
//
// [Log.Map] returns the mapped bytes of a segment with a reference that keeps them valid;
// they are for what is known to be in memory. [Log.ReadRecord] and [Scanner] read by
// pread and touch no page of a mapping. A segment on whose mapping a fault happened is put
// out of service ([Log.Quarantine]).
//
// # Writing
//
// An [Appender] is the one writer of a log. Append gives records their places under one lock;
// in Written mode it stores them into a mapping of the segment, in Flushed mode it keeps them
// until the leader of [Appender.Commit] writes and syncs them by system call, and moves the
// visible end.
//
//	            │◀─ durable ─▶│◀─ written, not synced ─▶│◀─ ready: space, pages or zeros ─▶│
//	segment     ├─────────────┴────────────────────────┴──────────────────────────────────┴──┤
//
// Pages that come into memory by faults cost ten times as much as those of one large write.
// So zeros are laid before records are stored, in pieces of 16 KiB to 1 MiB, by the background
// or by the append itself: records below writing.laid, zeros above it, and a lock where it moves.
//
// A store into a mapping without space behind it would kill the process: space is reserved
// before, by the background or by the append itself, which then fails with [ErrNoSpace] and
// uses up nothing. What failed to sync is latched ([ErrFailed]).
//
// [Appender.AppendRaw] takes parts of another log as they are, by one write each;
// [Appender.SetLimit] keeps the visible end back; [Appender.Cut] ends the log earlier.
//
// # Concurrency
//
// show.mu (the visible end below a limit) → Appender.mu (places) → Log.mu, writing.reserveMu,
// ahead.writeMu (zeros do not follow records). ahead.syncing → the lock of the failure alone.
// syncer.mu (who leads) and ahead.mu are held with none.
//
// All methods of Log may be called concurrently. The list of segments is an immutable
// snapshot behind an atomic pointer: a reader that indexes into it can neither be led to
// another segment by one that goes away meanwhile, nor see a list with a hole. Log.mu
// serialises those who replace the snapshot; it is never held while a file is read.
package commitlog
