package warmlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/storetest"
)

// history is a log of three queues over several segments, as a slave can get it.
type history struct {
	raw  []byte  // all of it
	ends []int64 // behind each record
	dir  string  // of a store with all of it
}

func newHistory(t testing.TB, n int64, salt int) *history {
	t.Helper()
	h := &history{dir: t.TempDir()}
	s := create(t, h.dir, replicaOptions(warmlog.Written, getmessage.Master))
	defer s.Close()
	for i := range n {
		m := storetest.Message("orders", int32(i%3), i/3, 100+(int(i)*97+salt)%900)
		m.Keys = fmt.Sprintf("k%d", i)
		r, err := s.Append(context.Background(), m)
		must(t, err)
		h.ends = append(h.ends, r.PhysicalOffset+int64(r.Size))
	}
	_, end := s.Bounds()
	h.raw = make([]byte, end)
	for at := 0; at < len(h.raw); {
		n, err := s.ReadRaw(int64(at), h.raw[at:])
		must(t, err)
		at += n
	}
	return h
}

// slave makes a store with the history up to a physical offset.
func (h *history) slave(t testing.TB, dir string, d warmlog.Durability, to int64) *warmlog.Store {
	t.Helper()
	s := create(t, dir, replicaOptions(d, getmessage.Slave))
	must(t, s.AppendRaw(context.Background(), 0, h.raw[:to]))
	return s
}

// is checks that a store has the history up to a physical offset and no more.
func (h *history) is(t testing.TB, s *warmlog.Store, to int64) {
	t.Helper()
	want := h.slave(t, t.TempDir(), warmlog.Written, to)
	defer want.Close()
	sameQueues(t, want, s)
	if min, max := s.Bounds(); min != 0 || max != to {
		t.Errorf("log %d to %d, want to %d", min, max, to)
	}
	for i := range h.ends {
		found, err := s.FindByKey(context.Background(), warmlog.KeyQuery{Topic: "orders", Key: fmt.Sprintf("k%d", i)})
		must(t, err)
		if there := len(found.Offsets) > 0; there != (h.ends[i] <= to) {
			t.Errorf("key of record %d, which ends at %d: found %v; the log ends at %d", i, h.ends[i], there, to)
		}
	}
}

// A log can be cut where any record or blank ends: what is left is what a store would have that
// never had more.
func TestTruncate(t *testing.T) {
	ctx := context.Background()
	h := newHistory(t, 90, 0)
	cuts := []int64{0, replicaSegment, 2 * replicaSegment}
	for i := 0; i < len(h.ends); i += 17 {
		cuts = append(cuts, h.ends[i])
	}
	for _, d := range []warmlog.Durability{warmlog.Written, warmlog.Flushed} {
		for i, cut := range cuts {
			t.Run(fmt.Sprintf("durability %d at %d", d, cut), func(t *testing.T) {
				dir := t.TempDir()
				s := h.slave(t, dir, d, int64(len(h.raw)))
				defer func() { must(t, s.Close()) }()
				must(t, s.Dispatched(ctx))
				if i%2 == 0 {
					must(t, s.Checkpoint(ctx))
				}
				var held getmessage.Batch
				defer held.Release()
				must(t, s.Get(ctx, &getmessage.Request{Topic: "orders", QueueID: 1, Offset: 29, MaxMessages: 1}, &held))
				body := bytes.Clone(held.Records()[0].Body())
				must(t, s.Truncate(ctx, cut))
				if !bytes.Equal(body, held.Records()[0].Body()) {
					t.Error("a slice that was held has changed")
				}
				h.is(t, s, cut)
				sound(t, s)
				if st := s.Stats(); st.Written != cut || st.OnDisk.Durable != cut || st.Dispatched != cut {
					t.Errorf("%+v", st)
				}
				aside, err := filepath.Glob(filepath.Join(dir, "warmlog", "aside", "*"))
				must(t, err)
				var kept int64
				for _, name := range aside {
					st, err := os.Stat(name)
					must(t, err)
					kept += st.Size()
				}
				if kept < int64(len(h.raw))-cut-2*replicaSegment/10 {
					t.Errorf("%d bytes set aside, %d cut off", kept, int64(len(h.raw))-cut)
				}
				if _, err := s.WaitRaw(ctx, int64(len(h.raw))); !errors.Is(err, warmlog.ErrBeyond) && cut < int64(len(h.raw)) {
					t.Error("who follows is not told:", err)
				}
				// It goes on: with the same once more, and then as a master.
				must(t, s.AppendRaw(ctx, cut, h.raw[cut:]))
				h.is(t, s, int64(len(h.raw)))
				must(t, s.Truncate(ctx, cut))
				must(t, s.SetRole(ctx, getmessage.Master))
				low := int64(0)
				for _, end := range h.ends {
					if end <= cut {
						low++
					}
				}
				for id := range int32(3) {
					r, err := s.Append(ctx, storetest.Message("orders", id, (low+2-int64(id))/3, 50))
					must(t, err)
					if want := (low + 2 - int64(id)) / 3; r.QueueOffset != want {
						t.Errorf("queue %d goes on with %d, want %d", id, r.QueueOffset, want)
					}
				}
				must(t, s.Close())
				if _, damage := verify(t, dir); len(damage) > 0 {
					t.Error(damage)
				}
				s = create(t, dir, replicaOptions(d, getmessage.Slave))
				for id := range int32(3) {
					wholeQueue(t, s, "orders", id, (low+2-int64(id))/3+1)
				}
				sound(t, s)
			})
		}
	}
}

func TestTruncateRefuses(t *testing.T) {
	ctx := context.Background()
	h := newHistory(t, 60, 3)
	dir := t.TempDir()
	s := h.slave(t, dir, warmlog.Written, int64(len(h.raw)))
	must(t, s.Dispatched(ctx))
	for off, want := range map[int64]error{
		-1:                       warmlog.ErrGone,
		1:                        warmlog.ErrNoBoundary,
		h.ends[0] - 1:            warmlog.ErrNoBoundary,
		h.ends[0] + 1:            warmlog.ErrNoBoundary,
		replicaSegment - 1:       warmlog.ErrNoBoundary, // within the blank
		int64(len(h.raw)) - 1:    warmlog.ErrNoBoundary,
		int64(len(h.raw)) + 1:    warmlog.ErrBeyond,
		int64(len(h.raw)) + 1000: warmlog.ErrBeyond,
		int64(len(h.raw)):        nil,
	} {
		if err := s.Truncate(ctx, off); !errors.Is(err, want) {
			t.Errorf("at %d: %v, want %v", off, err, want)
		}
	}
	must(t, s.SetRole(ctx, getmessage.Master))
	if err := s.Truncate(ctx, h.ends[3]); !errors.Is(err, warmlog.ErrRole) {
		t.Error("a master cuts:", err)
	}
	must(t, s.SetRole(ctx, getmessage.Slave))
	h.is(t, s, int64(len(h.raw)))
	must(t, s.Close())
	if err := s.Truncate(ctx, h.ends[3]); !errors.Is(err, warmlog.ErrClosed) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "warmlog", "aside")); !os.IsNotExist(err) {
		t.Error("something was set aside:", err)
	}
}

// A process that dies while it cuts leaves a note where: whatever it had done, the next one
// does the rest.
func TestTruncateGoesOnAfterAKill(t *testing.T) {
	h := newHistory(t, 90, 5)
	cut := h.ends[35]
	whole := int64(len(h.raw))
	note := func(t *testing.T, dir string) {
		must(t, os.WriteFile(filepath.Join(dir, "warmlog", "cut"), layout.EncodeCut(cut), 0o644))
	}
	each(t, map[string]func(t *testing.T, dir string){
		"nothing done": note,
		"the last segment gone": func(t *testing.T, dir string) {
			note(t, dir)
			must(t, os.Remove(filepath.Join(dir, "commitlog", layout.FileName((whole-1)/replicaSegment*replicaSegment))))
		},
		"all cut but the queues": func(t *testing.T, dir string) {
			note(t, dir)
			for base := (whole - 1) / replicaSegment * replicaSegment; base > cut; base -= replicaSegment {
				must(t, os.Remove(filepath.Join(dir, "commitlog", layout.FileName(base))))
			}
			put(t, filepath.Join(dir, "commitlog", layout.FileName(cut-cut%replicaSegment)), cut%replicaSegment, make([]byte, replicaSegment-cut%replicaSegment))
		},
	}, func(t *testing.T, leave func(*testing.T, string)) {
		for _, stopped := range []bool{false, true} {
			for _, d := range []warmlog.Durability{warmlog.Written, warmlog.Flushed} {
				dir := t.TempDir()
				s := h.slave(t, dir, d, whole)
				must(t, s.Dispatched(context.Background()))
				must(t, s.Close())
				if !stopped {
					must(t, layout.CreateAbort(filepath.Join(dir, "abort")))
				}
				leave(t, dir)
				for range 2 { // the second time nothing is left to do
					s = create(t, dir, replicaOptions(d, getmessage.Slave))
					h.is(t, s, cut)
					sound(t, s)
					must(t, s.Close())
				}
				if _, err := os.Stat(filepath.Join(dir, "warmlog", "cut")); !os.IsNotExist(err) {
					t.Error("the note is still there:", err)
				}
				if _, damage := verify(t, dir); len(damage) > 0 {
					t.Error(damage)
				}
				s = create(t, dir, replicaOptions(d, getmessage.Slave))
				must(t, s.AppendRaw(context.Background(), cut, h.raw[cut:]))
				h.is(t, s, whole)
				must(t, s.Close())
			}
		}
	})
}

// A deletion that lies above the cut does not take what comes there later.
func TestTruncateBelowADeletion(t *testing.T) {
	ctx := context.Background()
	h := newHistory(t, 60, 7)
	dir := t.TempDir()
	s := h.slave(t, dir, warmlog.Written, h.ends[40])
	must(t, s.ApplyDeletions([]warmlog.Deletion{{Topic: "orders", QueueID: 1, Position: h.ends[40]}}))
	must(t, s.AppendRaw(ctx, h.ends[40], h.raw[h.ends[40]:h.ends[50]]))
	must(t, s.Dispatched(ctx))
	must(t, s.Truncate(ctx, h.ends[20]))
	if list := s.Deletions(); len(list) != 1 || list[0].Position != h.ends[20] {
		t.Errorf("deletions %+v", list)
	}
	must(t, s.AppendRaw(ctx, h.ends[20], h.raw[h.ends[20]:]))
	must(t, s.Dispatched(ctx))
	low, high, err := s.QueueBounds(ctx, "orders", 1)
	must(t, err)
	if low != 7 || high != 20 {
		t.Errorf("queue 1 has %d to %d", low, high)
	}
	wholeQueue(t, s, "orders", 0, 20)
	must(t, s.Close())
	if _, damage := verify(t, dir); len(damage) > 0 {
		t.Error(damage)
	}
}
