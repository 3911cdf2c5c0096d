package warmlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/commitlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/message"
)

const replicaSegment = 16 << 10

func replicaOptions(d warmlog.Durability, role getmessage.Role) warmlog.Options {
	return warmlog.Options{SegmentSize: replicaSegment, QueueFileSize: 20 * 100, Durability: d, Role: role}
}

// replicate appends to a slave what a master's log has up to a physical offset, as a stream
// would: it cuts where its buffer ends.
func replicate(t testing.TB, to, from *warmlog.Store, until int64) {
	t.Helper()
	off := max(to.Stats().Written, from.Stats().Min)
	buf := make([]byte, 0, 8<<10)
	for off+int64(len(buf)) < until {
		if _, err := from.WaitRaw(context.Background(), off+int64(len(buf))); err != nil {
			t.Fatal(err)
		}
		n, err := from.ReadRaw(off+int64(len(buf)), buf[len(buf):min(cap(buf), len(buf)+1000, int(until-off))])
		must(t, err)
		buf = buf[:len(buf)+n]
		whole := commitlog.WholeRaw(off, buf, replicaSegment)
		must(t, to.AppendRaw(context.Background(), off, buf[:whole]))
		off += int64(whole)
		buf = append(buf[:0], buf[whole:]...)
	}
}

// sameLogs compares the files of two logs from a physical offset on, up to an end.
func sameLogs(t testing.TB, a, b string, from, end int64) {
	t.Helper()
	for base := from - from%replicaSegment; base < end; base += replicaSegment {
		n := int(min(replicaSegment, end-base))
		name := filepath.Join("commitlog", fmt.Sprintf("%020d", base))
		if x, y := bytesOf(t, filepath.Join(a, name), 0, n), bytesOf(t, filepath.Join(b, name), 0, n); !bytes.Equal(x, y) {
			t.Errorf("%s differs", name)
		}
	}
}

// sameQueues compares all messages of two stores.
func sameQueues(t testing.TB, a, b *warmlog.Store) {
	t.Helper()
	must(t, a.Dispatched(context.Background()))
	must(t, b.Dispatched(context.Background()))
	qa, qb := begun(t, a), begun(t, b)
	if !slices.Equal(qa, qb) {
		t.Errorf("queues %v and %v", qa, qb)
		return
	}
	for _, q := range qa {
		x, y := drain(t, a, q.Topic, q.ID, 0), drain(t, b, q.Topic, q.ID, 0)
		if !slices.Equal(x.offsets, y.offsets) || len(x.damaged)+len(y.damaged) > 0 {
			t.Errorf("%v: offsets %s and %s, damaged %v %v", q, short(x.offsets), short(y.offsets), x.damaged, y.damaged)
		}
	}
}

// begun returns the queues that had a message.
func begun(t testing.TB, s *warmlog.Store) []consumequeue.Named {
	return slices.DeleteFunc(s.Queues(), func(q consumequeue.Named) bool {
		_, max, err := s.QueueBounds(context.Background(), q.Topic, q.ID)
		must(t, err)
		return max == 0
	})
}

// A slave that gets its master's bytes while producers append has the same log, queues and
// answers; promoted, it numbers on.
func TestReplicaFollows(t *testing.T) {
	for _, d := range []warmlog.Durability{warmlog.Written, warmlog.Flushed} {
		t.Run(fmt.Sprintf("durability %d", d), func(t *testing.T) {
			ctx := context.Background()
			dirs := [2]string{t.TempDir(), t.TempDir()}
			master := create(t, dirs[0], replicaOptions(warmlog.Written, getmessage.Master))
			slave := create(t, dirs[1], replicaOptions(d, getmessage.Slave))
			var group sync.WaitGroup
			const each = 120
			for id := range int32(3) {
				group.Go(func() {
					for off := range int64(each) {
						if _, err := master.Append(ctx, storetest.Message("orders", id, off, int(off*31)%900)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			replicate(t, slave, master, 100<<10)
			group.Wait()
			_, end := master.Bounds()
			replicate(t, slave, master, end)
			sameQueues(t, master, slave)
			sameLogs(t, dirs[0], dirs[1], 0, end)
			if _, err := slave.Append(ctx, storetest.Message("orders", 0, each, 10)); !errors.Is(err, warmlog.ErrRole) {
				t.Error("a slave takes messages:", err)
			}
			must(t, master.Close())
			must(t, slave.SetRole(ctx, getmessage.Master))
			for id := range int32(3) {
				r, err := slave.Append(ctx, storetest.Message("orders", id, each, 10))
				must(t, err)
				if r.QueueOffset != each {
					t.Errorf("queue %d goes on with %d", id, r.QueueOffset)
				}
			}
			// Once more around: numbered, then a slave, then a master again.
			must(t, slave.SetRole(ctx, getmessage.Slave))
			_, end = slave.Bounds()
			v := storetest.Message("orders", 1, each+1, 44)
			raw := message.AppendRecord(nil, v, v.BornHost, false)
			message.Stamp(raw, each+1, end, 1<<50, false)
			must(t, slave.AppendRaw(ctx, end, raw))
			must(t, slave.SetRole(ctx, getmessage.Master))
			r, err := slave.Append(ctx, storetest.Message("orders", 1, each+2, 10))
			must(t, err)
			if r.QueueOffset != each+2 || r.StoreTimestamp < 1<<50 {
				t.Errorf("numbered %d, stored at %d", r.QueueOffset, r.StoreTimestamp)
			}
			must(t, slave.Close())
			if _, damage := verify(t, dirs[1]); len(damage) > 0 {
				t.Error(damage)
			}
			again := open(t, dirs[1], warmlog.Options{ReadOnly: true})
			defer again.Close()
			wholeQueue(t, again, "orders", 0, each+1)
			wholeQueue(t, again, "orders", 1, each+3)
		})
	}
}

// A slave's log begins where its master's bytes do.
func TestReplicaBeginsLater(t *testing.T) {
	ctx := context.Background()
	dirs := [2]string{t.TempDir(), t.TempDir()}
	master := create(t, dirs[0], replicaOptions(warmlog.Written, getmessage.Master))
	defer master.Close()
	for off := range int64(100) {
		_, err := master.Append(ctx, storetest.Message("orders", 0, off, 500))
		must(t, err)
	}
	_, end := master.Bounds()
	slave := create(t, dirs[1], replicaOptions(warmlog.Written, getmessage.Slave))
	buf := make([]byte, replicaSegment)
	n, err := master.ReadRaw(2*replicaSegment, buf)
	must(t, err)
	if err := slave.AppendRaw(ctx, 2*replicaSegment+64, buf[:n]); !errors.Is(err, warmlog.ErrDamaged) {
		t.Error("it began within a segment:", err)
	}
	must(t, slave.AppendRaw(ctx, 2*replicaSegment, buf[:n]))
	replicate(t, slave, master, end)
	must(t, slave.Dispatched(ctx))
	low, high, err := slave.QueueBounds(ctx, "orders", 0)
	must(t, err)
	if got := drain(t, slave, "orders", 0, low); low == 0 || high != 100 || int64(len(got.offsets)) != high-low || len(got.damaged) > 0 {
		t.Errorf("messages %d to %d: %d; damaged %v", low, high, len(got.offsets), got.damaged)
	}
	if min, max := slave.Bounds(); min != 2*replicaSegment || max != end {
		t.Errorf("log %d to %d", min, max)
	}
	must(t, slave.Close())
	sameLogs(t, dirs[0], dirs[1], 2*replicaSegment, end)
	if _, damage := verify(t, dirs[1]); len(damage) > 0 {
		t.Error(damage)
	}
	slave = create(t, dirs[1], replicaOptions(warmlog.Written, getmessage.Slave))
	defer slave.Close()
	wholeFromOffset(t, slave, "orders", 0, low, high)
}

func wholeFromOffset(t testing.TB, s *warmlog.Store, topic string, id int32, low, high int64) {
	t.Helper()
	got := drain(t, s, topic, id, low)
	if int64(len(got.offsets)) != high-low || len(got.damaged) > 0 {
		t.Errorf("%d messages from %d to %d; damaged %v", len(got.offsets), low, high, got.damaged)
	}
}

// What does not continue the log, or is not sound, is refused as a whole and changes nothing.
func TestReplicaRefuses(t *testing.T) {
	ctx := context.Background()
	masterDir := t.TempDir()
	master := create(t, masterDir, replicaOptions(warmlog.Written, getmessage.Master))
	defer master.Close()
	var ends []int64
	for off := range int64(60) {
		r, err := master.Append(ctx, storetest.Message("orders", 0, off, 700))
		must(t, err)
		ends = append(ends, r.PhysicalOffset+int64(r.Size))
	}
	all := make([]byte, 2*replicaSegment)
	for n := 0; n < len(all); {
		read, err := master.ReadRaw(int64(n), all[n:])
		must(t, err)
		n += read
	}
	from := ends[4]                                                                           // the slave ends here
	blank := ends[slices.IndexFunc(ends, func(e int64) bool { return e > replicaSegment })-1] // here the first blank begins
	with := func(change func(b []byte)) []byte {
		b := bytes.Clone(all[from:ends[8]])
		change(b)
		return b
	}
	record := int(ends[5] - ends[4])
	none := error(nil)
	rows := map[string]struct {
		off   int64
		bytes []byte
		want  error
	}{
		"a gap":                        {ends[5], all[ends[5]:ends[8]], warmlog.ErrDiscontinuous},
		"an overlap":                   {ends[3], all[ends[3]:ends[8]], warmlog.ErrDiscontinuous},
		"another place":                {from, all[ends[5]:ends[8]], message.ErrMisplaced},
		"the last record is short":     {from, all[from : ends[8]-1], message.ErrTruncated},
		"seven bytes":                  {from, all[from : from+7], message.ErrTruncated},
		"a body's byte":                {from, with(func(b []byte) { b[2*record+300]++ }), message.ErrBodyCRC},
		"a magic":                      {from, with(func(b []byte) { b[record+4]++ }), message.ErrMagic},
		"a size":                       {from, with(func(b []byte) { copy(b[record:], []byte{0x7f, 0xff, 0xff, 0xff}) }), message.ErrSize},
		"no size":                      {from, with(func(b []byte) { copy(b[record:], []byte{0, 0, 0, 0}) }), message.ErrSize},
		"a blank in the middle":        {from, with(func(b []byte) { message.PutBlank(b[record:], 100) }), commitlog.ErrBlank},
		"a blank that is cut":          {from, all[from : blank+8], message.ErrTruncated},
		"a negative offset":            {-1, all[:ends[0]], warmlog.ErrDiscontinuous},
		"the last offset":              {math.MaxInt64, all[:ends[0]], warmlog.ErrDiscontinuous},
		"zeros":                        {from, make([]byte, 500), message.ErrMagic},
		"nothing":                      {from, nil, none},
		"nothing at another place":     {ends[8], nil, warmlog.ErrDiscontinuous},
		"a record that leaves no room": {from, with(func(b []byte) { copy(b, []byte{0, 0, 0x40, 0}) }), message.ErrSize},
	}
	for _, d := range []warmlog.Durability{warmlog.Written, warmlog.Flushed} {
		dir := t.TempDir()
		slave := create(t, dir, replicaOptions(d, getmessage.Slave))
		must(t, slave.AppendRaw(ctx, 0, all[:from]))
		for name, row := range rows {
			if err := slave.AppendRaw(ctx, row.off, row.bytes); !errors.Is(err, row.want) {
				t.Errorf("%s: %v, want %v", name, err, row.want)
			}
			if st := slave.Stats(); st.Written != from || st.Visible != from {
				t.Fatalf("%s: the log ends at %d, visible up to %d; before at %d", name, st.Written, st.Visible, from)
			}
		}
		if tail := bytesOf(t, filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", 0)), from, 4096); len(bytes.Trim(tail, "\x00")) > 0 {
			t.Error("something of it was written")
		}
		must(t, slave.AppendRaw(ctx, from, all[from:]))
		sameLogs(t, masterDir, dir, 0, int64(len(all)))
		must(t, slave.Close())
		for name, err := range map[string]error{
			"closed":   slave.AppendRaw(ctx, int64(len(all)), nil),
			"a master": master.AppendRaw(ctx, 0, all[:from]),
		} {
			if !errors.Is(err, warmlog.ErrClosed) && !errors.Is(err, warmlog.ErrRole) {
				t.Error(name, err)
			}
		}
		if _, damage := verify(t, dir); len(damage) > 0 {
			t.Error(damage)
		}
	}
	if _, err := os.Stat(filepath.Join(masterDir, "warmlog", "cut")); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// Consumers see whole records below the limit, and not one above it, on a master and on a
// slave.
func TestVisibleLimit(t *testing.T) {
	ctx := context.Background()
	for _, d := range []warmlog.Durability{warmlog.Written, warmlog.Flushed} {
		t.Run(fmt.Sprintf("durability %d", d), func(t *testing.T) {
			var mu sync.Mutex
			told := int64(0)
			o := replicaOptions(d, getmessage.Master)
			o.Visible = func(_ string, _ int32, end int64) {
				mu.Lock()
				defer mu.Unlock()
				told = end
			}
			s := create(t, t.TempDir(), o)
			defer s.Close()
			must(t, s.SetVisibleLimit(0))
			var ends []int64
			for off := range int64(40) {
				r, err := s.Append(ctx, storetest.Message("orders", 0, off, 700))
				must(t, err)
				ends = append(ends, r.PhysicalOffset+int64(r.Size))
			}
			last := ends[len(ends)-1]
			for _, limit := range []int64{-5, 0, 1, ends[0] - 1, ends[0], ends[0] + 1, ends[2], ends[1], replicaSegment - 1, replicaSegment, replicaSegment + 1, ends[30] + 9, last - 1, last, math.MaxInt64} {
				must(t, s.SetVisibleLimit(limit))
				must(t, s.Dispatched(ctx))
				whole := int64(0)
				for whole < 40 && ends[whole] <= max(limit, s.Stats().Visible) {
					whole++
				}
				if whole > 0 && ends[whole-1] > limit && limit > ends[2] {
					t.Fatal("the test itself is wrong")
				}
				seen := drain(t, s, "orders", 0, 0)
				if int64(len(seen.offsets)) != whole {
					t.Errorf("limit %d: %d messages, want %d", limit, len(seen.offsets), whole)
				}
				mu.Lock()
				if told != whole {
					t.Errorf("limit %d: told of %d messages, want %d", limit, told, whole)
				}
				mu.Unlock()
				n := int64(0)
				for v, err := range s.Records(ctx, 0) {
					must(t, err)
					n++
					if end := v.PhysicalOffset() + int64(v.Size()); end > max(limit, ends[2]) {
						t.Errorf("limit %d: a record up to %d", limit, end)
					}
				}
				if n != whole {
					t.Errorf("limit %d: %d records, want %d", limit, n, whole)
				}
				if _, _, err := s.Record(ends[min(whole, 38)], nil); limit < last && !errors.Is(err, warmlog.ErrBeyond) {
					t.Errorf("limit %d: the next record: %v", limit, err)
				}
			}
			if st := s.Stats(); st.Visible != last || st.Written != last {
				t.Errorf("%+v", st)
			}
		})
	}
}

// Who follows a log is woken by each append, and by its end.
func TestWaitRaw(t *testing.T) {
	ctx := context.Background()
	s := create(t, t.TempDir(), replicaOptions(warmlog.Flushed, getmessage.Master))
	ended := make(chan error)
	go func() {
		buf := make([]byte, 4096)
		for off := int64(0); ; {
			end, err := s.WaitRaw(ctx, off)
			if err != nil {
				ended <- err
				return
			}
			n, err := s.ReadRaw(off, buf)
			if n == 0 || err != nil || off+int64(n) > end && s.Stats().Written < off+int64(n) {
				t.Errorf("at %d of %d: %d bytes, %v", off, end, n, err)
			}
			off += int64(n)
		}
	}()
	for off := range int64(50) {
		_, err := s.Append(ctx, storetest.Message("orders", 0, off, 700))
		must(t, err)
	}
	_, end := s.Bounds()
	if n, err := s.ReadRaw(end, make([]byte, 10)); n != 0 || err != nil {
		t.Error("at the end:", n, err)
	}
	if _, err := s.ReadRaw(end+1, make([]byte, 10)); !errors.Is(err, warmlog.ErrBeyond) {
		t.Error("behind the end:", err)
	}
	if _, err := s.ReadRaw(-1, make([]byte, 10)); !errors.Is(err, warmlog.ErrGone) {
		t.Error("before the beginning:", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.WaitRaw(gone, end); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	must(t, s.Close())
	if err := <-ended; !errors.Is(err, warmlog.ErrClosed) {
		t.Error(err)
	}
}

// A slave clears the queues that its master deleted, at their place in the log.
func TestReplicaDeletes(t *testing.T) {
	ctx := context.Background()
	dirs := [2]string{t.TempDir(), t.TempDir()}
	master := create(t, dirs[0], replicaOptions(warmlog.Written, getmessage.Master))
	slave := create(t, dirs[1], replicaOptions(warmlog.Written, getmessage.Slave))
	appendTo := func(id int32, from, n int64) {
		for off := from; off < from+n; off++ {
			_, err := master.Append(ctx, storetest.Message("orders", id, off, 300))
			must(t, err)
		}
	}
	appendTo(0, 0, 20)
	appendTo(1, 0, 30)
	_, end := master.Bounds()
	must(t, master.DeleteTopic(ctx, "orders"))
	appendTo(1, 0, 5)
	if err := slave.ApplyDeletions(master.Deletions()); !errors.Is(err, warmlog.ErrDiscontinuous) {
		t.Error("deleted before it has the messages:", err)
	}
	replicate(t, slave, master, end)
	must(t, slave.ApplyDeletions(master.Deletions()))
	_, end = master.Bounds()
	replicate(t, slave, master, end)
	must(t, slave.Dispatched(ctx))
	sameQueues(t, master, slave)
	wholeQueue(t, slave, "orders", 0, 0)
	wholeQueue(t, slave, "orders", 1, 5)
	if err := slave.DeleteTopic(ctx, "orders"); !errors.Is(err, warmlog.ErrRole) {
		t.Error("a slave deletes:", err)
	}
	if err := master.ApplyDeletions(nil); !errors.Is(err, warmlog.ErrRole) {
		t.Error("a master is told to delete:", err)
	}
	must(t, slave.Close())
	must(t, master.Close())
	// All queues made again: what was deleted stays so.
	must(t, os.RemoveAll(filepath.Join(dirs[1], "consumequeue")))
	slave = create(t, dirs[1], replicaOptions(warmlog.Written, getmessage.Slave))
	defer slave.Close()
	wholeQueue(t, slave, "orders", 1, 5)
}
