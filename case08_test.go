package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

// onFullDisk is a store of 16 MiB segments on a disk of 64 MiB, which others fill.
type onFullDisk struct {
	t    *testing.T
	disk string // where it is mounted
	dir  string
	o    warmlog.Options
	s    *warmlog.Store
	pos  [2][]int64   // of the messages of each queue
	gone atomic.Int32 // segments that retention has deleted, here or in the background
}

const fullSegment = 16 << 20

// fullBody is that of all messages, which differ by their keys.
var fullBody = storetest.Body("orders", 0, 0, 20_000)

// expire is a limit above which all segments are that hold nothing new.
var expire = warmlog.Retention{MaxBytes: fullSegment / 4, Interval: time.Hour}

func newFullDisk(t *testing.T, d warmlog.Durability) *onFullDisk {
	needDisks(t)
	image := filepath.Join(t.TempDir(), "image")
	makeImage(t, image, 64)
	f := &onFullDisk{t: t, disk: mounted(t, image)}
	f.dir = filepath.Join(f.disk, "store")
	expired := func(warmlog.Expired) { f.gone.Add(1) }
	f.o = warmlog.Options{SegmentSize: fullSegment, QueueFileSize: 20 * 300, Durability: d, Expired: expired,
		Index: keyindex.Layout{Slots: 300, Entries: 1000}} // files of queues and index come all the time
	f.open()
	return f
}

func (f *onFullDisk) open() {
	f.t.Helper()
	s, err := warmlog.Open(f.dir, f.o)
	must(f.t, err)
	f.s = s
}

// append appends some messages to a queue, all or none.
func (f *onFullDisk) append(id int32) error {
	ms := make([]*message.Message, 8)
	for i := range ms {
		off := int64(len(f.pos[id]) + i)
		ms[i] = &message.Message{Topic: "orders", QueueID: id, Body: fullBody, Keys: fmt.Sprintf("%d/%d", id, off)}
	}
	rs, err := f.s.AppendAll(context.Background(), ms, warmlog.StoreDefault)
	for _, r := range rs {
		f.pos[id] = append(f.pos[id], r.PhysicalOffset)
	}
	return err
}

// fillTo appends up to a physical offset.
func (f *onFullDisk) fillTo(end int64) {
	f.t.Helper()
	for f.s.Stats().Written < end {
		must(f.t, f.append(0))
		must(f.t, f.append(1))
	}
	must(f.t, f.s.Dispatched(context.Background()))
}

// untilFull appends from two goroutines until each is refused three times: nothing else than
// a lack of space may be told.
func (f *onFullDisk) untilFull() {
	var group sync.WaitGroup
	for id := range int32(2) {
		group.Go(func() {
			for refused := 0; refused < 3; {
				err := f.append(id)
				if err == nil {
					continue
				}
				if !errors.Is(err, warmlog.ErrNoSpace) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), f.dir) {
					f.t.Errorf("on a full disk: %v", err)
					return
				}
				refused++
			}
		})
	}
	group.Wait()
	must(f.t, f.s.Dispatched(context.Background()))
}

// checkpoint may fail for lack of space, and for nothing else.
func (f *onFullDisk) checkpoint() {
	f.t.Helper()
	if err := f.s.Checkpoint(context.Background()); err != nil && !errors.Is(err, syscall.ENOSPC) {
		f.t.Errorf("checkpoint: %v", err)
	}
}

// retain sees that retention has deleted something by now.
func (f *onFullDisk) retain() {
	f.t.Helper()
	_, err := f.s.Retain(context.Background())
	if must(f.t, err); f.gone.Load() == 0 {
		f.t.Fatal("retention deleted nothing on a full disk")
	}
}

// goesOn appends when there is space again. Less than a segment may be left of it when queues
// and index have written what waited: retention then makes more.
func (f *onFullDisk) goesOn() {
	f.t.Helper()
	err := f.append(0)
	for n := 0; errors.Is(err, warmlog.ErrNoSpace) && n < 5; n++ {
		f.checkpoint()
		_, retained := f.s.Retain(context.Background())
		must(f.t, retained)
		err = f.append(0)
	}
	must(f.t, err)
	must(f.t, f.append(1))
}

// check reads everything that retention has left, by pulls, and a part by key; and sees that
// each segment has all its space.
func (f *onFullDisk) check(s *warmlog.Store) {
	f.t.Helper()
	ctx := context.Background()
	min, _ := s.Bounds()
	for id := range f.pos {
		low := int64(0)
		for low < int64(len(f.pos[id])) && f.pos[id][low] < min {
			low++
		}
		f.pull(s, int32(id), low)
		for off := low; off < int64(len(f.pos[id])); off += 301 {
			found, err := s.FindByKey(ctx, warmlog.KeyQuery{Topic: "orders", Key: fmt.Sprintf("%d/%d", id, off)})
			if err != nil || len(found.Offsets) != 1 || found.Offsets[0] != f.pos[id][off] {
				f.t.Errorf("key %d/%d: %+v, %v, want %d", id, off, found, err, f.pos[id][off])
			}
		}
	}
	f.reserved()
}

// pull reads a queue from an offset on, to the end.
func (f *onFullDisk) pull(s *warmlog.Store, id int32, at int64) {
	f.t.Helper()
	var b getmessage.Batch
	defer b.Release()
	for at < int64(len(f.pos[id])) {
		must(f.t, s.Get(context.Background(), &getmessage.Request{Topic: "orders", QueueID: id, Offset: at}, &b))
		if b.Status != getmessage.Found || len(b.Damaged) > 0 {
			f.t.Fatalf("queue %d at %d: %v, damaged %v", id, at, b.Status, b.Damaged)
		}
		for _, v := range b.Records() {
			if err := v.Check(); err != nil || v.QueueOffset() != at || v.PhysicalOffset() != f.pos[id][at] {
				f.t.Fatalf("queue %d at %d: message %d at %d: %v", id, at, v.QueueOffset(), v.PhysicalOffset(), err)
			}
			at++
		}
	}
}

// reserved sees that no segment has its name before the disk has space for all of it.
func (f *onFullDisk) reserved() {
	f.t.Helper()
	segments, err := filepath.Glob(filepath.Join(f.dir, "commitlog", "*"))
	must(f.t, err)
	for _, path := range segments {
		var st syscall.Stat_t
		must(f.t, syscall.Stat(path, &st))
		if st.Size != fullSegment || st.Blocks*512 < fullSegment {
			f.t.Errorf("%s: %d bytes, of which %d have space", path, st.Size, st.Blocks*512)
		}
	}
}

var durabilities = map[string]warmlog.Durability{"written": warmlog.Written, "flushed": warmlog.Flushed}

// Others fill the disk while a store is written. Nothing dies: appends are refused for lack of
// space, reads and retention work, and appends go on when there is space again, without a
// restart.
func TestCase08TheDiskFillsUp(t *testing.T) {
	each(t, durabilities, func(t *testing.T, d warmlog.Durability) {
		f := newFullDisk(t, d)
		ctx := context.Background()
		must(t, f.s.Close())
		f.o.Retention = expire
		f.open()
		defer func() { _ = f.s.Close() }()
		f.fillTo(fullSegment + fullSegment/2)
		must(t, f.s.Checkpoint(ctx))
		var group sync.WaitGroup
		group.Go(f.untilFull)
		filler := fill(t, f.disk)
		group.Wait()
		f.check(f.s)
		f.checkpoint()
		f.retain()
		must(t, os.Remove(filler))
		f.goesOn()
		must(t, f.s.Dispatched(ctx))
		must(t, f.s.Checkpoint(ctx)) // what could not be written before, too: a new segment leaves the space
		must(t, f.s.Health())
		sound(t, f.s)
		must(t, f.s.Close())
		f.o.Retention = warmlog.Retention{}
		f.open()
		f.check(f.s)
	})
}

// The disk fills up when the next segment has been made and nothing was written to it: all of
// its space is there. The one behind it has no name.
func TestCase08BetweenCreationAndFirstWrite(t *testing.T) {
	each(t, durabilities, func(t *testing.T, d warmlog.Durability) {
		f := newFullDisk(t, d)
		defer func() { _ = f.s.Close() }()
		f.fillTo(fullSegment * 3 / 4)
		for made := []string(nil); len(made) == 0; {
			must(t, f.append(0))
			var err error
			made, err = filepath.Glob(filepath.Join(layout.Store(f.dir).Temp(), layout.FileName(fullSegment)+"*"))
			must(t, err)
			if f.s.Stats().Written > fullSegment {
				made = []string{"in use already"}
			}
		}
		fill(t, f.disk)
		f.untilFull()
		if st := f.s.Stats(); st.Written < 2*fullSegment-200_000 || st.Written >= 2*fullSegment {
			t.Errorf("written up to %d, want all of the second segment", st.Written)
		}
		f.check(f.s)
	})
}

// A store is closed, or dies, while the disk is full. It can be opened, for reading and for
// writing; retention makes room, and appends go on.
func TestCase08OpenedWhileFull(t *testing.T) {
	each(t, durabilities, func(t *testing.T, d warmlog.Durability) {
		for _, orderly := range []bool{true, false} {
			t.Run(fmt.Sprintf("orderly %v", orderly), func(t *testing.T) {
				f := newFullDisk(t, d)
				f.fillTo(fullSegment + fullSegment/2)
				must(t, f.s.Checkpoint(context.Background()))
				fill(t, f.disk)
				f.untilFull()
				if err := f.s.Close(); err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("close: %v", err)
				}
				if !orderly {
					must(t, layout.CreateAbort(layout.Store(f.dir).Abort()))
				}
				must(t, os.Rename(filepath.Join(f.disk, "filler"), filepath.Join(f.disk, "filler2")))
				fill(t, f.disk) // what closing has given up
				reader, err := warmlog.Open(f.dir, warmlog.Options{ReadOnly: true})
				must(t, err)
				f.check(reader)
				must(t, reader.Close())
				f.open()
				f.untilFull()
				f.reserved()
				if err := f.s.Close(); err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("close: %v", err)
				}
				f.o.Retention = expire
				f.open()
				defer func() { _ = f.s.Close() }()
				f.retain()
				f.check(f.s)
				must(t, os.Remove(filepath.Join(f.disk, "filler")))
				must(t, os.Remove(filepath.Join(f.disk, "filler2")))
				f.goesOn()
				must(t, f.s.Dispatched(context.Background()))
				f.check(f.s)
			})
		}
	})
}
