package keyindex_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

// tester is a *testing.T, *testing.B or *rapid.T.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// log is a commit log in memory: whole records by offset, in order.
type log struct {
	offsets  []int64
	views    map[int64]message.View
	min, end int64

	byKey map[[2]string][]int64 // what scan knows of the first keyed records
	keyed int
}

func newLog() *log { return &log{views: map[int64]message.View{}, byKey: map[[2]string][]int64{}} }

func (l *log) add(offset int64, v message.View, size int64) {
	l.offsets = append(l.offsets, offset)
	l.views[offset] = v
	l.end = offset + size
}

func (l *log) Record(offset int64) (message.View, error) {
	if offset < l.min || offset >= l.end {
		return message.View{}, fmt.Errorf("offset %d: %w", offset, keyindex.ErrGone)
	}
	v, ok := l.views[offset]
	if !ok {
		return v, message.ErrMagic
	}
	return v, nil
}

// record makes a record with properties as they are stored.
func record(tb tester, offset, storeTime int64, sysFlag int32, topic, properties string) message.View {
	tb.Helper()
	host := netip.MustParseAddrPort("127.0.0.1:1")
	rec := message.AppendRecord(nil, &message.Message{Topic: topic, BornHost: host, SysFlag: sysFlag}, host, false)
	message.Stamp(rec, 0, offset, storeTime, false)
	rec = append(rec[:len(rec)-2], byte(len(properties)>>8), byte(len(properties)))
	rec = append(rec, properties...)
	n := len(rec)
	copy(rec, []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	v, err := message.Decode(rec)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// put adds a record with keys, and a unique one if it is given, at the end of the log.
func (l *log) put(tb tester, storeTime int64, topic, unique, keys, tag string) int64 {
	var props []byte
	for name, value := range map[string]string{message.PropUniqueKey: unique, message.PropKeys: keys, message.PropTags: tag} {
		if value != "" {
			props = message.AppendProperty(props, name, value)
		}
	}
	at := l.end
	v := record(tb, at, storeTime, 0, topic, string(props))
	l.add(at, v, int64(v.Size()))
	return at
}

// scan is the dumb twin of a query: it knows every key of every record, having read all of
// the log once. With ranges it returns only what begins in those.
func (l *log) scan(q keyindex.Query, in ...keyindex.Range) (found []int64) {
	if l.keyed < len(l.offsets) {
		for _, at := range l.offsets[l.keyed:] {
			v := l.views[at]
			for k := range v.IndexKeys() {
				name := [2]string{string(v.Topic()), string(k)}
				l.byKey[name] = append(l.byKey[name], at)
			}
		}
		l.keyed = len(l.offsets)
	}
	inside := func(at int64) bool {
		return in == nil || slices.ContainsFunc(in, func(r keyindex.Range) bool { return at >= r.From && at < r.To })
	}
	for _, at := range slices.Compact(slices.Clone(l.byKey[[2]string{q.Topic, q.Key}])) {
		v := l.views[at]
		if q.Matches(&v) != (v.StoreTimestamp() >= q.From && (q.To == 0 || v.StoreTimestamp() <= q.To)) {
			panic("Query.Matches and the scan do not agree")
		}
		if store := v.StoreTimestamp(); at >= l.min && store >= q.From && (q.To == 0 || store <= q.To) && inside(at) {
			found = append(found, at)
		}
	}
	return found
}

// newest returns the last n of ascending offsets, and whether that left some out.
func newest(offsets []int64, n int) ([]int64, bool) {
	if len(offsets) > n {
		return offsets[len(offsets)-n:], true
	}
	return offsets, false
}

// whole is what the root does: the index's answer, and a scan of what it does not cover.
func whole(tb tester, x *keyindex.Index, l *log, q keyindex.Query) ([]int64, keyindex.Result) {
	tb.Helper()
	q.LogMin, q.LogEnd = l.min, l.end
	r, err := x.Find(context.Background(), q, l)
	if err != nil {
		tb.Fatalf("%+v: %v", q, err)
	}
	if !slices.IsSorted(r.Offsets) || len(slices.Compact(slices.Clone(r.Offsets))) != len(r.Offsets) {
		tb.Fatalf("%+v: not ascending: %v", q, r.Offsets)
	}
	all := slices.Clone(r.Offsets)
	if r.Uncovered != nil {
		all = append(all, l.scan(q, r.Uncovered...)...)
	}
	slices.Sort(all)
	all, _ = newest(slices.Compact(all), cmp.Or(q.Max, keyindex.DefaultMax))
	return all, r
}

// indexer builds index files as a store does, one after the other.
type indexer struct {
	layout keyindex.Layout
	tag    bool
	files  []*keyindex.Builder
	hashes []int32
	left   int // keys that may still be added; negative for no limit
}

func (x *indexer) add(v *message.View) {
	if len(x.files) == 0 {
		x.files = append(x.files, keyindex.NewBuilder(x.layout, nil))
	}
	b := x.files[len(x.files)-1]
	if v.PhysicalOffset() < b.Header().EndOffset {
		return
	}
	x.hashes = keyindex.KeyHashes(x.hashes[:0], v, x.tag)
	for _, h := range x.hashes {
		if x.left == 0 {
			return
		}
		x.left--
		for !b.Add(h, v.PhysicalOffset(), v.StoreTimestamp()) {
			head := b.Header()
			b = keyindex.NewBuilder(x.layout, &head)
			x.files = append(x.files, b)
		}
	}
}

// name is the name of the i-th file that a test makes.
func name(i int) string { return fmt.Sprintf("%017d", 20261130000000000+i) }

// write stores the files in dir.
func (x *indexer) write(tb tester, dir string) string {
	tb.Helper()
	for i, b := range x.files {
		writeFile(tb, filepath.Join(dir, name(i)), b.Bytes())
	}
	return dir
}

func build(l *log, slots, entries int32, tag bool) *indexer {
	x := &indexer{layout: keyindex.Layout{Slots: slots, Entries: entries}, tag: tag, left: -1}
	x.addAll(l)
	return x
}

func (x *indexer) addAll(l *log) {
	for _, at := range l.offsets {
		v := l.views[at]
		x.add(&v)
	}
}

func writeFile(tb tester, path string, b []byte) {
	tb.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		tb.Fatal(err)
	}
}

func open(tb tester, dir string, opt keyindex.Options) *keyindex.Index {
	tb.Helper()
	x, err := keyindex.Open(dir, opt)
	if err != nil {
		tb.Fatal(err)
	}
	return x
}

// check runs a Checker over index and log.
func check(tb tester, x *keyindex.Index, l *log) (keyindex.Summary, []*message.DamageError) {
	tb.Helper()
	var bad []*message.DamageError
	c, err := x.NewChecker(func(e *message.DamageError) { bad = append(bad, e) })
	if err != nil {
		tb.Fatal(err)
	}
	defer c.Close()
	for _, at := range l.offsets {
		if at >= l.min {
			v := l.views[at]
			c.Record(&v)
		}
	}
	sum, err := c.Finish()
	if err != nil {
		tb.Fatal(err)
	}
	if (sum.Damage == 0) != (len(bad) == 0) {
		tb.Fatalf("%d counted, %d reported", sum.Damage, len(bad))
	}
	return sum, bad
}

// told is a message as the real store's reader decoded it (messages.jsonl).
type told struct {
	Topic          string `json:"topic"`
	Offset         int64  `json:"physicalOffset"`
	StoreTimestamp int64  `json:"storeTimestamp"`
	Keys           string `json:"keys"`
	Properties     string `json:"properties"`
	Status         string `json:"status,omitempty"`
}

var uniqueKey = regexp.MustCompile(`UNIQ_KEY=([^,}]*)`)

func (m *told) keys() []string {
	keys := strings.Split(m.Keys, " ")
	if u := uniqueKey.FindStringSubmatch(m.Properties); u != nil {
		keys = append(keys, u[1])
	}
	return slices.DeleteFunc(keys, func(k string) bool { return k == "" })
}

// asked is a key query and what the real store answered (answers.jsonl).
type asked struct {
	Ask     string  `json:"ask"`
	Topic   string  `json:"topic"`
	Key     string  `json:"key"`
	From    int64   `json:"from"`
	To      int64   `json:"to"`
	Offsets []int64 `json:"physicalOffsets"`
}

// realStore is what a real RocketMQ left behind: its index files and, read by us, its log.
type realStore struct {
	name     string
	index    string // directory
	log      *log
	messages []told
	answers  []asked
	sample   bool // ask for some of its keys only: there are many such stores
}

func lines[T any](tb tester, r io.Reader) (all []T) {
	tb.Helper()
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<24)
	for s.Scan() {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			tb.Fatalf("%v in %.200s", err, s.Bytes())
		}
		all = append(all, v)
	}
	return all
}

// readSegments reads the log of a store directory record by record, until one is not whole
// or does not lie where it says.
func readSegments(tb tester, dir string) *log {
	l := newLog()
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	slices.Sort(names)
	for i, path := range names {
		base, err := strconv.ParseInt(filepath.Base(path), 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		if i == 0 {
			l.min, l.end = base, base
		}
		for at := 0; at+message.BlankSize <= len(b); {
			if _, magic := message.Size(b[at:]); magic == message.MagicBlank {
				l.end = base + int64(len(b))
				break
			}
			v, err := message.Decode(b[at:])
			if err != nil || v.CheckAt(base+int64(at)) != nil {
				return l
			}
			l.add(base+int64(at), v, int64(v.Size()))
			at += int(v.Size())
		}
	}
	return l
}

// readRecords reads records.tsv of the test data: offset, size, store time, sysFlag, topic,
// properties.
func readRecords(tb tester, b []byte) *log {
	l := newLog()
	for line := range bytes.Lines(b) {
		f := strings.Split(strings.TrimSpace(string(line)), "\t")
		num := func(i int) int64 {
			n, err := strconv.ParseInt(f[i], 10, 64)
			if err != nil {
				tb.Fatal(err)
			}
			return n
		}
		str := func(i int) string {
			s, err := strconv.Unquote(f[i])
			if err != nil {
				tb.Fatal(err)
			}
			return s
		}
		if len(l.offsets) == 0 {
			l.min = num(0)
		}
		l.add(num(0), record(tb, num(0), num(2), int32(num(3)), str(4), str(5)), num(1))
	}
	return l
}
