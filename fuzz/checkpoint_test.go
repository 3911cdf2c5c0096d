package fuzz_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"path/filepath"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/message"
)

// The shape of an input of FuzzCheckpoint: bits.
const (
	markersAbort    = 1
	markersNoQueues = 2 // no queue has a file
	markersNone     = 4 // no checkpoint
	markersHead     = 8 // the log's head was deleted
)

// FuzzCheckpoint gives any bytes as checkpoint and abort file. Neither changes what a store
// that is whole holds: they only say how much of it has to be read to know its end.
func FuzzCheckpoint(f *testing.F) {
	for _, b := range seedFiles(f, 4096, "store/checkpoint", "master/checkpoint", "slave/checkpoint") {
		for shape := range uint8(16) {
			f.Add(b, []byte("7719"), shape)
		}
	}
	for _, t := range []int64{math.MinInt64, -1, 0, 2999, 3000, 1700000000000, 1700000012000, math.MaxInt64} {
		b := binary.BigEndian.AppendUint64(nil, uint64(t))
		for _, other := range []int64{math.MinInt64, 1700000020000, math.MaxInt64} {
			f.Add(binary.BigEndian.AppendUint64(append(b[:8:8], b...), uint64(other)), []byte{}, uint8(markersAbort))
			f.Add(bytes.Repeat(binary.BigEndian.AppendUint64(b[:8:8], uint64(other)), 4), []byte("-1\n"), uint8(markersAbort|markersHead))
		}
	}
	type kind struct {
		dir   string
		log   *madeLog
		files fileSet
	}
	var stores [4]kind
	for i := range stores {
		l := smallLog(0, 0)
		if i&2 != 0 {
			l = smallLog(2048, 6)
		}
		stores[i] = kind{f.TempDir(), l, fileSet{}}
		l.write(f, stores[i].files, stores[i].dir)
		if i&1 == 0 {
			l.writeQueues(f, stores[i].files, stores[i].dir, entriesPerFile, queueName{})
		}
	}
	f.Fuzz(func(t *testing.T, b, abort []byte, shape uint8) {
		defer watch(hangs)()
		s := stores[(shape&markersNoQueues)/markersNoQueues+2*(shape&markersHead/markersHead)]
		path, abortPath := filepath.Join(s.dir, "checkpoint"), filepath.Join(s.dir, "abort")
		s.files.write(t, path, b)
		checkCheckpoint(t, path, b)
		if shape&markersNone != 0 {
			s.files.remove(t, path)
		}
		if shape&markersAbort != 0 {
			s.files.write(t, abortPath, abort)
		} else {
			s.files.remove(t, abortPath)
		}
		a, err := layout.ReadAbort(abortPath)
		if err != nil || a.Exists != (shape&markersAbort != 0) || a.PID < 0 {
			t.Fatalf("abort: %+v, %v", a, err)
		}
		store, err := openStore(s.dir, warmlog.Options{CheckBytes: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		checkWhole(t, store, s.log)
		checkTimes(t, store, s.log)
		if _, max := store.Bounds(); max != s.log.end {
			t.Fatalf("the log ends at %d, not %d", max, s.log.end)
		}
		info, err := store.Inspect(context.Background())
		if err != nil || info.Clean == a.Exists || len(info.Queues) != len(s.log.queues) {
			t.Fatalf("%+v, %v", info, err)
		}
	})
}

// checkCheckpoint compares the reading of a checkpoint with its description.
func checkCheckpoint(t *testing.T, path string, b []byte) {
	t.Helper()
	got, err := layout.DecodeCheckpoint(b)
	read, readErr := layout.ReadCheckpoint(path)
	if (err == nil) != (readErr == nil) || got != read {
		t.Fatalf("decoded %+v, %v; read %+v, %v", got, err, read, readErr)
	}
	if err != nil {
		var damage *message.DamageError
		if len(b) >= 24 || !errors.Is(err, message.ErrDamaged) || !errors.As(readErr, &damage) || damage.File != path || damage.Offset != int64(len(b)) {
			t.Fatalf("%d bytes: %v, %v", len(b), err, readErr)
		}
		return
	}
	r := &reader{b: append(bytes.Clone(b), make([]byte, 48)...)} // what is not there is 0
	want := layout.Checkpoint{PhysicTime: r.i64(), LogicsTime: r.i64(), IndexTime: r.i64(), MasterFlushed: r.i64(), ConfirmOffset: r.i64(), LogicsOffset: r.i64()}
	if got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	// max(0, min(physic, logics) − 3000), without an overflow.
	least := big.NewInt(min(want.PhysicTime, want.LogicsTime))
	if least.Sub(least, big.NewInt(3000)); least.Sign() < 0 {
		least.SetInt64(0)
	}
	if t0 := got.MinTimestamp(); big.NewInt(t0).Cmp(least) != 0 {
		t.Fatalf("%+v: %d, want %v", want, t0, least)
	}
}
