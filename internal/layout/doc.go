// Package layout knows the names in a store's directory and the small files that stand
// beside its data: checkpoint, abort, lock and state. It may read, write and lock those files.
//
//	DIR/commitlog/<20 digits>                      segments, named for their first byte
//	DIR/consumequeue/<topic>/<queue>/<20 digits>   queue files, named likewise
//	DIR/index/<17 digits>                          key index files, named for a moment
//	DIR/config/*.json                              tables of the broker
//	DIR/checkpoint                                 times up to which data was flushed
//	DIR/abort                                      exists while a broker runs, or after it died
//	DIR/lock                                       byte 0 is locked by the process that writes
//	DIR/warmlog/state                              what RocketMQ does not know: see State
//	DIR/warmlog/owner                              which process writes, for people: see Owner
//	DIR/warmlog/queues                             where each queue ended at the last checkpoint
//	DIR/warmlog/deleted                            queues that were deleted, and where in the log
//	DIR/warmlog/aside/                             bytes that recovery cut off
//
// # Checkpoint
//
// 4096 bytes, of which a release writes those that it knows; all i64, big-endian:
//
//	offset  field                 written by
//	0       physicMsgTimestamp    all
//	8       logicsMsgTimestamp    all
//	16      indexMsgTimestamp     all
//	24      masterFlushedOffset   5.0 and later
//	32      confirmPhyOffset      5.1.1 and later
//	40      logicsPhysicalOffset  5.5
//
// Source: StorePathConfigHelper, StoreCheckpoint and DefaultMessageStore of RocketMQ.
package layout
