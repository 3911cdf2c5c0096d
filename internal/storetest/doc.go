// Package storetest builds stores in RocketMQ's format for tests and benchmarks: segments,
// queue files, key index, checkpoint and abort, with control over every byte that matters
// to a reader (sizes, blanks, store times, transaction types, holes, what is left over
// behind the tail). It writes real files only below the directory that it is given.
//
//	s := storetest.New(t, dir, storetest.Options{SegmentSize: 64 << 10})
//	first := s.Add("orders", 0, 200)       // a message whose body Check knows
//	s.Close()                              // as a broker that was stopped in order leaves it
//
// A [Store] writes as a broker does: the record, then its queue entry, then its keys; a
// blank where a record does not fit; segments at full length at once, the next one in
// advance if asked. Nothing is on disk before [Store.Flush], [Store.Close] or [Store.Kill];
// a writer that readers follow calls Flush after each message. A Store is for one goroutine.
package storetest
