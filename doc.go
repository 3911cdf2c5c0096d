// Package warmlog is a storage engine for message brokers: a commit log with consume queues
// and a key index over it, in the formats of Apache RocketMQ 4.9 to 5.5, read without a
// copy.
//
// A [Store] is one directory. [Open] with [Options.ReadOnly] opens a store that somebody
// else wrote, and may still be writing: it changes nothing on disk and takes no lock, finds
// the sizes of segments and queue files from the files, and follows the store as it grows.
// What is derived from the log (queues, index) is not believed against it: what is missing,
// short, damaged or kept elsewhere is made again in memory.
//
//	store, err := warmlog.Open(dir, warmlog.Options{ReadOnly: true})
//	var batch getmessage.Batch
//	err = store.Get(ctx, &getmessage.Request{Group: "g", Topic: "orders", Offset: 7}, &batch)
//	for _, rec := range batch.Records() { … }
//	batch.Release()
//
// Without ReadOnly the store is this process's to write: it takes the lock that a broker
// takes, goes on where the log ends, and keeps the files such that a real broker opens them.
//
//	store, err := warmlog.Open(dir, warmlog.Options{})
//	r, err := store.Append(ctx, &message.Message{Topic: "orders", Tags: "paid", Body: body})
//	err = store.Close()
//
// # What an append survives
//
// Written: the end of this process, however it comes; the log is synced in the background,
// every half second. Consumers see a message when it is written, so that a power cut can take
// back what they saw. Flushed: a power cut; consumers see nothing before. A sync that failed
// makes the store refuse appends ([ErrFailed]) until it is opened again; reads go on.
//
// # Masters and slaves
//
// A store is a master, or a slave that takes its master's log byte for byte: see
// [Store.SetRole], [Store.ReadRaw], [Store.AppendRaw], [Store.SetVisibleLimit] and
// [Store.Truncate]. Who moves the bytes between them is not this package's business.
//
// # Waiting
//
// A consumer that has all there is waits with [Store.Register], or [Store.Wait], until a pull has
// another answer: a message that became visible between the two wakes it at once.
//
//	woken, err := store.Wait(ctx, &getmessage.Request{Topic: "orders", Offset: batch.NextOffset})
//
// # Memory
//
// [Residency] says which parts of a store's files are in memory, and what pulls would be told by
// RocketMQ's rule and by that. It opens no store and warms nothing.
//
// # Floors
//
// The root wires what lies below it and owns the order in which a store comes up:
//
//	warmlog ─ getmessage ─ commitlog, consumequeue, keyindex ─ message, pagecache, mapfile
//
// It may read every file of the store's directory, and write them in a store that is open for
// writing.
//
// # How a store is opened
//
//  1. List the segments; refuse what is not supported (batch consume queues, a log over
//     several paths), name what is odd (foreign files, a hole).
//  2. List the topics and queues. Queue files are opened when a queue is first used.
//  3. Read the log from the beginning of a segment near its end (Options.CheckBytes) up to
//     the last sound record. That finds the end of the log, completes queues that are behind
//     it, and corrects entries that are wrong. A damage there is told apart from a torn tail:
//     below the durable position, with sound records behind it, it is damage and is passed
//     over; above, it ends the log.
//  4. Queues of which that found only the later part are completed from further back.
//
// The durable position of a store that was stopped in order is its end, as far as queues
// point. Of one that was not, it is the beginning of the last segment that begins with a
// sound record: those before it were filled and left.
//
// # Locks
//
// Store.followMu (one goroutine reads new records) → Queue.mu → locks of the log. No lock is
// taken by Get on messages that the store knows.
//
// Writing: writer.using (held by appends, taken by Close) → writer.retainMu → checkpointMu →
// indexer.mu → the appender's lock → Queue.mu → locks of the log; Close, SetRole and Truncate take
// using alone for themselves. writer.measureMu → the appender's lock, conditions.mu: measuring
// waits for no deletion. delivery.mu is held with none. Locks of the waiters come last: they are
// taken with indexer.mu or Store.followMu held. Nothing is called with a lock of theirs held but
// Filter.MatchEntry.
package warmlog
