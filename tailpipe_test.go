package warmlog_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

// Queues and index of a log of many blocks are made again while the log is read on: entry by
// entry what they were, from records smaller and larger than a block, over several segments.
func TestRebuiltWhileReading(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	s := storetest.New(t, t.TempDir(), storetest.Options{SegmentSize: 8 << 20, Index: keyindex.Layout{Slots: 1000, Entries: 100_000}})
	for i := range 12_000 {
		n := rnd.IntN(2000)
		if i%3000 == 1000 {
			n = 1<<20 + rnd.IntN(2<<20)
		}
		m := s.Message(fmt.Sprintf("topic-%d", rnd.IntN(5)), int32(rnd.IntN(4)), n)
		m.Keys = fmt.Sprintf("k%d", i)
		s.Put(m)
	}
	s.Flush()
	want := map[string][]byte{}
	walk(t, s.Paths.ConsumeQueue(), func(name string, b []byte) { want[name] = bytes.TrimRight(b, "\x00") })
	for _, dir := range []string{s.Paths.ConsumeQueue(), s.Paths.Index()} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(s.Paths.Abort(), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	store := create(t, s.Dir(), warmlog.Options{SegmentSize: 8 << 20, QueueFileSize: consumequeue.DefaultFileSize})
	v, err := store.Verify(context.Background(), func(d *message.DamageError) { t.Error(d) })
	if err != nil || len(v.Behind) > 0 || v.Index.Entries != 12_000 {
		t.Errorf("%v, %d keys, %v", err, v.Index.Entries, v.Behind)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	walk(t, s.Paths.ConsumeQueue(), func(name string, b []byte) {
		if !bytes.Equal(bytes.TrimRight(b, "\x00"), want[name]) {
			t.Errorf("%s: other entries than before", name)
		}
		delete(want, name)
	})
	for name := range want {
		t.Errorf("%s: was not made again", name)
	}
}

func walk(t *testing.T, dir string, f func(name string, b []byte)) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*", "*", "*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f(name, b)
	}
}
