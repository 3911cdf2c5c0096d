// Package keyindex reads and writes the index files of a store: which records of the commit
// log have a key, in a range of time.
//
// The package may touch the files of one index directory. It maps nothing, locks nothing and
// starts no goroutine. Of the house it imports message, layout to sync a directory, and mapfile
// to tell a limit of the process: the records that entries name come in through [Records].
//
// Reading opens files, reads them by pread and closes them again within each call. The
// directory may belong to a live writer, RocketMQ's or ours: files may grow, appear, shrink
// or vanish at any time. That gives a smaller answer or an error, never a panic. An [Index]
// may be used concurrently; its one lock guards what is remembered of the files and is never
// held while one of them is read.
//
// Writing is the business of one [Writer] for a directory, used by one goroutine. It keeps
// the file open that is being filled, and those filled since the last Sync, and writes by
// pwrite, a batch of keys at a time, in an order that readers and kills may cut anywhere:
//
//	entries ─▶ slots ─▶ header            Flush: slots may be ahead of the header's count
//	header ─▶ slots ─▶ zeros for entries  undoing and cutting: the same, backwards
//
// What lies beyond the count was never there: a reader passes over it, and the next Writer
// takes it back. RocketMQ looks at such a chain as at an empty one; it finds it only after a
// kill, and then removes and makes again all files that the checkpoint does not vouch for
// ([Writer.FilledTime]).
//
// # The file
//
// A file is named after the moment of its creation, local time, yyyyMMddHHmmssSSS. All
// integers are big-endian two's complement. S and E are the broker's settings (5,000,000
// slots and 20,000,000 entries); the file does not hold them, see [Layout].
//
//	offset       bytes  field
//	0            8      begin timestamp: store time of the first key's record, ms
//	8            8      end timestamp: store time of the last key's record
//	16           8      begin offset: where the first key's record begins in the log
//	24           8      end offset: where the last key's record begins
//	32           4      used slots
//	36           4      count: number of the next entry; 0 before the first key, then 2, 3, ...
//	40           4*S    slots: number of the newest entry of each chain, 0 for none
//	40+4*S       20*E   entries; number 0 is never used
//
//	entry: 0     4      hash of the key: see [Hash]; its chain is slot hash % S
//	       4     8      offset of the record in the log
//	       12    4      whole seconds from the begin timestamp to the record's store time
//	       16    4      number of the previous entry of the chain, 0 for none
//
// A file is full when count reaches E; the next one starts with the previous file's end
// values as begin and end, and its first key overwrites them, after the seconds of that
// key have been computed from the old value. So the seconds of entry 1 say nothing, and the
// keys of one record can be divided between two files.
//
// Entries are in the order of the log; per record UNIQ_KEY comes first, then the pieces of
// KEYS, then, from RocketMQ 5.4 on, its tag as "T#tag". RocketMQ 4.9 repeats the keys of
// the log's last records at a restart if they have no queue entry. Sources: IndexService,
// IndexFile and IndexHeader of RocketMQ, and files that real brokers wrote.
//
// # What an answer is worth
//
// The hash is not the key: each answer of [Index.Find] is compared with the record's own
// topic, keys and store time. An index also does not know all of the log, so the answer
// says which ranges it cannot speak for: [Result].Uncovered. An entry that contradicts the
// file or the log makes its file damaged: it is named, its answers are dropped and its
// range is uncovered. There are no checksums: a slot or a link that was changed into
// another number of the same chain hides entries without a trace. Only [Checker], which
// compares the whole index with the whole log, finds that. It also finds keys that a broker
// never indexed, although they lie within a file's range: because it was told not to, because
// its log had been cut and grown again below the end of a file, or because a slave with broker
// id 0 took a record that had come only in part for damage and skipped the segment's rest.
package keyindex
