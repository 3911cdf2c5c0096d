package storetest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

// What the builder writes is a sound store: verify agrees, and every message is the one
// that was put.
func TestWhatIsBuiltIsSound(t *testing.T) {
	for _, o := range []storetest.Options{
		{},
		{SegmentSize: 4096, QueueFileSize: 200, Premake: true, Index: keyindex.Layout{Slots: 10, Entries: 40}},
		{SegmentSize: 8192, Begin: 5 * 8192, WithCRC: true, QueueFileSize: 40},
	} {
		t.Run(fmt.Sprint(o), func(t *testing.T) {
			s := storetest.New(t, t.TempDir(), o)
			s.StartQueue("late", 1, 7)
			var put []storetest.Record
			for n := range 300 {
				switch {
				case n%50 == 20:
					s.Put(&message.Message{Topic: "half", SysFlag: message.SysFlagPrepared, Keys: "half"})
				case n%50 == 30:
					s.Put(&message.Message{Topic: "half", SysFlag: message.SysFlagRollback, Keys: "half"})
				case n%70 == 69:
					s.Leave("orders", 0, 8+int64(n)%3)
					s.Blank()
				case n%3 == 0:
					m := s.Message("late", 1, n%100)
					m.Keys = fmt.Sprintf("k%d  k", n)
					put = append(put, s.Put(m))
				default:
					put = append(put, s.Add("paid", int32(n%4), n%200))
				}
			}
			s.Close()
			store, err := warmlog.Open(s.Dir(), warmlog.Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			v, err := store.Verify(context.Background(), func(d *message.DamageError) { t.Error(d) })
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", v)
			if v.Entries == 0 || v.Index.Behind != 0 && o.Index.Entries > 0 {
				t.Errorf("%+v", v)
			}
			for _, r := range put {
				got, _, err := store.Record(r.Offset, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := storetest.Check(&got, r.Topic, r.QueueID, r.QueueOffset); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A log of 1 GiB, as benchmarks want it.
func BenchmarkBuild(b *testing.B) {
	for b.Loop() {
		s := storetest.New(b, b.TempDir(), storetest.Options{SegmentSize: 1 << 28})
		for s.Pos() < 1<<30 {
			s.Add("bench", int32(s.Pos()&7), 900)
		}
		s.Close()
		b.SetBytes(s.Pos())
	}
}
