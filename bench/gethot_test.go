package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/message"
)

const (
	gib     = 1 << 30
	hotLog  = gib
	hotSeg  = 256 << 20
	hotNumQ = 1
)

// puller makes pulls at offsets of an order.
type puller struct {
	store *warmlog.Store
	batch getmessage.Batch
	req   getmessage.Request
	next  func() (queue int, off int64)
	sum   uint64
	zero  uint64 // as floor.zero
}

func (p *puller) run(b testing.TB, n int) {
	ctx := context.Background()
	for range n {
		q, off := p.next()
		off += int64(p.sum & p.zero)
		p.req.QueueID, p.req.Offset = int32(q), off
		if err := p.store.Get(ctx, &p.req, &p.batch); err != nil {
			b.Fatal(err)
		}
		records := p.batch.Records()
		if len(records) != p.req.MaxMessages {
			b.Fatalf("%d records of %d at %d: %v", len(records), p.req.MaxMessages, off, p.batch.Status)
		}
		for i := range records {
			p.sum += binary.LittleEndian.Uint64(records[i].Raw())
		}
	}
	p.batch.Release()
}

// order returns a source of offsets such that a batch fits behind each.
func order(s *logStore, name string, batch int, seed uint64) func() (int, int64) {
	last := s.messages - int64(batch)
	if name == "random" {
		// The offsets are drawn beforehand: drawing costs as much as a lookup.
		rng := rand.New(rand.NewPCG(1, seed))
		offs := make([]int64, 1<<16)
		for i := range offs {
			// A batch ends where its queue file does.
			for offs[i] = rng.Int64N(last); offs[i]%300_000 > 300_000-int64(batch); {
				offs[i] = rng.Int64N(last)
			}
		}
		i := 0
		return func() (int, int64) {
			i++
			return i % s.queues, offs[i%len(offs)]
		}
	}
	off := int64(0)
	q := 0
	return func() (int, int64) {
		if off%300_000 > 300_000-int64(batch) {
			off += 300_000 - off%300_000
		}
		at := off
		if off += int64(batch); off > last {
			off, q = 0, (q+1)%s.queues
		}
		return q, at
	}
}

func request(batch int) getmessage.Request {
	return getmessage.Request{Group: "bench", Topic: topic, MaxMessages: batch}
}

// BenchmarkGetHot pulls from a log of 1 GiB that lies in the page cache.
func BenchmarkGetHot(b *testing.B) {
	s := build(b, hotLog, hotNumQ, hotSeg)
	store, f := s.open(b), s.floor(b, hotSeg)
	for _, batch := range []int{1, 8, 32} {
		for _, name := range []string{"random", "sequential"} {
			b.Run(fmt.Sprintf("batch=%d/order=%s", batch, name), func(b *testing.B) {
				p := &puller{store: store, req: request(batch), next: order(s, name, batch, 0)}
				next := order(s, name, batch, 1)
				b.ReportAllocs()
				alternate(b, batch, func(n int) { p.run(b, n) }, func(n int) {
					for range n {
						q, off := next()
						f.get(q, off, batch)
					}
				})
			})
		}
	}
}

// BenchmarkGetHotParallel pulls batches of 32 at random from as many goroutines as there
// are processors.
func BenchmarkGetHotParallel(b *testing.B) {
	const batch, workers = 32, 2
	s := build(b, hotLog, hotNumQ, hotSeg)
	store := s.open(b)
	var pullers [workers]*puller
	var floors [workers]*floor
	var nexts [workers]func() (int, int64)
	for i := range workers {
		pullers[i] = &puller{store: store, req: request(batch), next: order(s, "random", batch, uint64(i))}
		floors[i], nexts[i] = s.floor(b, hotSeg), order(s, "random", batch, uint64(9+i))
	}
	each := func(n int, do func(i, n int)) {
		var wg sync.WaitGroup
		for i := range workers {
			wg.Go(func() { do(i, n/workers+1) })
		}
		wg.Wait()
	}
	b.ReportAllocs()
	alternate(b, batch, func(n int) { each(n, func(i, n int) { pullers[i].run(b, n) }) }, func(n int) {
		each(n, func(i, n int) {
			for range n {
				q, off := nexts[i]()
				floors[i].get(q, off, batch)
			}
		})
	})
}

// BenchmarkDecode decodes the records of a log in physical order; the floor takes a slice
// of each and touches 8 bytes of it.
func BenchmarkDecode(b *testing.B) {
	s := build(b, hotLog, hotNumQ, hotSeg)
	f := s.floor(b, hotSeg)
	seg := f.segments[0]
	first, err := message.Decode(seg)
	check(b, err)
	size := int(first.Size())
	count := len(seg)/size - 1
	var sum uint64
	at, floorAt := 0, 0
	b.ReportAllocs()
	alternate(b, 1, func(n int) {
		for range n {
			v, err := message.Decode(seg[at*size:])
			if err != nil {
				b.Fatal(err)
			}
			sum += binary.LittleEndian.Uint64(v.Raw())
			at = (at + 1) % count
		}
	}, func(n int) {
		for range n {
			r := seg[floorAt*size:][:size:size]
			sum += binary.LittleEndian.Uint64(r)
			floorAt = (floorAt + 1) % count
		}
	})
}

// BenchmarkOpenReadOnly opens a store of many queues, a message in each; the floor lists
// and stats the tree.
func BenchmarkOpenReadOnly(b *testing.B) {
	for _, queues := range []int{1, 1000, 10000} {
		b.Run(fmt.Sprintf("queues=%d", queues), func(b *testing.B) {
			s := build(b, int64(queues)*1000, queues, 16<<20)
			b.ReportAllocs()
			alternate(b, 1, func(n int) {
				for range n {
					store, err := warmlog.Open(s.dir, warmlog.Options{ReadOnly: true})
					check(b, err)
					check(b, store.Close())
				}
			}, func(n int) {
				for range n {
					check(b, filepath.WalkDir(s.dir, func(path string, d os.DirEntry, err error) error {
						if err == nil {
							_, err = os.Stat(path)
						}
						return err
					}))
				}
			})
		})
	}
}
