package warmlog_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/commitlog"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/message"
)

// endsAt checks that the log of a store ends at a place, and that Inspect, and nobody else,
// says what lies there.
func endsAt(t *testing.T, store *warmlog.Store, s *storetest.Store, end int64, kind error) *message.DamageError {
	t.Helper()
	if _, max := store.Bounds(); max != end {
		t.Errorf("the log ends at %d, want %d", max, end)
	}
	info, err := store.Inspect(context.Background())
	must(t, err)
	path, at := s.Segment(end)
	if info.Cut == nil || !errors.Is(info.Cut, kind) || info.Cut.File != path || info.Cut.Offset != at {
		t.Errorf("cut: %v, want %s at byte %d: %v", info.Cut, path, at, kind)
	}
	if d := store.Damaged(); len(d) > 0 {
		t.Errorf("what lies behind the tail is called damage: %v", d)
	}
	v, err := store.Verify(context.Background(), func(d *message.DamageError) { t.Errorf("verify: %v", d) })
	must(t, err)
	if kind != message.ErrMagic && !noted(v.Told, base(path), fmt.Sprint(end)) {
		t.Errorf("verify tells %q of the tail", v.Told)
	}
	return info.Cut
}

// The free part of the last segment is full of records that were sound in another place.
func TestCase06CopiesOfAnEarlierSegmentAtTheTail(t *testing.T) {
	each(t, modes, func(t *testing.T, leave func(*built)) {
		for _, o := range []storetest.Options{{}, {WithCRC: true}, {Begin: 7 << 14}} {
			for _, from := range []int{0, 1, 5} { // which record of the first segment comes to lie at the tail
				o.SegmentSize = 1 << 14
				s := build(t, o)
				s.fill("orders", 3, o.Begin+2<<14+5000)
				end := s.Pos()
				leave(s)
				path, at := s.Segment(end)
				first := s.all[from]
				earlier, skip := s.Segment(first.Offset)
				put(t, path, at, bytesOf(t, earlier, skip, int(min(o.SegmentSize-at, o.SegmentSize-skip))))
				store := open(t, s.Dir(), warmlog.Options{})
				holds(t, store, s.all)
				endsAt(t, store, s.Store, end, message.ErrMisplaced)
				store.Close()
			}
		}
	})
}

// Who reads that a record is in the wrong place wants to know which place it claims: that
// tells an old file that is used again from a copy that went wrong.
func TestCase06TheErrorSaysFoundAndExpectedOffset(t *testing.T) {
	s := build(t, storetest.Options{SegmentSize: 1 << 14})
	s.fill("orders", 3, 1<<14+5000)
	end, second := s.Pos(), s.all[1]
	s.Close()
	path, at := s.Segment(end)
	earlier, skip := s.Segment(second.Offset)
	put(t, path, at, bytesOf(t, earlier, skip, int(second.Size)))
	store := open(t, s.Dir(), warmlog.Options{})
	cut := endsAt(t, store, s.Store, end, message.ErrMisplaced)
	_, _, err := store.Record(end, nil) // beyond the log, for who reads by position
	if !errors.Is(err, commitlog.ErrBeyond) {
		t.Error(err)
	}
	if !noted([]string{cut.Error()}, path, fmt.Sprint(second.Offset), fmt.Sprint(end)) {
		t.Errorf("%q does not say which offset was found (%d) and which one expected (%d)", cut, second.Offset, end)
	}
}

// Behind the tail lie records that are sound, and lie where they say: the log was longer
// once, and was cut. What lies right at the tail is no record.
func TestCase06RecordsOfAnEarlierLifeBehindTheTail(t *testing.T) {
	tails := map[string]struct {
		spoil func(rec []byte)
		kind  error
	}{
		"torn":         {func(rec []byte) { clear(rec[len(rec)/2:]) }, message.ErrLengths},
		"never there":  {func(rec []byte) { clear(rec) }, message.ErrMagic},
		"another body": {func(rec []byte) { rec[len(rec)-60] ^= 1 }, message.ErrBodyCRC},
		"stale":        {func(rec []byte) { binary.BigEndian.PutUint64(rec[28:], 12) }, message.ErrMisplaced},
	}
	each(t, modes, func(t *testing.T, leave func(*built)) {
		each(t, tails, func(t *testing.T, tail struct {
			spoil func(rec []byte)
			kind  error
		}) {
			s := build(t, storetest.Options{SegmentSize: 1 << 14})
			s.fill("orders", 3, 2<<14+4000)
			s.Flush()
			end, kept := s.Pos(), len(s.all)
			s.fill("orders", 3, 2<<14+12000) // the earlier life, whose queue entries were cut
			s.FlushLog()
			s.Drop()
			leave(s)
			path, at := s.Segment(end)
			rec := bytesOf(t, path, at, int(s.all[kept].Size))
			tail.spoil(rec)
			put(t, path, at, rec)
			store := open(t, s.Dir(), warmlog.Options{})
			holds(t, store, s.all[:kept])
			endsAt(t, store, s.Store, end, tail.kind)
		})
	})
}

// Fillers of every length end a segment, whatever lies behind their first eight bytes.
func TestCase06Fillers(t *testing.T) {
	each(t, modes, func(t *testing.T, leave func(*built)) {
		for _, left := range []int64{8, 9, 10, 11, 12, 100, 1 << 13} {
			for _, stale := range []bool{false, true} {
				s := build(t, storetest.Options{SegmentSize: 1 << 14})
				for seg := range int64(3) {
					s.fill("orders", 2, seg<<14+6000)
					r := s.Leave("orders", 1, left)
					s.all = append(s.all, r)
					blank := s.Pos()
					s.Blank()
					if stale { // records that would be sound here, were this no filler
						s.Flush()
						at := blank + message.BlankSize
						for n := int64(0); at < blank+left; n++ {
							rec := s.Encode(storetest.Message("orders", 0, 500+n, 10), 500+n, at, 1700000000000)
							if at+int64(len(rec)) > blank+left {
								break
							}
							path, in := s.Segment(at)
							put(t, path, in, rec)
							at += int64(len(rec))
						}
					}
				}
				// The last segment ends with a filler, and there is no next one.
				leave(s)
				store := open(t, s.Dir(), warmlog.Options{})
				if _, max := store.Bounds(); max != 3<<14 {
					t.Errorf("filler of %d bytes: the log ends at %d, want %d", left, max, 3<<14)
				}
				holds(t, store, s.all)
				_, damage := verify(t, s.Dir())
				for _, d := range damage {
					t.Errorf("filler of %d bytes: %v", left, d)
				}
				store.Close()
			}
		}
	})
}

// A filler is accepted at the end of a segment only: one that does not reach there is no
// filler.
func TestCase06FillersOfAnotherLength(t *testing.T) {
	wrong := map[string]func(left int32) int32{
		"a byte short": func(left int32) int32 { return left - 1 },
		"a byte long":  func(left int32) int32 { return left + 1 },
		"in the middle": func(left int32) int32 {
			return left / 2
		},
		"eight bytes":     func(int32) int32 { return 8 },
		"nothing":         func(int32) int32 { return 0 },
		"negative":        func(int32) int32 { return -8 },
		"a whole segment": func(int32) int32 { return 1 << 14 },
	}
	each(t, modes, func(t *testing.T, leave func(*built)) {
		each(t, wrong, func(t *testing.T, length func(int32) int32) {
			// At the tail: it ends the log.
			s := build(t, storetest.Options{SegmentSize: 1 << 14})
			s.fill("orders", 2, 1<<14+6000)
			end := s.Pos()
			leave(s)
			path, at := s.Segment(end)
			b := make([]byte, message.BlankSize)
			message.PutBlank(b, length(int32(1<<14-at)))
			put(t, path, at, b)
			store := open(t, s.Dir(), warmlog.Options{})
			holds(t, store, s.all)
			endsAt(t, store, s.Store, end, commitlog.ErrBlank)
			store.Close()

			// Over a record in the middle of the log: it is damage, and what follows is there.
			s = build(t, storetest.Options{SegmentSize: 1 << 14})
			s.fill("orders", 2, 2<<14+6000)
			leave(s)
			victim := 10
			path, at = s.Segment(s.all[victim].Offset)
			message.PutBlank(b, length(int32(1<<14-at)))
			put(t, path, at, b)
			store = open(t, s.Dir(), warmlog.Options{})
			if d := store.Damaged(); len(d) != 1 || !names(d[0], path, at) || !errors.Is(d[0], commitlog.ErrBlank) {
				t.Errorf("damage: %v, want one at byte %d of %s", d, at, path)
			}
			got := map[int64]bool{}
			for _, id := range []int32{0, 1} {
				for _, off := range drain(t, store, "orders", id, 0).offsets {
					got[off*2+int64(id)] = true
				}
			}
			if len(got) != len(s.all)-1 || got[int64(victim)] {
				t.Errorf("%d of %d messages, the one under the filler among them: %v", len(got), len(s.all), got[int64(victim)])
			}
			store.Close()

			// At the end of a segment that was filled: damage, and the next segment is there.
			s = build(t, storetest.Options{SegmentSize: 1 << 14})
			s.fill("orders", 2, 10000)
			s.all = append(s.all, s.Leave("orders", 0, 50))
			blank := s.Pos()
			s.Blank()
			s.fill("orders", 2, 1<<14+6000)
			leave(s)
			path, at = s.Segment(blank)
			message.PutBlank(b, length(50))
			put(t, path, at, b)
			store = open(t, s.Dir(), warmlog.Options{})
			if d := store.Damaged(); length(50) != 50 && (len(d) != 1 || !names(d[0], path, at)) {
				t.Errorf("damage: %v, want one at byte %d of %s", d, at, path)
			}
			for _, id := range []int32{0, 1} {
				if got, want := drain(t, store, "orders", id, 0).offsets, s.of("orders", id); len(got) != len(want) {
					t.Errorf("orders/%d: %d messages, want %d", id, len(got), len(want))
				}
			}
			store.Close()
		})
	})
}
