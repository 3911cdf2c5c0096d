package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

// keyed is a store of messages with keys, and the answer to every question.
type keyed struct {
	*built
	keys [][]string // of each record of all
}

func newKeyed(t testing.TB, o storetest.Options) *keyed { return &keyed{built: build(t, o)} }

func (k *keyed) put(topic, unique, keys string, sysFlag int32, body int) storetest.Record {
	m := &message.Message{Topic: topic, Keys: keys, SysFlag: sysFlag, Body: storetest.Body(topic, 0, 0, body)}
	var all []string
	if unique != "" {
		m.Properties = []message.Property{{Name: message.PropUniqueKey, Value: unique}}
		all = []string{unique}
	}
	r := k.Put(m)
	k.all = append(k.all, r)
	if sysFlag&message.SysFlagTransactionMask == message.SysFlagRollback {
		all = nil
	} else {
		for _, key := range strings.Split(keys, " ") {
			if key != "" {
				all = append(all, key)
			}
		}
	}
	k.keys = append(k.keys, all)
	return r
}

// answer is what a scan of everything finds, the newest max of it.
func (k *keyed) answer(q warmlog.KeyQuery) (offsets []int64, more bool) {
	for i, r := range k.all {
		if r.Topic == q.Topic && slices.Contains(k.keys[i], q.Key) && r.Time >= q.From && (q.To == 0 || r.Time <= q.To) {
			offsets = append(offsets, r.Offset)
		}
	}
	if q.Max == 0 {
		q.Max = 64
	}
	if n := len(offsets) - q.Max; n > 0 {
		return offsets[n:], true
	}
	return offsets, false
}

func (k *keyed) compare(t *testing.T, store *warmlog.Store, q warmlog.KeyQuery) {
	t.Helper()
	offsets, more := k.answer(q)
	got, err := store.FindByKey(context.Background(), q)
	if err != nil || fmt.Sprint(got.Offsets) != fmt.Sprint(offsets) || got.More != more {
		if len(q.Key) > 50 {
			q.Key = q.Key[:50] + "…"
		}
		t.Errorf("%+v: %v\n got %+v\nwant %v, more %v", q, err, got, offsets, more)
	}
}

// states are what an index can be in: whatever it is, the answers are the same.
var states = map[string]func(t *testing.T, k *keyed){
	"sound":   func(t *testing.T, k *keyed) { k.Close() },
	"missing": func(t *testing.T, k *keyed) { k.Close(); must(t, os.RemoveAll(k.Paths.Index())) },
	"empty": func(t *testing.T, k *keyed) {
		k.Close()
		for _, f := range k.IndexFiles() {
			must(t, os.Remove(f))
		}
	},
	"behind":                func(t *testing.T, k *keyed) { k.Close(); all := k.IndexFiles(); must(t, os.Remove(all[len(all)-1])) },
	"without its beginning": func(t *testing.T, k *keyed) { k.Close(); must(t, os.Remove(k.IndexFiles()[0])) },
	"with a hole":           func(t *testing.T, k *keyed) { k.Close(); must(t, os.Remove(k.IndexFiles()[1])) },
	"short":                 func(t *testing.T, k *keyed) { k.Close(); must(t, os.Truncate(k.IndexFiles()[1], 1000)) },
	"damaged": func(t *testing.T, k *keyed) {
		k.Close()
		path := k.IndexFiles()[1]
		st, err := os.Stat(path)
		must(t, err)
		put(t, path, st.Size()/3, storetest.Body("noise", 0, 0, int(st.Size()/3)))
	},
	"all of it damaged": func(t *testing.T, k *keyed) {
		k.Close()
		for _, path := range k.IndexFiles() {
			st, err := os.Stat(path)
			must(t, err)
			put(t, path, 40, storetest.Body("noise", 0, 0, int(st.Size()-40)))
		}
	},
	"not to be trusted": func(t *testing.T, k *keyed) { // after a power cut: newer than what was flushed
		k.Kill()
		k.Checkpoint(layout.Checkpoint{PhysicTime: k.Time, LogicsTime: k.Time})
		path := k.IndexFiles()[1]
		st, err := os.Stat(path)
		must(t, err)
		put(t, path, st.Size()/2, make([]byte, st.Size()/2))
	},
}

// Keys of equal hash, joins of topic and key that are the same text, odd keys: only the
// record's own topic and keys count.
func TestCase63KeysThatLookAlike(t *testing.T) {
	each(t, states, func(t *testing.T, leave func(*testing.T, *keyed)) {
		k := newKeyed(t, storetest.Options{SegmentSize: 1 << 15, Index: keyindex.Layout{Slots: 7, Entries: 60}})
		long := strings.Repeat("0123456789", 1024)
		for n := range 12 {
			k.put("orders", "", "Aa", 0, 100)
			k.put("orders", "", "BB", 0, 100)
			k.put("orders", "", "AaBB BBAa", 0, 100) // four of one hash with the next
			k.put("orders", "", "AaAa", 0, 100)
			k.put("others", "", "Aa", 0, 100)
			k.put("A", "", "B#C", 0, 100)
			k.put("A#B", "", "C", 0, 100)
			k.put("A", "", "#B#C", 0, 100)
			k.put("Aa", "", "k", 0, 100) // topics of equal hash
			k.put("BB", "", "k", 0, 100)
			k.put("orders", fmt.Sprintf("id%d", n), "k  k k", 0, 100) // one record, though the key is there thrice
			k.put("orders", "k", "", 0, 10)
			k.put("orders", "", "k", message.SysFlagPrepared, 10)
			k.put("orders", "", "k", message.SysFlagRollback, 10)
			k.put("orders", "", "k", message.SysFlagCommit, 10)
			k.put("orders", "", " ", 0, 10)
			k.put("orders", "", "", 0, 10)
			if n == 5 {
				k.put("orders", "", long, 0, 10)
				k.put("orders", "", long+"x", 0, 10)
			}
		}
		leave(t, k)
		store := open(t, k.Dir(), warmlog.Options{})
		for _, topic := range []string{"orders", "others", "A", "A#B", "Aa", "BB", "unknown", "order"} {
			for _, key := range []string{"Aa", "BB", "AaBB", "BBAa", "AaAa", "BBBB", "B#C", "C", "#B#C", "k", "id3", "id99", long, long + "x", long + "y", " ", "k k", "K", "TAGS", "T#k", strings.Repeat("x", 40000)} {
				k.compare(t, store, warmlog.KeyQuery{Topic: topic, Key: key, Max: math.MaxInt32})
				if topic == "orders" && len(key) <= 4 {
					for _, max := range []int{0, 1, 5} {
						k.compare(t, store, warmlog.KeyQuery{Topic: topic, Key: key, Max: max})
					}
				}
			}
		}
		if t.Failed() {
			return
		}
		// Each answer once more, by the record itself.
		got, err := store.FindByKey(context.Background(), warmlog.KeyQuery{Topic: "orders", Key: "Aa", Max: 1000})
		must(t, err)
		for _, off := range got.Offsets {
			v, _, err := store.Record(off, nil)
			must(t, err)
			if string(v.Topic()) != "orders" || string(v.Property("KEYS")) != "Aa" {
				t.Errorf("the record at %d is of %s and has keys %q", off, v.Topic(), v.Property("KEYS"))
			}
		}
	})
}

// As many as asked for, and not one more or less, wherever the files of the index meet; more
// is said where there are more.
func TestCase63ExactlyAsManyAsAskedFor(t *testing.T) {
	each(t, states, func(t *testing.T, leave func(*testing.T, *keyed)) {
		k := newKeyed(t, storetest.Options{SegmentSize: 1 << 13, Index: keyindex.Layout{Slots: 7, Entries: 20}})
		for n := range 90 {
			k.put("orders", "", "k", 0, 100)
			if n%3 == 0 {
				k.put("orders", "", "other other k2", 0, 50)
			}
		}
		leave(t, k)
		store := open(t, k.Dir(), warmlog.Options{})
		for max := 1; max <= 92 && !t.Failed(); max++ {
			k.compare(t, store, warmlog.KeyQuery{Topic: "orders", Key: "k", Max: max})
			k.compare(t, store, warmlog.KeyQuery{Topic: "orders", Key: "k2", Max: max / 3})
		}
	})
}

// A maximum from a request may be any number.
func TestCase63TheLargestMaximum(t *testing.T) {
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v", p)
		}
	}()
	k := newKeyed(t, storetest.Options{Index: keyindex.Layout{Slots: 7, Entries: 60}})
	for range 100 {
		k.put("orders", "", "k", 0, 10)
	}
	k.Close()
	store := open(t, k.Dir(), warmlog.Options{})
	for _, max := range []int{math.MaxInt32, math.MaxInt32 + 1, math.MaxInt - 1, math.MaxInt} {
		k.compare(t, store, warmlog.KeyQuery{Topic: "orders", Key: "k", Max: max})
	}
}

// What cannot be meant is refused; bounds that hold nothing give nothing.
func TestCase63Bounds(t *testing.T) {
	each(t, states, func(t *testing.T, leave func(*testing.T, *keyed)) {
		k := newKeyed(t, storetest.Options{SegmentSize: 1 << 13, Index: keyindex.Layout{Slots: 7, Entries: 60}, Time: 10000})
		for n := range 150 {
			k.Time = 10000 + int64(n/3)*700
			k.put("orders", "", fmt.Sprintf("k%d", n%2), 0, 100)
		}
		leave(t, k)
		store := open(t, k.Dir(), warmlog.Options{})
		for _, q := range []warmlog.KeyQuery{{Topic: "orders"}, {Key: "k1"}, {}, {Topic: "orders", Key: "k1", Max: -1}, {Topic: "orders", Key: "k1", Max: math.MinInt}} {
			if got, err := store.FindByKey(context.Background(), q); !errors.Is(err, keyindex.ErrQuery) {
				t.Errorf("%+v: %v, %v", q, got, err)
			}
		}
		ends := []int64{math.MinInt64, -1, 0, 9999, 10000, 10001, 20500, 20501, 44300, 44301, math.MaxInt64}
		for i, from := range ends {
			for j, to := range ends {
				k.compare(t, store, warmlog.KeyQuery{Topic: "orders", Key: "k1", From: from, To: to, Max: []int{0, 3, 100}[(i+j)%3]})
			}
		}
	})
}

// The clock was set back, repeats, or is random: a question for a time still finds what has
// that time.
func TestCase63AClockInDisorder(t *testing.T) {
	for name, clock := range clocks {
		for _, state := range []string{"sound", "missing", "with a hole", "damaged"} {
			t.Run(name+" "+state, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(63, 1))
				k := newKeyed(t, storetest.Options{SegmentSize: 1 << 13, Index: keyindex.Layout{Slots: 7, Entries: 60}})
				last := int64(1700000000000)
				for i := range 200 {
					last = clock(rng, i, last)
					k.Time = last
					k.put("orders", "", fmt.Sprintf("k%d", i%5), 0, 100)
				}
				states[state](t, k)
				store := open(t, k.Dir(), warmlog.Options{})
				for range 15 {
					a, b := k.all[rng.IntN(200)].Time, k.all[rng.IntN(200)].Time
					k.compare(t, store, warmlog.KeyQuery{Topic: "orders", Key: "k3", From: a, To: b, Max: 1 + rng.IntN(40)})
				}
			})
		}
	}
}

// 100,000 messages with one key. Whatever is asked for, the answer is the newest ones, in
// order, and says when it is not all of them; the work is bounded.
func TestCase63AHundredThousandWithOneKey(t *testing.T) {
	const messages = 100000
	k := newKeyed(t, storetest.Options{SegmentSize: 1 << 22, Index: keyindex.Layout{Slots: 1000, Entries: 30000}})
	for range messages {
		k.put("orders", "", "k", 0, 1)
	}
	k.Close()
	for _, state := range []string{"sound", "missing"} {
		if state == "missing" {
			must(t, os.RemoveAll(k.Paths.Index()))
		}
		store := open(t, k.Dir(), warmlog.Options{})
		for _, max := range []int{0, 1, 64, 65, 10000, messages, math.MaxInt32} {
			var got *warmlog.KeyResult
			c := cost(t, func() {
				var err error
				got, err = store.FindByKey(context.Background(), warmlog.KeyQuery{Topic: "orders", Key: "k", Max: max})
				must(t, err)
			})
			want := max
			if max == 0 {
				want = 64
			}
			want = min(want, messages)
			if want <= 10000 && len(got.Offsets) != want || len(got.Offsets) > want || len(got.Offsets) < min(want, 60000) {
				t.Errorf("%s index, max %d: %d messages", state, max, len(got.Offsets))
			}
			if got.More != (len(got.Offsets) < messages) {
				t.Errorf("%s index, max %d: %d of %d messages, more %v", state, max, len(got.Offsets), messages, got.More)
			}
			for i, off := range got.Offsets {
				if want := k.all[messages-len(got.Offsets)+i].Offset; off != want {
					t.Errorf("%s index, max %d: message %d of %d is at %d, want %d: not the newest in order", state, max, i, len(got.Offsets), off, want)
					break
				}
			}
			// A few messages cost a few reads. The reads of a large answer are one for each message.
			if few := max <= 65; few && state == "sound" && c.calls > 400 {
				t.Errorf("%s index, max %d: %d reads", state, max, c.calls)
			}
			if few := max <= 65; few && state == "missing" && c.bytes > 3<<22 {
				t.Errorf("%s index, max %d: %d bytes", state, max, c.bytes)
			}
		}
	}
}

// A question for a short time does not read all of the log, with an index or without.
func TestCase63AShortTimeReadsLittle(t *testing.T) {
	k := newKeyed(t, storetest.Options{SegmentSize: 1 << 16, Index: keyindex.Layout{Slots: 100, Entries: 500}})
	for k.Pos() < 50<<16 {
		k.Time += 100
		k.put("orders", "", fmt.Sprintf("k%d", len(k.all)%100), 0, 500)
	}
	k.Close()
	for _, state := range []string{"sound", "missing"} {
		if state == "missing" {
			must(t, os.RemoveAll(k.Paths.Index()))
		}
		store := open(t, k.Dir(), warmlog.Options{})
		from := k.all[len(k.all)/2].Time
		q := warmlog.KeyQuery{Topic: "orders", Key: k.keys[len(k.all)/2][0], From: from, To: from + 1000}
		c := cost(t, func() { k.compare(t, store, q) })
		if c.bytes > k.Pos()/4 {
			t.Errorf("%s index: %d bytes read for one second, the log has %d", state, c.bytes, k.Pos())
		}
	}
}
