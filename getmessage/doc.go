// Package getmessage is the read path: one pull of a consumer → a batch of records, a
// status, the next offset, and whether the consumer should pull from the slave instead.
//
// It works over any log and queue that satisfy [Log] and [Queue]; it opens no file, and
// starts goroutines only to call those who wait. Where an offset becomes bytes:
//
//	Request ─▶ boundary (table.go): is there such an offset?       status, next
//	        ─▶ Queue.Slice: 20-byte entries from the offset on      where records lie
//	        ─▶ scan (scan.go), per entry: limits, filter,
//	             Log.Map: the segment, one reference
//	             reachable (hot.go): is all of the record in memory?
//	               yes: a view of the mapping, no copy
//	               no:  readCold (cold.go), a system call into a buffer of the batch
//	             message.Decode and View.Is: is it that message?
//	        ─▶ decide (decision.go): where is what the next pull reads? Decision
//
// # Hot and cold
//
// A page that is not in memory must not be touched by Go code: the fault holds the goroutine's
// processor, and a collection waits for it. So the bytes of a record are touched only where all
// of its pages are known to be in memory:
//
//	written by this process within half a second      Log.Fresh
//	seen in memory within half a second               Memory.Known: by regions of 64 KiB, which
//	                                                  are looked at again while they are asked for
//	the kernel says so now                            Memory.Ask: one system call, or two
//	nobody knows, or can be believed                  the distance rule
//
// A batch is wholly hot or wholly cold, as its first record is: it ends before one of the other
// kind. What is cold is read in turns (see below), leaves no page behind that was not there, and
// has the smaller limits of [Limits].
//
// # When a consumer is sent to the slave
//
// [Hybrid], the default, and [Residency] look at the record that the next pull reads first, for
// it decides how all of that batch is read: not in memory, then the slave. Residency asks the
// kernel each time, Hybrid only where nothing is known. [Distance] is RocketMQ's rule: further
// behind the end than a share of the memory, then the slave. [Decision] has the evidence of each.
//
// # Cost of a hot pull
//
// No system call and no allocation (once the batch has grown to its size), no lock; per
// pull: loads of the queue's bounds, state and the log's end, one load for each 64 KiB that
// it reads, one compare-and-swap and one add per segment or queue file that is touched. Tests
// count both.
//
// # The state table
//
// Statuses, next offsets, limits and the order of the tests are RocketMQ's
// (DefaultMessageStore.getMessage of 5.3), but for the places where it is wrong:
//
//   - An entry that cannot be read (F3) is looked up in the log; RocketMQ skips to the next
//     queue file, up to 300,000 messages. Where even that is impossible for now, the status
//     is OFFSET_FOUND_NULL and the next offset is the one asked for.
//   - Entries that fill the head of a first file (F4) are no messages: they are below the
//     minimum offset whatever the log's minimum is. RocketMQ reads the first as a message
//     that was removed and passes over all real ones in the first segment.
//   - A record is given out only if it is the one that its entry names (F7): same place,
//     size, topic, queue and queue offset. RocketMQ returns whatever lies there. Of a
//     record that this process read whole since it opened the store ([Queue.Checked]) only
//     the head is compared again. A record that is not the one, or whose structure is
//     damaged, is passed over and listed in [Batch.Damaged], or is an error by
//     [Reader.Strict]. Checksums are not compared here: that would touch every byte. Who
//     wants them asks the record: message.View.Check.
//   - The minimum offset is that of the first message whose record the log still has.
//     RocketMQ looks for it in the queue's first file only: once all of that lies below the
//     log, its minimum points at messages that are gone.
//   - A slave does not correct offsets (as in RocketMQ), but says why, so that a broker can
//     send the consumer to the master or hold the pull instead of letting it ask again at
//     once (F9): see [Hint].
//   - Outside the policy [Distance], a pull that reached no entry never suggests the slave
//     (F1). Distance does as RocketMQ does, which then takes the whole log for the distance.
//
// # Lifetime
//
// The records of a [Batch] are views of mapped memory. They are valid until [Batch.Release]
// or the next Get with the same batch, whatever is deleted, truncated or closed meanwhile;
// what is kept longer has to be copied. Touching them can fault when somebody shortened the
// file: read them inside [Guard] where that may happen. [Batch.WriteTo] needs no Guard.
//
// To find uses after release, run tests with the build tag warmlogdebug. A batch then hands out
// copies in memory of its own, which Release, or the next Get, protects: accessors of a view
// panic with the place of the release; touching a slice (a body, say) faults, with that place
// among the goroutine's labels in what the runtime prints (a panic within Guard). This holds for
// the last 4,096 batches that were released. It replaces the labels that a goroutine had.
//
// # Waiting
//
// A pull that found nothing yet is held by [Waiters], whoever makes messages visible tells them,
// and neither misses the other. Two sides, each in this order:
//
//	who shows messages: the queue's bounds, then Visible, which looks for waiters
//	who waits:          a place among the waiters, then a look at the queue's bounds
//
// Waiters are spread over 32 shards by their queue. Each shard has, under one lock: its queues'
// waiters, those at the end of a queue apart from a slave's above it; the deadlines, as a heap
// of those that differ; and who is ready to be called. The first who is ready starts the
// goroutine that calls, outside the lock; it ends when nobody is left. One timer is set for the
// earliest deadline of all.
//
// # Cold reads
//
// What is not in memory is read by system call, and that in turns: [Lanes] lets as many run as
// leave a processor free, has the kernel prefetch for the first that wait, and shares between
// consumer groups by what their reads cost the device. Within a group the order is that of
// coming. A lane is a right: the pull's own goroutine reads.
//
//	Do ─▶ lane free, nobody waits, rates allow ─────────────────────▶ read
//	   ─▶ waits ─▶ among the first 16: paid for, prefetch ─▶ lane ──▶ read, then the next
//	         └ no room: ErrColdBusy; or the context ended
//
// Buffers are lent by a list with a bound (buffers.go), one reference per batch. How much a
// reader that goes on where it ended takes at once grows from read to read (window.go), and what
// its next pulls will have is kept for them, for 16 readers (kept.go).
//
// # Concurrency
//
// A [Reader] may be used by any number of goroutines. A Batch belongs to one at a time. All
// methods of Waiters may be called concurrently, from a waiter's function too, but for Close.
//
// Locks: shard.mu and clock.mu, each held with no other. A filter's MatchEntry is called with
// shard.mu held; functions of waiters, and all methods of a Queue, without any. Lanes.mu,
// buffers.mu and windows.mu likewise, each with no other; reads and prefetches run without any.
// kept.mu → buffers.mu.
package getmessage
