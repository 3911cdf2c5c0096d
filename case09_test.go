package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

const (
	behindSegment = 8 << 10
	behindQueues  = 3
	behindTopic   = "orders"
)

// behind is a store whose dispatch stands still from some message on: who is told of messages
// does not return.
type behind struct {
	t          *testing.T
	dir        string
	s          *warmlog.Store
	places     [behindQueues][]warmlog.Appended
	dispatched int64 // physical offset up to which queues and index are on the disk

	hold  atomic.Bool
	held  chan struct{} // closed when dispatch stands still
	loose chan struct{} // closed to let it go on
}

func (b *behind) options(d warmlog.Durability) warmlog.Options {
	return warmlog.Options{SegmentSize: behindSegment, QueueFileSize: 20 * 50, Index: keyindex.Layout{Slots: 20, Entries: 60}, Durability: d}
}

func newBehind(t *testing.T, d warmlog.Durability) *behind {
	b := &behind{t: t, dir: t.TempDir(), held: make(chan struct{}), loose: make(chan struct{})}
	o := b.options(d)
	stand := sync.OnceFunc(func() { close(b.held); <-b.loose })
	o.Visible = func(string, int32, int64) {
		if b.hold.Load() {
			stand()
		}
	}
	var err error
	b.s, err = warmlog.Open(b.dir, o)
	must(t, err)
	ctx := context.Background()
	b.append(b.s, 3*behindSegment/2)
	must(t, b.s.Dispatched(ctx))
	must(t, b.s.Checkpoint(ctx))
	state, err := layout.ReadState(layout.Store(b.dir).State())
	must(t, err)
	b.dispatched = state.Dispatched
	b.hold.Store(true)
	b.append(b.s, 5*behindSegment)
	<-b.held
	b.append(b.s, 7*behindSegment-behindSegment/2) // none of these is seen
	if st := b.s.Stats(); st.Dispatched > 6*behindSegment || st.OnDisk.Checkpointed != b.dispatched || b.dispatched == 0 {
		t.Fatalf("dispatch does not stand still: %+v", st)
	}
	return b
}

// append appends to all queues in turn until the log has come to a physical offset.
func (b *behind) append(s *warmlog.Store, end int64) {
	for n := 0; s.Stats().Written < end; n++ {
		id := int32(n) % behindQueues
		off := int64(len(b.places[id]))
		m := storetest.Message(behindTopic, id, off, 60+n%200)
		m.Keys = behindKey(id, off)
		r, err := s.Append(context.Background(), m)
		must(b.t, err)
		if r.QueueOffset != off {
			b.t.Fatalf("queue %d: appended at %d, want %d", id, r.QueueOffset, off)
		}
		b.places[id] = append(b.places[id], r)
	}
}

func behindKey(id int32, off int64) string { return fmt.Sprintf("key%d-%d", id, off) }

// filed sees that the files of a store have the queue entries and the keys of all records below
// the dispatched position.
func (b *behind) filed(dir string) {
	b.t.Helper()
	paths := layout.Store(dir)
	store := open(b.t, dir, warmlog.Options{})
	index, err := keyindex.Open(paths.Index(), keyindex.Options{})
	must(b.t, err)
	for id, places := range b.places {
		for off, r := range places {
			if r.PhysicalOffset >= b.dispatched {
				continue
			}
			at := int64(off) * consumequeue.EntrySize
			file := consumequeue.Dir(paths.ConsumeQueue(), behindTopic, int32(id)) + "/" + layout.FileName(at-at%1000)
			e := consumequeue.Decode(bytesOf(b.t, file, at%1000, consumequeue.EntrySize))
			if e.Offset != r.PhysicalOffset || e.Size != r.Size {
				b.t.Errorf("queue %d at %d has the entry %+v, want %+v", id, off, e, r)
			}
			found, err := index.Find(context.Background(), keyindex.Query{Topic: behindTopic, Key: behindKey(int32(id), int64(off)), LogEnd: b.dispatched}, recordsOf{store})
			if err != nil || !slices.Equal(found.Offsets, []int64{r.PhysicalOffset}) {
				b.t.Errorf("the index has %d/%d at %v, want %d: %v", id, off, found.Offsets, r.PhysicalOffset, err)
			}
		}
	}
}

// recordsOf are a store's records for who has an index of its own.
type recordsOf struct{ *warmlog.Store }

func (r recordsOf) Record(off int64) (message.View, error) {
	for v, err := range r.Records(context.Background(), off) {
		if err != nil || v.PhysicalOffset() != off {
			return message.View{}, errors.Join(err, keyindex.ErrGone)
		}
		return *v, nil
	}
	return message.View{}, keyindex.ErrGone
}

// continued opens a store again and sees that every record has its queue entry and its key,
// that appends go on with the next offsets, and from where on the log was read.
func (b *behind) continued(dir string, d warmlog.Durability, from int64) {
	b.t.Helper()
	o := b.options(d)
	total := int64(0)
	o.Progress = func(p warmlog.Progress) {
		if p.Phase == "reading the log" && p.Done == 0 {
			total = p.Total
		}
	}
	s, err := warmlog.Open(dir, o)
	must(b.t, err)
	_, end := s.Bounds()
	if begin := (end+behindSegment-1)/behindSegment*behindSegment - total; from >= 0 && begin != from {
		b.t.Errorf("recovery reads from %d on, want %d", begin, from)
	}
	b.append(s, end+1000)
	for id, places := range b.places {
		wholeQueue(b.t, s, behindTopic, int32(id), int64(len(places)))
		for off, r := range places {
			found, err := s.FindByKey(context.Background(), warmlog.KeyQuery{Topic: behindTopic, Key: behindKey(int32(id), int64(off))})
			if err != nil || !slices.Equal(found.Offsets, []int64{r.PhysicalOffset}) {
				b.t.Errorf("key of %d/%d: %+v, want %d: %v", id, off, found, r.PhysicalOffset, err)
			}
		}
	}
	sound(b.t, s)
	must(b.t, s.Close())
	if _, damage := verify(b.t, dir); len(damage) > 0 {
		b.t.Error(damage)
	}
}

// Messages of several segments are in the log, and no queue has them, when the process dies:
// while it runs, or in the middle of closing. Recovery begins at the dispatched position, below
// which all is on the disk, and every record comes to its queue.
func TestCase09KilledWithDispatchBehind(t *testing.T) {
	each(t, durabilities, func(t *testing.T, d warmlog.Durability) {
		b := newBehind(t, d)
		killed := copied(t, b.dir)
		closed := make(chan error)
		go func() { closed <- b.s.Close() }()
		for err := error(nil); !errors.Is(err, warmlog.ErrClosed); {
			_, err = b.s.Append(context.Background(), &message.Message{}) // invalid before, refused then
		}
		closing := copied(t, b.dir)
		close(b.loose)
		must(t, <-closed)
		places := b.places
		for _, dir := range []string{killed, closing} {
			if _, err := os.Stat(layout.Store(dir).Abort()); err != nil {
				t.Errorf("the marker of an unclean end is not there: %v", err)
			}
			b.filed(dir)
			b.places = places // what is appended to one is not in the other
			b.continued(dir, d, b.dispatched)
		}
	})
}

// Close ends what dispatch has left: the next start has nothing to read.
func TestCase09ClosedWithDispatchBehind(t *testing.T) {
	each(t, durabilities, func(t *testing.T, d warmlog.Durability) {
		b := newBehind(t, d)
		closed := make(chan error)
		go func() { closed <- b.s.Close() }()
		close(b.loose)
		must(t, <-closed)
		if _, err := os.Stat(layout.Store(b.dir).Abort()); !os.IsNotExist(err) {
			t.Errorf("the marker of an unclean end is there: %v", err)
		}
		for _, places := range b.places {
			b.dispatched = max(b.dispatched, places[len(places)-1].PhysicalOffset+1)
		}
		b.filed(b.dir)
		b.continued(b.dir, d, -1)
	})
}

// Dispatch cannot go on, since a record cannot be read. Close says so and leaves the marker; when
// the record can be read again, the next start brings all to their queues.
func TestCase09DispatchHasFailed(t *testing.T) {
	each(t, durabilities, func(t *testing.T, d warmlog.Durability) {
		b := newBehind(t, d)
		last := b.places[0][len(b.places[0])-1].PhysicalOffset
		path := layout.Store(b.dir).CommitLog() + "/" + layout.FileName(last-last%behindSegment)
		kept := bytesOf(t, path, last%behindSegment, 40)
		put(t, path, last%behindSegment, make([]byte, 40))
		close(b.loose)
		for what, err := range map[string]error{
			"wait": b.s.Dispatched(context.Background()), "health": b.s.Health(), "close": b.s.Close(),
		} {
			if !names(err, path, last%behindSegment) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := os.Stat(layout.Store(b.dir).Abort()); err != nil {
			t.Errorf("the marker of an unclean end is not there: %v", err)
		}
		put(t, path, last%behindSegment, kept)
		b.continued(b.dir, d, b.dispatched)
	})
}
