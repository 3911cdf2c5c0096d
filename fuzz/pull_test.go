package fuzz_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/warmlog/warmlog/getmessage"
)

// FuzzPull answers any pull of any queue and compares with the state table. plan has two
// bytes for each message of the queue: what the log has, and what the queue has. knobs are
// numbers that shape everything else; see newPullModel and newPull.
func FuzzPull(f *testing.F) {
	for _, s := range pullSeeds {
		f.Add(unhex(f, s.plan), unhex(f, s.knobs), s.offset, s.maxMessages, s.maxBytes)
	}
	random := rand.New(rand.NewPCG(7, 11))
	fill := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	for i := range 300 {
		plan := fill(2 * (i % plannedAtMost))
		if i%3 > 0 { // mostly sound
			for j := range plan {
				if random.IntN(8) > 0 {
					plan[j] &= 0xF3 &^ (byte(j%2) * 0x60)
				}
			}
		}
		f.Add(plan, fill(40), random.Int64N(40)-4, random.Int64N(40)-2, random.Int64N(4000))
	}
	var batch getmessage.Batch // used again and again
	f.Fuzz(func(t *testing.T, plan, knobs []byte, offset, maxMessages, maxBytes int64) {
		pullOnce(t, &batch, plan, knobs, offset, maxMessages, maxBytes)
	})
}

// pullSeeds are pulls that each show one row or correction of the table.
var pullSeeds = []struct {
	plan, knobs                   string
	offset, maxMessages, maxBytes int64
}{
	{"", "", 0, 0, 0},
	{"0000 0100 0200 0300", "", 0, 32, 0},
	{"0000 0100 0200 0300", "", 3, 32, 0},
	{"0000 0100 0200 0300", "", 4, 32, 0},
	{"0000 0100 0200 0300", "", 5, 32, 0},
	{"0000 0100 0200 0300", "", -1, 32, 0},
	{"0000 1004 0005 0006 1007", "", 0, 32, 0},
	{"0000 1008 a00b 000c 100f", "", 0, 32, 0},
	{"0004 1024 0004 0064", "", 0, 32, 0},
	{"0000 1000 1000 1000 1000", "00000002", 0, 1, 1},
	{"0800 0900 0a00 0b00 0c00 0d00 0e00 0f00", "", 0, 32, 0},
}

func unhex(f *testing.F, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// newPull makes a pull of numbers.
func newPull(m *pullModel, k *knobs, offset, maxMessages, maxBytes int64) *pull {
	p := &pull{topic: m.topic, queue: m.queue, offset: offset, maxMessages: int(maxMessages), maxBytes: maxBytes}
	mode := k.next()
	if mode&1 == 0 { // near the queue; else anywhere
		p.offset = m.min - 2 + int64(uint64(offset)%uint64(max(1, min(m.max-m.min, 300)+5)))
	}
	if mode&2 == 0 {
		p.maxMessages = int(maxMessages % 40)
	}
	if mode&4 == 0 {
		p.maxBytes = maxBytes % 5000
	}
	p.slave, p.strict, p.exact = mode&8 != 0, mode&0x30 == 0x30, mode&0x40 != 0
	p.tags = []string{"", "*", "a", "a||b", " Aa || c ", negativeTag, "||", "BB"}[k.of(8)]
	p.threshold = []int64{1 << 40, 0, 100, m.logMax / 2, m.logMax - 1, m.logMax, 1<<63 - 1}[k.of(7)]
	limit := func() int64 { return []int64{1 << 20, 1, 130, 300, 1000}[k.of(5)] }
	p.limits = getmessage.Limits{MemoryBytes: limit(), MemoryMessages: int(limit()), DiskBytes: limit(), DiskMessages: 1 + k.of(5), FilterBytes: limit()}
	if k.seldom() {
		p.limits.MemoryMessages = 1 + k.of(4)
	}
	if k.seldom() {
		p.topic, p.unknown = "", k.seldom()
	}
	if k.seldom() {
		p.queue = -1 - int32(k.next())
	}
	if k.seldom() {
		p.unknown = true
	}
	return p
}

func pullOnce(t *testing.T, batch *getmessage.Batch, plan, numbers []byte, offset, maxMessages, maxBytes int64) {
	k := knobs(numbers)
	m := newPullModel(plan, &k)
	p := newPull(m, &k, offset, maxMessages, maxBytes)
	// Where the log's bytes are changes how they are read, and by Distance nothing else.
	for _, m.cold = range []bool{false, true} {
		err := pullFrom(t, batch, m, p, getmessage.Distance)
		if got, want := shown(batch, err), twinPull(m, p).shown(p); got != want {
			t.Fatalf("%s\ngot  %s\nwant %s", m.describe(p), got, want)
		}
		pullEnds(t, batch, m, p, err)
	}
	m.cold, m.mixed = false, 0x9E3779B97F4A7C15*(uint64(k.next())+uint64(offset))|1
	for _, policy := range []getmessage.Policy{getmessage.Hybrid, getmessage.Residency} {
		err := pullFrom(t, batch, m, p, policy)
		pullEnds(t, batch, m, p, err)
	}
}

func pullFrom(t *testing.T, batch *getmessage.Batch, m *pullModel, p *pull, policy getmessage.Policy) error {
	r := getmessage.Reader{Log: modelLog{m}, Limits: p.limits, Threshold: func() int64 { return p.threshold }, Policy: policy, Strict: p.strict}
	if p.slave {
		r.SetRole(getmessage.Slave)
	}
	var q getmessage.Queue = modelQueue{m}
	if p.unknown {
		q = nil
	}
	req := getmessage.Request{Group: "g", Topic: p.topic, QueueID: p.queue, Offset: p.offset, MaxMessages: p.maxMessages, MaxBytes: p.maxBytes,
		Filter: getmessage.NewTagFilter(p.tags, p.exact)}
	if p.everything() != (req.Filter == nil) {
		t.Fatalf("subscription %q makes a filter %v", p.tags, req.Filter)
	}
	return r.Get(context.Background(), q, &req, batch)
}

// pullEnds checks what holds of any pull, and releases it.
func pullEnds(t *testing.T, batch *getmessage.Batch, m *pullModel, p *pull, err error) {
	checkPull(t, m, p, batch, err)
	if m.queueRefs != 0 || err != nil && m.logRefs != 0 {
		t.Fatalf("%d references of the queue and %d of the log are held, %v", m.queueRefs, m.logRefs, err)
	}
	batch.Release()
	batch.Release()
	if m.logRefs != 0 || len(batch.Records()) != 0 {
		t.Fatalf("%d references after Release", m.logRefs)
	}
}

func (p *pull) everything() bool { return p.tags == "" || p.tags == "*" }

// checkPull asserts what holds of any pull, whatever the table says.
func checkPull(t *testing.T, m *pullModel, p *pull, b *getmessage.Batch, err error) {
	t.Helper()
	if err != nil {
		if len(b.Records()) > 0 {
			t.Fatal("an error with records")
		}
		return
	}
	if (b.Status == getmessage.Found) != (len(b.Records()) > 0) {
		t.Fatalf("%v with %d records", b.Status, len(b.Records()))
	}
	within := !p.unknown && p.topic != "" && p.queue >= 0 && p.offset >= m.min && p.offset < m.max
	if within && (b.NextOffset < p.offset || b.NextOffset > m.max) {
		t.Fatalf("asked for %d of %d to %d, next is %d", p.offset, m.min, m.max, b.NextOffset)
	}
	if within && b.Status != getmessage.OffsetFoundNull && b.NextOffset == p.offset {
		t.Fatalf("%v without a step from %d", b.Status, p.offset)
	}
	last, total := p.offset-1, int64(0)
	for i := range b.Records() {
		v := &b.Records()[i]
		rec := m.places[v.PhysicalOffset()]
		if rec == nil || !bytes.Equal(rec.raw, v.Raw()) || rec.off <= last || rec.off >= b.NextOffset || !rec.names(m.topic, m.queue, rec.off) || !v.Is(p.topic, p.queue, rec.off) {
			t.Fatalf("record %d at %d is not a message of this pull", i, v.PhysicalOffset())
		}
		last = rec.off
		total += rec.size
	}
	if total != b.Bytes {
		t.Fatalf("%d bytes are said to be %d", total, b.Bytes)
	}
	// The first message is given, whatever its size, if queue and log agree about it.
	if i := p.offset - m.first; within && i >= 0 && i < int64(len(m.slots)) && p.everything() {
		rec := m.right[i]
		if _, ok := m.healed(p.offset); ok && rec.pos/m.segment != m.outOfService && m.at(p.offset) == rec.entry() && len(b.Records()) == 0 {
			t.Fatalf("the message at %d was not given: %v", p.offset, b.Status)
		}
	}
}

// shown is what is compared of a batch.
func shown(b *getmessage.Batch, err error) string {
	if err != nil {
		return "an error"
	}
	var at []int64
	for i := range b.Records() {
		at = append(at, b.Records()[i].PhysicalOffset())
	}
	d := b.Decision
	return fmt.Sprintf("%v next %d of %d to %d, hint %q, %d damaged, %v diff %d of %d suggest %v, records %d",
		b.Status, b.NextOffset, b.MinOffset, b.MaxOffset, b.Hint, len(b.Damaged), d.Reason, d.Diff, d.Threshold, d.SuggestSlave, at)
}

func (a answer) shown(p *pull) string {
	if a.failed {
		return "an error"
	}
	var at []int64
	for _, rec := range a.records {
		at = append(at, rec.pos)
	}
	return fmt.Sprintf("%v next %d of %d to %d, hint %q, %d damaged, %v diff %d of %d suggest %v, records %d",
		a.status, a.next, a.min, a.max, a.hint, a.damaged, a.reason, a.diff, p.threshold, a.suggested, at)
}
