package getmessage_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/pagecache"
)

// Cold reads of 32 KiB at random places of a file, by many goroutines: without lanes, with lanes
// and no prefetch, with both. Each place is read once after the file was dropped.
func BenchmarkLanesCold(b *testing.B) {
	const size, piece, readers = 256 << 20, 32 << 10, 32
	f, err := os.Create(filepath.Join(b.TempDir(), "cold"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range block {
		block[i] = byte(rng.Uint32())
	}
	for off := int64(0); off < size; off += int64(len(block)) {
		if _, err := f.WriteAt(block, off); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	pagecache.NoReadAhead(f)
	places := rng.Perm(size / piece)
	for _, c := range []struct {
		name  string
		lanes int
		ahead int
	}{{"free", readers, -1}, {"lanes", 0, -1}, {"lanes+ahead", 0, 0}} {
		b.Run(c.name, func(b *testing.B) {
			l := getmessage.NewLanes(getmessage.LaneOptions{Lanes: c.lanes, Ahead: c.ahead})
			b.SetBytes(piece)
			b.ResetTimer()
			for done := 0; done < b.N; done += len(places) {
				b.StopTimer()
				pagecache.Drop(f, [][2]int64{{0, size}})
				b.StartTimer()
				var at atomic.Int64
				last := int64(min(len(places), b.N-done))
				var group sync.WaitGroup
				for id := range readers {
					group.Go(func() {
						buf := make([]byte, piece)
						name := fmt.Sprint(id % 4)
						for {
							i := at.Add(1) - 1
							if i >= last {
								return
							}
							off := int64(places[i]) * piece
							err := l.Do(context.Background(), name, piece, func() {
								_ = pagecache.Prefetch(f, off, piece)
							}, func() error {
								_, err := f.ReadAt(buf, off)
								return err
							})
							if err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				group.Wait()
			}
		})
	}
}
