// Package fuzz has the fuzz targets of everything that reads bytes or numbers that somebody
// else wrote: records, properties, queue files, index files, checkpoints, JSON, whole
// segments, and the offsets of a pull. It has no code of its own but tests; README.md has the
// commands.
//
// A target states what must hold of any input, and compares with a twin: a slow, plain
// second implementation of the same rule, written from the format's description and not
// from the code under test. The twins and models are
//
//	twin_test.go    a record, properties, Java's hash: from the description of the format
//	model_test.go   a made log: which message lies where, and nothing else is true
//	pull_twin_test.go  the state table of a pull, row by row
//
//	target           any bytes or numbers as                  must hold
//	FuzzRecord       a record; then changed under its view    the twin's record; encoding it again gives it back
//	FuzzProperties   properties; a pair                       the twin's pairs; decoding what was encoded
//	FuzzQueueEntry   a queue entry                            the twin's entry
//	FuzzQueueFiles   the files of one queue over a made log   each message of the log at its offset, and no other
//	FuzzIndexFile    index files over a made log              what has the key, and nothing else
//	FuzzCheckpoint   checkpoint and abort file                the twin's fields; the same messages as without
//	FuzzJSON         a table and its spare copy               encoding/json's values, in range, or an error of its class
//	FuzzLog          segments                                 whole records that lie where they say, or a damage
//	FuzzRaw          a part of another log                    whole records and blanks, or a refusal
//	FuzzPull         a pull of a made queue                   the state table
//
// Targets that open a store write its files to one directory per process and use it again.
// Seeds are parts of stores that real RocketMQ processes wrote (internal/fixtures) and what
// the models make; inputs that once failed stand in testdata/fuzz.
package fuzz
