package keyindex_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/warmlog/warmlog/keyindex"
)

// Index files of real stores are built again from their logs, byte for byte.
func TestRebuildReal(t *testing.T) {
	stores(t, func(t *testing.T, s *realStore) {
		if s.torn() || s.skipped() {
			t.Skip("log and index are not of one piece")
		}
		files, _, err := open(t, s.index, keyindex.Options{}).Files()
		if err != nil {
			t.Fatal(err)
		}
		// A store can be killed while it makes a file: that one has no byte yet.
		files = slices.DeleteFunc(files, func(f keyindex.File) bool { return f.Size == 0 })
		if len(files) == 0 {
			t.Skip("no index file")
		}
		x := &indexer{layout: files[0].Layout, tag: strings.Contains(s.name, "5.5.0")}
		for _, f := range files {
			x.left += int(f.Header.Keys()) // a killed store's index may be behind
		}
		keys := x.left
		x.addAll(s.log)
		if s.name == "rocketmq-4.9.7-repeats" {
			// Two restarts, after each of which the last record was put again.
			for range 2 {
				v := s.log.views[s.log.offsets[len(s.log.offsets)-1]]
				x.add(&v)
			}
		}
		if x.left > 0 {
			t.Skipf("the log was cut: it lacks %d of %d keys", x.left, keys)
		}
		if keys > 0 && len(x.files) > 0 && files[0].Header.BeginOffset != x.files[0].Header().BeginOffset {
			t.Skipf("the index begins at %d, the log's first key at %d", files[0].Header.BeginOffset, x.files[0].Header().BeginOffset)
		}
		for i, f := range files {
			real, err := os.ReadFile(f.Path)
			if err != nil {
				t.Fatal(err)
			}
			var ours []byte
			switch {
			case i < len(x.files):
				ours = x.files[i].Bytes()
			case i == 0:
				ours = keyindex.NewBuilder(f.Layout, nil).Bytes()
			default:
				before := x.files[i-1].Header()
				ours = keyindex.NewBuilder(f.Layout, &before).Bytes()
			}
			if f.Header.Keys() == 0 {
				copy(real[36:40], ours[36:]) // an orderly stop writes count 1
			}
			if !bytes.Equal(ours, real) {
				at := 0
				for at < min(len(real), len(ours))-1 && ours[at] == real[at] {
					at++
				}
				t.Errorf("%s: header %+v, ours %+v, first difference at %d", f.Path, f.Header, keyindex.ParseHeader(ours), at)
			}
		}
		t.Logf("%d files, %d keys", len(files), keys)
	})
}

// Every key of every real message is asked for in three windows of time, and the answer is
// that of messages.jsonl, decoded by RocketMQ itself. Prepared records are in no queue and
// so not in that file; the scan of the log knows them.
func TestFindReal(t *testing.T) {
	stores(t, func(t *testing.T, s *realStore) {
		x := open(t, s.index, keyindex.Options{})
		truth, queued := map[[2]string][]told{}, map[int64]bool{}
		lo, hi := int64(math.MaxInt64), int64(0)
		for _, m := range s.messages {
			if m.Status != "" || m.Offset < s.log.min || m.Offset >= s.log.end {
				continue
			}
			queued[m.Offset] = true
			lo, hi = min(lo, m.StoreTimestamp), max(hi, m.StoreTimestamp)
			for _, k := range m.keys() {
				truth[[2]string{m.Topic, k}] = append(truth[[2]string{m.Topic, k}], m)
			}
		}
		asked, uncovered := 0, 0
		for name, all := range truth {
			if s.sample && asked > 600 {
				break
			}
			for _, w := range [][2]int64{{0, 0}, {lo, (lo + hi) / 2}, {(lo + hi) / 2, hi}} {
				q := keyindex.Query{Topic: name[0], Key: name[1], From: w[0], To: w[1], Max: 1000}
				var want []int64
				for _, m := range all {
					if m.StoreTimestamp >= w[0] && (w[1] == 0 || m.StoreTimestamp <= w[1]) {
						want = append(want, m.Offset)
					}
				}
				slices.Sort(want)
				want = slices.Compact(want)
				got, r := whole(t, x, s.log, q)
				if r.Damaged != nil || r.Limited || r.More {
					t.Fatalf("%+v: %+v", q, r)
				}
				uncovered = len(r.Uncovered)
				if scan := s.log.scan(q); !slices.Equal(got, scan) && !s.skipped() {
					t.Fatalf("%+v: got %v, the log has %v", q, got, scan)
				}
				asked++
				if s.torn() {
					continue
				}
				got = slices.DeleteFunc(got, func(at int64) bool { return !queued[at] })
				if !slices.Equal(got, want) {
					t.Fatalf("%+v: got %v, want %v", q, got, want)
				}
			}
		}
		t.Logf("%d queries, %d messages, %d ranges uncovered", asked, len(queued), uncovered)
	})
}

// What the real store answered is the same but for its false hits, its repeats, and a
// second at the edges of the time.
func TestRealAnswers(t *testing.T) {
	stores(t, func(t *testing.T, s *realStore) {
		if s.answers == nil || s.torn() {
			t.Skip("no answers, or not to this log")
		}
		x := open(t, s.index, keyindex.Options{})
		// After a halt a real 5.5.0 rebuilds only the last segment's part of the index, and
		// then answers; a slave may have left records out: they know less than the log.
		less := strings.HasPrefix(s.name, "5.5.0-") || s.skipped()
		equal := 0
		for _, a := range s.answers {
			if len(a.Offsets) >= 64 {
				continue // its limit counts false hits
			}
			q := keyindex.Query{Topic: a.Topic, Key: a.Key, From: a.From, To: a.To, Max: 1000}
			got, _ := whole(t, x, s.log, q)
			theirs := slices.DeleteFunc(slices.Clone(a.Offsets), func(at int64) bool {
				return !slices.Contains(s.log.scan(keyindex.Query{Topic: a.Topic, Key: a.Key}), at)
			})
			slices.Sort(theirs)
			theirs = slices.Compact(theirs)
			if a.From == 0 && a.To == math.MaxInt64 {
				if !slices.Equal(got, theirs) && !(less && subset(theirs, got)) {
					t.Errorf("%s %s: got %v, RocketMQ %v", a.Topic, a.Key, got, theirs)
				}
				equal++
				continue
			}
			for _, at := range append(slices.Clone(got), theirs...) {
				v := s.log.views[at]
				store := v.StoreTimestamp()
				near := min(abs(store-a.From), abs(store-a.To)) < 1000 || less && slices.Contains(got, at)
				if slices.Contains(got, at) != slices.Contains(theirs, at) && !near {
					t.Errorf("%s %s in %d to %d: %d at %d: ours %v, RocketMQ %v", a.Topic, a.Key, a.From, a.To, at, store, slices.Contains(got, at), slices.Contains(theirs, at))
				}
			}
		}
		t.Logf("%d of %d rows equal without a limit", equal, len(s.answers))
	})
}

func subset(a, b []int64) bool {
	return !slices.ContainsFunc(a, func(at int64) bool { return !slices.Contains(b, at) })
}

func abs(n int64) int64 { return max(n, -n) }

// No real index disagrees with its log, unless the lab tore the log's end away, or the
// store itself left records out.
func TestCheckReal(t *testing.T) {
	stores(t, func(t *testing.T, s *realStore) {
		sum, bad := check(t, open(t, s.index, keyindex.Options{}), s.log)
		for _, e := range bad[:min(len(bad), 20)] {
			if s.torn() && errors.Is(e, keyindex.ErrNoRecord) || s.skipped() && errors.Is(e, keyindex.ErrMissingKey) {
				t.Log(e)
				continue
			}
			t.Error(e)
		}
		if s.name == "rocketmq-4.9.7-repeats" && sum.Repeats != 2 {
			t.Errorf("%d repeats, want 2", sum.Repeats)
		}
		t.Logf("%+v", sum)
	})
}
