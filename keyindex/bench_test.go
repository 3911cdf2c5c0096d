package keyindex_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/warmlog/warmlog/keyindex"
)

// BenchmarkFind asks files in memory: a key of one record, a key that 64 of the newest
// records have, a key of every record among the oldest, and no key.
func BenchmarkFind(b *testing.B) {
	l := newLog()
	const n = 200_000
	for i := range n {
		keys := fmt.Sprintf("k%d", i)
		if i%10 == 0 {
			keys += " hot"
		}
		l.put(b, now+int64(i), "orders", "", keys, "")
	}
	for _, files := range []int32{1, 20} {
		slots := (n + n/10) / files
		dir := b.TempDir()
		build(l, slots, slots+100, false).write(b, dir)
		x := open(b, dir, keyindex.Options{Slots: slots})
		for _, c := range []struct {
			name string
			q    keyindex.Query
			want int
		}{
			{"newest", keyindex.Query{Key: fmt.Sprintf("k%d", n-5)}, 1},
			{"oldest", keyindex.Query{Key: "k5"}, 1},
			{"hot64", keyindex.Query{Key: "hot"}, 64},
			{"old64", keyindex.Query{Key: "hot", From: 1, To: now + 630}, 64},
			{"none", keyindex.Query{Key: "nothing"}, 0},
		} {
			c.q.Topic, c.q.LogEnd = "orders", l.end
			b.Run(fmt.Sprintf("files=%d/%s", files, c.name), func(b *testing.B) {
				b.ReportAllocs()
				steps := 0
				for b.Loop() {
					r, err := x.Find(context.Background(), c.q, l)
					if err != nil || len(r.Offsets) != c.want || r.Damaged != nil {
						b.Fatalf("%d, %v, %v", len(r.Offsets), err, r.Damaged)
					}
					steps += r.Steps
				}
				b.ReportMetric(float64(steps)/float64(b.N), "steps/op")
			})
		}
	}
}
