package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/message"
)

// The tests in case*_test.go make faults happen that users of comparable engines met (the
// number is that of the case in the project's collection) and say what must come of it.

// built is a store with what was put into it.
type built struct {
	*storetest.Store
	all []storetest.Record // in physical order
}

func build(t testing.TB, o storetest.Options) *built {
	return &built{Store: storetest.New(t, t.TempDir(), o)}
}

// add puts a message with a body of n bytes.
func (b *built) add(topic string, id int32, n int) storetest.Record {
	r := b.Add(topic, id, n)
	b.all = append(b.all, r)
	return r
}

// fill puts messages into queues 0 to queues-1 of a topic, in turn, as long as they end
// below a physical offset.
func (b *built) fill(topic string, queues int32, to int64) {
	for n := 0; b.Pos()+500 <= to; n++ {
		b.add(topic, int32(n)%queues, 40+n*37%300)
	}
}

// of returns the records of one queue.
func (b *built) of(topic string, id int32) []storetest.Record {
	var rs []storetest.Record
	for _, r := range b.all {
		if r.Topic == topic && r.QueueID == id {
			rs = append(rs, r)
		}
	}
	return rs
}

type queueID struct {
	topic string
	id    int32
}

// drained is what a consumer got who follows every next offset to the end of a queue.
type drained struct {
	offsets []int64
	damaged []*message.DamageError
	pulls   int
}

// drain consumes a queue by pulls. Every record must be the one of its offset.
func drain(t testing.TB, store *warmlog.Store, topic string, id int32, from int64) (d drained) {
	t.Helper()
	var b getmessage.Batch
	defer b.Release()
	for at := from; ; d.pulls++ {
		if d.pulls > 100000 {
			t.Fatalf("%s/%d: %d pulls and no end, at %d", topic, id, d.pulls, at)
		}
		if err := store.Get(context.Background(), &getmessage.Request{Topic: topic, QueueID: id, Offset: at}, &b); err != nil {
			t.Fatal(err)
		}
		d.damaged = append(d.damaged, b.Damaged...)
		for _, v := range b.Records() {
			if err := storetest.Check(&v, topic, id, v.QueueOffset()); err != nil || v.QueueOffset() < at {
				t.Fatalf("pull at %d: %v", at, err)
			}
			d.offsets = append(d.offsets, v.QueueOffset())
		}
		switch b.Status {
		case getmessage.OffsetOverflowOne, getmessage.NoMessageInQueue:
			return d
		}
		if b.NextOffset <= at {
			t.Fatalf("%s/%d at %d: %v, next %d", topic, id, at, b.Status, b.NextOffset)
		}
		at = b.NextOffset
	}
}

// holds compares everything that a store gives with the records that it should have, by Get,
// by Messages and by Records.
func holds(t testing.TB, store *warmlog.Store, want []storetest.Record) {
	t.Helper()
	queues := map[queueID][]int64{}
	for _, r := range want {
		q := queueID{r.Topic, r.QueueID}
		queues[q] = append(queues[q], r.QueueOffset)
	}
	for _, q := range store.Queues() {
		if _, ok := queues[queueID{q.Topic, q.ID}]; !ok {
			queues[queueID{q.Topic, q.ID}] = nil
		}
	}
	for q, offsets := range queues {
		if got := drain(t, store, q.topic, q.id, 0); fmt.Sprint(got.offsets) != fmt.Sprint(offsets) || len(got.damaged) > 0 {
			t.Errorf("%s/%d by Get: %v, want %v; damaged %v", q.topic, q.id, short(got.offsets), short(offsets), got.damaged)
		}
		if got, errs := messages(t, store, q.topic, q.id); fmt.Sprint(got) != fmt.Sprint(offsets) || len(errs) > 0 {
			t.Errorf("%s/%d by Messages: %v, want %v: %v", q.topic, q.id, short(got), short(offsets), errs)
		}
	}
	n := 0
	for v, err := range store.Records(context.Background(), 0) {
		switch {
		case err != nil:
			t.Errorf("Records: %v", err)
		case n >= len(want) || v.PhysicalOffset() != want[n].Offset:
			t.Fatalf("Records: record %d of %d at %d", n, len(want), v.PhysicalOffset())
		default:
			if err := storetest.Check(v, want[n].Topic, want[n].QueueID, want[n].QueueOffset); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	if n != len(want) {
		t.Errorf("Records: %d, want %d", n, len(want))
	}
}

// short shortens a long list for a message.
func short(offsets []int64) string {
	s := fmt.Sprint(offsets)
	if len(s) > 200 {
		s = s[:90] + " … " + s[len(s)-90:]
	}
	return fmt.Sprintf("%d: %s", len(offsets), s)
}

// messages reads a queue by Messages: the offsets, and the errors between them.
func messages(t testing.TB, store *warmlog.Store, topic string, id int32) (offsets []int64, errs []error) {
	t.Helper()
	for v, err := range store.Messages(context.Background(), topic, id, 0) {
		if err != nil {
			if !errors.Is(err, warmlog.ErrUnknownQueue) {
				errs = append(errs, err)
			}
			continue
		}
		if err := storetest.Check(v, topic, id, v.QueueOffset()); err != nil {
			t.Fatal(err)
		}
		offsets = append(offsets, v.QueueOffset())
	}
	return offsets, errs
}

// names reports whether an error is a damage at a place.
func names(err error, path string, at int64) bool {
	var d *message.DamageError
	return errors.As(err, &d) && errors.Is(err, warmlog.ErrDamaged) && d.File == path && d.Offset == at
}

// noted reports whether one of the lines has all of the words.
func noted(lines []string, words ...string) bool {
	for _, line := range lines {
		n := 0
		for _, w := range words {
			if strings.Contains(line, w) {
				n++
			}
		}
		if n == len(words) {
			return true
		}
	}
	return false
}

// put writes bytes into a file at a place.
func put(t testing.TB, path string, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// bytesOf reads a piece of a file.
func bytesOf(t testing.TB, path string, at int64, n int) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	return b
}

func must(t interface {
	Helper()
	Fatal(...any)
}, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// modes are the two ways in which a store can have been left.
var modes = map[string]func(*built){
	"stopped": func(b *built) { b.Close() },
	"killed":  func(b *built) { b.Kill() },
}

func each[V any](t *testing.T, rows map[string]V, test func(t *testing.T, row V)) {
	for name, row := range rows {
		t.Run(name, func(t *testing.T) { test(t, row) })
	}
}

// await returns when something is so. The test's time limit bounds it.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for !so() {
		if t.Failed() {
			t.Fatal("waiting for", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func base(path string) string { return filepath.Base(path) }
