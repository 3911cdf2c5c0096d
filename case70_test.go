package warmlog_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/storetest"
)

// Every figure is what the files say, before the first event, idle, after it moved and after it
// came back; what is not known is not there.

// direct are a store's figures, found without it.
type direct struct {
	min, end         int64 // of the log
	segments, queues int
	mapped           int // files of the store that are mapped to be read
}

func lookAt(t *testing.T, dir string) (d direct) {
	t.Helper()
	paths := layout.Store(dir)
	segments, err := filepath.Glob(filepath.Join(paths.CommitLog(), "*"))
	must(t, err)
	d.segments = len(segments)
	if d.segments > 0 {
		d.min, _ = layout.ParseFileName(base(segments[0]))
	}
	queues, err := filepath.Glob(filepath.Join(paths.ConsumeQueue(), "*", "*"))
	must(t, err)
	d.queues = len(queues)
	if b, err := os.ReadFile("/proc/self/maps"); err == nil {
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, dir) && strings.Contains(line, " r--s ") {
				d.mapped++
			}
		}
	}
	s, err := warmlog.Open(dir, warmlog.Options{ReadOnly: true, CheckBytes: -1})
	must(t, err)
	defer s.Close()
	for v, err := range s.Records(context.Background(), 0) {
		must(t, err)
		d.end = v.PhysicalOffset() + int64(v.Size())
	}
	return d
}

// agree compares the figures of a store at rest with its files.
func agree(t *testing.T, when, dir string, s *warmlog.Store) warmlog.Stats {
	t.Helper()
	st, want := s.Stats(), lookAt(t, dir)
	if st.Min != want.min || st.Written != want.end || st.Visible != want.end || st.Dispatched != want.end || st.Segments != want.segments || st.Queues != want.queues {
		t.Errorf("%s: %+v, the files say %+v", when, st, want)
	}
	if _, err := os.Stat("/proc/self/maps"); err == nil && st.OpenFiles != want.mapped {
		t.Errorf("%s: %d open files, %d are mapped", when, st.OpenFiles, want.mapped)
	}
	if st.OnDisk == nil {
		return st
	}
	state, err := layout.ReadState(layout.Store(dir).State())
	must(t, err)
	if st.OnDisk.Checkpointed != state.Dispatched || st.OnDisk.Durable < state.Durable || st.OnDisk.Durable > st.Written || st.OnDisk.Checkpointed > st.Dispatched || st.Min < 0 || st.OnDisk.Checkpointed < 0 {
		t.Errorf("%s: %+v, the state says %+v", when, *st.OnDisk, state)
	}
	return st
}

func TestCase70EachFigureIsWhatTheFilesSay(t *testing.T) {
	ctx := context.Background()
	each(t, map[string]warmlog.Durability{"written": warmlog.Written, "flushed": warmlog.Flushed}, func(t *testing.T, d warmlog.Durability) {
		dir := t.TempDir()
		o := warmlog.Options{Durability: d, Retention: warmlog.Retention{MaxBytes: 4 << 16, Interval: 1 << 40}}
		s := create(t, dir, o)
		if st := agree(t, "before the first message", dir, s); st.Written != 0 || st.Segments != 0 || st.OpenFiles != 0 || *st.OnDisk != (warmlog.OnDisk{}) {
			t.Errorf("before the first message: %+v %+v", st, *st.OnDisk)
		}
		putMessages(t, s, "orders", 0, 0, 200)
		putMessages(t, s, "orders", 1, 0, 100)
		moved := s.Stats()
		if moved.Written == 0 || moved.Visible != moved.Written || d == warmlog.Flushed && moved.OnDisk.Durable != moved.Written {
			t.Errorf("appended: %+v %+v", moved, *moved.OnDisk)
		}
		must(t, s.Dispatched(ctx))
		must(t, s.Checkpoint(ctx))
		caught := agree(t, "caught up", dir, s)
		if caught.OnDisk.Checkpointed != caught.Written || caught.OnDisk.Durable != caught.Written || caught.Queues != 2 {
			t.Errorf("caught up, and something is behind: %+v %+v", caught, *caught.OnDisk)
		}
		if again := agree(t, "idle", dir, s); again.Written != caught.Written || *again.OnDisk != *caught.OnDisk || again.OpenFiles != caught.OpenFiles {
			t.Errorf("idle: %+v, before %+v", again, caught)
		}

		reader, err := warmlog.Open(dir, warmlog.Options{ReadOnly: true})
		must(t, err)
		if st := reader.Stats(); st.OnDisk != nil || st.Written != caught.Written || st.Queues != 2 || st.Min != 0 {
			t.Errorf("a reader: %+v", st)
		}
		must(t, reader.Close())

		// What readers hold of deleted segments, until they let go.
		var b getmessage.Batch
		must(t, s.Get(ctx, &getmessage.Request{Topic: "orders", MaxMessages: 1}, &b))
		if n := len(b.Records()); n == 0 {
			t.Fatal("nothing to hold")
		}
		putMessages(t, s, "orders", 0, 200, 1200)
		must(t, s.Checkpoint(ctx))
		gone, err := s.Retain(ctx)
		must(t, err)
		if st := s.Stats(); len(gone) == 0 || st.UnlinkedBytes != 1<<16 || st.Min == 0 {
			t.Errorf("%d segments deleted, the first is held: %+v", len(gone), st)
		}
		b.Release()
		if st := agree(t, "retained and released", dir, s); st.UnlinkedBytes != 0 {
			t.Errorf("released: %+v", st)
		}

		must(t, s.DeleteQueue(ctx, "orders", 1))
		must(t, s.Checkpoint(ctx))
		if st := agree(t, "a queue deleted", dir, s); st.Queues != 1 {
			t.Errorf("a queue deleted: %+v", st)
		}
		putMessages(t, s, "orders", 1, 0, 1)
		must(t, s.Checkpoint(ctx))
		if st := agree(t, "the queue is back", dir, s); st.Queues != 2 {
			t.Errorf("the queue is back: %+v", st)
		}
		last := s.Stats()
		must(t, s.Close())
		s = create(t, dir, o)
		if st := agree(t, "reopened", dir, s); st.Written != last.Written || st.Min != last.Min || *st.OnDisk != *last.OnDisk {
			t.Errorf("reopened: %+v %+v, before %+v %+v", st, *st.OnDisk, last, *last.OnDisk)
		}
		must(t, s.Close())
		if st := s.Stats(); st.OpenFiles != 0 {
			t.Errorf("closed: %+v", st)
		}
	})
}

// A reader's figures follow the writer, and are not behind when it has caught up.
func TestCase70AReaderCatchesUp(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := create(t, dir, warmlog.Options{})
	defer func() { must(t, s.Close()) }()
	putMessages(t, s, "orders", 0, 0, 10)
	must(t, s.Checkpoint(ctx))
	reader, err := warmlog.Open(dir, warmlog.Options{ReadOnly: true})
	must(t, err)
	defer reader.Close()
	behind := reader.Stats()
	putMessages(t, s, "orders", 0, 10, 10)
	if now := reader.Stats(); now.Visible != behind.Visible {
		t.Errorf("nobody has looked: %+v, before %+v", now, behind)
	}
	var b getmessage.Batch
	defer b.Release()
	must(t, reader.Get(ctx, &getmessage.Request{Topic: "orders", Offset: 10}, &b))
	if now, ahead := reader.Stats(), s.Stats(); now.Visible != ahead.Visible || now.Dispatched != ahead.Dispatched {
		t.Errorf("caught up: %+v, the writer %+v", now, ahead)
	}
}

// Health says why a store takes no messages, and nothing any more when it takes them again.
func TestCase70HealthComesBack(t *testing.T) {
	ctx := context.Background()
	t.Run("full", func(t *testing.T) {
		d := newDisk(t, 64)
		s := create(t, d.dir+"/store", warmlog.Options{Retention: warmlog.Retention{RefuseAbove: 80, Interval: 1 << 40}})
		defer func() { must(t, s.Close()) }()
		// Messages that are refused must not count anywhere.
		healthy := func(when string, full bool) {
			t.Helper()
			_, err := s.Retain(ctx)
			must(t, err)
			told := slices.ContainsFunc(s.Stats().Conditions, func(c warmlog.Condition) bool { return c.Name == warmlog.DiskFull })
			if told != full || errors.Is(s.Health(), warmlog.ErrNoSpace) != full || (s.Health() != nil) != full {
				t.Errorf("%s: %v, %v", when, told, s.Health())
			}
			_, err = s.Append(ctx, storetest.Message("orders", 0, 0, 10))
			if errors.Is(err, warmlog.ErrNoSpace) != full || (err != nil) != full {
				t.Errorf("%s: append: %v", when, err)
			}
		}
		healthy("at first", false)
		must(t, s.Dispatched(ctx))
		if st := s.Stats(); st.Queues != 1 {
			t.Errorf("%+v", st)
		}
		ballast := fill(t, d.dir)
		healthy("full", true)
		if _, err := s.Append(ctx, storetest.Message("refused", 0, 0, 10)); err == nil || s.Stats().Queues != 1 {
			t.Errorf("a refused message made a queue: %v, %+v", err, s.Stats())
		}
		must(t, os.Remove(ballast))
		healthy("not full any more", false)
	})
	t.Run("failed", func(t *testing.T) {
		dir := t.TempDir()
		s := create(t, dir, warmlog.Options{})
		putMessages(t, s, "orders", 0, 0, 5)
		must(t, s.Checkpoint(ctx))
		if err := s.Health(); err != nil {
			t.Error(err)
		}
		seg := filepath.Join(layout.Store(dir).CommitLog(), layout.FileName(0))
		must(t, os.Truncate(seg, 0)) // the next store into the mapping faults
		_, err := s.Append(ctx, storetest.Message("orders", 0, 5, 10))
		if !errors.Is(err, warmlog.ErrFailed) || !errors.Is(s.Health(), warmlog.ErrFailed) {
			t.Errorf("append: %v; health: %v", err, s.Health())
		}
		_ = s.Close()
		if !errors.Is(s.Health(), warmlog.ErrClosed) {
			t.Errorf("closed: %v", s.Health())
		}
		must(t, os.Remove(seg))
		must(t, os.RemoveAll(dir))
		s = create(t, dir, warmlog.Options{})
		if err := s.Health(); err != nil {
			t.Errorf("opened again: %v", err)
		}
		must(t, s.Close())
	})
}
