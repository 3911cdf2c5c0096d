package fuzz_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/message"
)

// place is what lies at a physical offset of a made log: a record and what it is.
type place struct {
	pos, size int64
	topic     string
	queue     int32
	off       int64 // queue offset that it says
	tags      string
	lmq       bool // a record of another topic that was dispatched to the queue besides
	queued    bool
	broken    bool // its structure or its own position is wrong
	badSum    bool // its body's checksum is
	raw       []byte
}

// names reports whether the record is message off of the pulled queue.
func (p *place) names(topic string, queue int32, off int64) bool {
	return !p.broken && p.off == off && p.queue == queue && (p.topic == topic && p.queued || p.lmq)
}

// answer of the log to a question for one offset.
type healing int

const (
	healRight       healing = iota // what the log has
	healUnavailable                // not known yet
	healFails                      // the system failed
)

// slot is what a queue has for one offset.
type slot struct {
	entry   consumequeue.Entry
	missing bool // Slice has none there
	ends    bool // a piece of Slice ends behind it
	heal    healing
}

// pullModel is a log and one queue of it, as package getmessage sees them, with every fact
// about them known. It is both the Log and the Queue.
type pullModel struct {
	topic string
	queue int32

	segment        int64
	bytes          []byte // of the log, from 0 on
	places         map[int64]*place
	logMin, logMax int64
	outOfService   int64 // number of a segment that cannot be mapped; -1: none

	first    int64 // offset of slots[0]
	slots    []slot
	right    []*place // the record that each slot should name; nil if there is none
	min, max int64    // bounds that the queue tells
	boundErr error
	perFile  int64
	checked  int64

	logRefs, queueRefs int // held

	cold  bool   // nothing of the log is in memory
	mixed uint64 // see modelMemory
}

// hot returns the model with all of it in memory.
func (m *pullModel) hot() *pullModel {
	all := *m
	all.cold, all.mixed = false, 0
	return &all
}

var (
	errSystem  = errors.New("input/output error")
	errService = errors.New("segment out of service")
	errBeyond  = errors.New("beyond the end")
)

type logRef struct{ n *int }

func (r logRef) Release() { *r.n-- }

// modelMemory is held bytes of the log: all of it is in memory, or nothing.
type modelMemory struct {
	logRef
	cold  bool
	mixed uint64 // unless 0, chooses what of each 64 bytes is known, and where it is
}

func (m modelMemory) Known(off, n int64) (getmessage.Presence, uint32) {
	switch {
	case m.cold:
		return getmessage.OnDisk, 0
	case m.mixed == 0:
		return getmessage.InMemory, 0
	}
	for at := off / 64; at <= (off+n-1)/64; at++ {
		switch h := (uint64(at) + 1) * m.mixed >> 40; {
		case h%4 == 0:
			return getmessage.Unknown, 0
		case h%4 == 1:
			return getmessage.OnDisk, 0
		}
	}
	return getmessage.InMemory, 0
}

func (m modelMemory) Ask(off, n int64) (a getmessage.Answer) {
	a.Presence, _ = m.Known(off, n)
	a.Calls = 1
	if m.mixed>>1%2 == 0 && a.Presence == getmessage.Unknown {
		a.Presence = getmessage.OnDisk
	}
	return a
}

// modelLog and modelQueue keep the two methods named Bounds and Damage apart.
type (
	modelLog   struct{ *pullModel }
	modelQueue struct{ *pullModel }
)

func (m modelLog) Bounds() (min, max int64) { return m.logMin, m.logMax }

func (m modelLog) Map(off int64) (int64, []byte, getmessage.Memory, error) {
	switch {
	case off < m.logMin:
		return 0, nil, nil, getmessage.ErrRemoved
	case off >= m.logMax:
		return 0, nil, nil, errBeyond
	case off/m.segment == m.outOfService:
		return 0, nil, nil, errService
	}
	base := off - off%m.segment
	end := min(base+m.segment, m.logMax)
	m.logRefs++
	data := m.bytes[base:end:end]
	if m.cold {
		data = make([]byte, len(data)) // nobody is to look at it
	}
	return base, data, modelMemory{logRef{&m.logRefs}, m.cold, m.mixed}, nil
}

func (m modelLog) Fresh() int64 { return math.MaxInt64 }

func (m modelLog) ReadCold(b []byte, off int64) (int, error) {
	base, data, held, err := modelLog{m.hot()}.Map(off)
	if err != nil {
		return 0, err
	}
	held.Release()
	return copy(b, data[off-base:]), nil
}

func (m modelLog) Prefetch(off, n int64) func() { return func() {} }

// Reaches is always true: a model's files keep their length.
func (m modelLog) Reaches(int64) bool { return true }

func (m modelLog) Damage(off int64, err error) *message.DamageError {
	return &message.DamageError{File: "log", Offset: off, Err: err}
}

func (m modelQueue) Bounds(context.Context) (min, max int64, err error) {
	return m.min, m.max, m.boundErr
}

func (m modelQueue) FileEntries() int64 { return m.perFile }

func (m modelQueue) Checked() int64 { return m.checked }

func (m modelQueue) Slice(off int64) (entries []byte, ref getmessage.Ref, err error) {
	for i := off - m.first; i >= 0 && i < int64(len(m.slots)) && !m.slots[i].missing; i++ {
		entries = m.slots[i].entry.AppendTo(entries)
		if m.slots[i].ends {
			break
		}
	}
	if len(entries) == 0 {
		return nil, nil, nil
	}
	m.queueRefs++
	return entries, logRef{&m.queueRefs}, nil
}

func (m modelQueue) Heal(_ context.Context, off int64) (consumequeue.Entry, bool, error) {
	if i := off - m.first; i >= 0 && i < int64(len(m.slots)) {
		switch m.slots[i].heal {
		case healUnavailable:
			return consumequeue.Entry{}, false, fmt.Errorf("heal: %w", getmessage.ErrUnavailable)
		case healFails:
			return consumequeue.Entry{}, false, errSystem
		}
	}
	e, ok := m.healed(off)
	return e, ok, nil
}

// healed returns the entry that the log itself has for an offset.
func (m *pullModel) healed(off int64) (consumequeue.Entry, bool) {
	i := off - m.first
	if i < 0 || i >= int64(len(m.right)) || m.right[i] == nil {
		return consumequeue.Entry{}, false
	}
	p := m.right[i]
	if p.pos < m.logMin || p.pos+p.size > m.logMax || !p.names(m.topic, m.queue, off) || p.badSum {
		return consumequeue.Entry{}, false
	}
	return consumequeue.Entry{Offset: p.pos, Size: int32(p.size), TagCode: int64(twinHash(p.tags))}, true
}

func (m modelQueue) Damage(off int64, err error) *message.DamageError {
	return &message.DamageError{File: "queue", Offset: off, Err: err}
}

// knobs gives the numbers of which an input makes its model; 0 when they are used up.
type knobs []byte

func (k *knobs) next() byte {
	if len(*k) == 0 {
		return 0
	}
	c := (*k)[0]
	*k = (*k)[1:]
	return c
}

func (k *knobs) of(n int) int { return int(k.next()) % n }

// bit reports whether one of 2^n cases has come, as it seldom does.
func (k *knobs) seldom() bool { return k.next()&0x0F == 0x0F }

const pulledTopic, pulledQueue = "T", 3

var pullTags = []string{"", "a", "b", "Aa", "BB", negativeTag} // Aa and BB have one hash

const negativeTag = "TagZZZZZZ" // its hash is below 0

// What the log has for an offset, by the low bits of a plan's first byte.
const (
	recordSound      = iota // 0 to 7 with a tag each
	recordLMQ        = 8 + iota - 1
	recordNone              // its offset was lost
	recordMagic             // the structure is damaged
	recordLengths           // likewise
	recordElsewhere         // it says that it lies at another place
	recordMisplaced         // it says another queue offset
	recordPrepared          // it has no place in a queue
	recordBadSum            // its body is damaged, which a pull does not see
	newSegment       = 0x10 // it begins a segment
	othersBefore     = 0x20 // a record of another queue lies before it
	largeRecord      = 0x40
	twoOthersBefore  = 0x80
	entryRight       = 0 // 0 to 3
	entryVoid        = 4
	entryFiller      = 5
	entryNegative    = 6
	entryOther       = 7 // names the record before
	entryForeign     = 8 // names a record of another queue
	entryShort       = 9
	entryAside       = 10 // begins a byte too late, or right before a segment
	entryBeyond      = 11
	entryEnd         = 12 // at the end of what an offset can be
	entryCode        = 13 // has another tag code
	entryExt         = 14 // has an address in an ext file
	entryMissing     = 15
	entryPieceEnds   = 0x10
	entryUnavailable = 0x20
	entryFails       = 0x40
	plannedAtMost    = 24
)

// newPullModel makes a model: of two bytes of a plan for each message, and of knobs.
func newPullModel(plan []byte, k *knobs) *pullModel {
	m := &pullModel{topic: pulledTopic, queue: pulledQueue, places: map[int64]*place{}, outOfService: -1, checked: math.MaxInt64}
	if k.seldom() {
		m.topic = strings.Repeat("long", 40) // version 2
	}
	m.segment = 512 << k.of(3)
	m.first = []int64{0, 1, 4, 7, 1 << 31, 300_000 - 3, 1 << 58}[k.of(7)]
	n := min(len(plan)/2, plannedAtMost)
	var lastForeign *place
	for i := range n {
		b := plan[2*i]
		if b&newSegment != 0 && len(m.bytes) > 0 {
			m.roll()
		}
		for range int(b>>5&1) + int(b>>7) {
			lastForeign = m.put(message.Message{Topic: "other", QueueID: m.queue, Body: []byte("other")}, m.first+int64(i), 0)
		}
		m.right = append(m.right, m.putPlanned(b, m.first+int64(i)))
	}
	m.logMax = int64(len(m.bytes))
	for i := range n {
		m.slots = append(m.slots, m.plannedSlot(plan[2*i+1], i, lastForeign))
	}
	m.shape(k)
	return m
}

// roll ends the segment with a blank.
func (m *pullModel) roll() {
	used := int64(len(m.bytes)) % m.segment
	if used == 0 {
		return
	}
	blank := make([]byte, m.segment-used)
	message.PutBlank(blank, int32(len(blank)))
	m.bytes = append(m.bytes, blank...)
}

func (m *pullModel) put(msg message.Message, off int64, damage byte) *place {
	raw := message.AppendRecord(nil, &msg, seedHost, false)
	if int64(len(m.bytes))%m.segment+int64(len(raw))+8 > m.segment {
		m.roll()
	}
	p := &place{pos: int64(len(m.bytes)), size: int64(len(raw)), topic: msg.Topic, queue: msg.QueueID, off: off, tags: msg.Tags}
	p.queued = msg.SysFlag&4 == 0
	said, saidOff := p.pos, off
	switch damage {
	case recordElsewhere:
		said, p.broken = p.pos+1, true
	case recordMisplaced:
		saidOff, p.off = off+1, off+1
	}
	message.Stamp(raw, saidOff, said, 1700000000000+p.pos, false)
	switch damage {
	case recordMagic:
		raw[7]++
		p.broken = true
	case recordLengths:
		raw[87]++
		p.broken = true
	case recordBadSum:
		raw[11]++
		p.badSum = true
	}
	p.raw = raw
	m.places[p.pos] = p
	m.bytes = append(m.bytes, raw...)
	return p
}

func (m *pullModel) putPlanned(b byte, off int64) *place {
	kind := b & 0xF
	msg := message.Message{Topic: m.topic, QueueID: m.queue, Body: []byte("body")}
	if b&largeRecord != 0 {
		msg.Body = make([]byte, 150)
	}
	switch {
	case kind < recordLMQ:
		msg.Tags = pullTags[int(kind)%len(pullTags)]
	case kind == recordLMQ:
		msg.Topic, msg.Tags = "parent", "a"
		msg.Properties = []message.Property{{Name: "INNER_MULTI_DISPATCH", Value: "x," + m.topic}, {Name: "INNER_MULTI_QUEUE_OFFSET", Value: fmt.Sprintf("9,%d", off)}}
	case kind == recordNone:
		return nil
	case kind == recordPrepared:
		msg.SysFlag = message.SysFlagPrepared
	}
	p := m.put(msg, off, kind)
	p.lmq = kind == recordLMQ
	return p
}

func (m *pullModel) plannedSlot(b byte, i int, foreign *place) slot {
	s := slot{ends: b&entryPieceEnds != 0}
	switch {
	case b&entryUnavailable != 0 && b&entryFails != 0:
		s.heal = healFails
	case b&entryUnavailable != 0:
		s.heal = healUnavailable
	}
	if p := m.right[i]; p != nil {
		s.entry = consumequeue.Entry{Offset: p.pos, Size: int32(p.size), TagCode: int64(twinHash(p.tags))}
	}
	name := func(p *place) {
		if p != nil {
			s.entry = consumequeue.Entry{Offset: p.pos, Size: int32(p.size), TagCode: int64(twinHash(p.tags))}
		}
	}
	switch b & 0xF {
	case entryVoid:
		s.entry = consumequeue.Entry{}
	case entryFiller:
		s.entry = consumequeue.Filler
	case entryNegative:
		s.entry.Offset = -s.entry.Offset - 1
	case entryOther:
		if i > 0 {
			name(m.right[i-1])
		}
	case entryForeign:
		name(foreign)
	case entryShort:
		s.entry.Size--
	case entryAside:
		s.entry.Offset++
		if s.ends { // right before a segment
			s.entry.Offset = max(0, s.entry.Offset/m.segment*m.segment-int64(i)-1)
		}
	case entryBeyond:
		s.entry.Offset = int64(len(m.bytes)) - 20
	case entryEnd:
		s.entry.Offset = math.MaxInt64 - int64(b>>4)
	case entryCode:
		s.entry.TagCode++
	case entryExt:
		s.entry.TagCode = math.MinInt64 + int64(i)
	case entryMissing:
		s.missing = true
	}
	return s
}

// shape sets what stands around the messages.
func (m *pullModel) shape(k *knobs) {
	n := int64(len(m.slots))
	segments := (m.logMax + m.segment - 1) / m.segment
	if segments > 1 {
		m.logMin = m.segment * min(int64(k.of(4)), segments-1)
		if k.seldom() {
			m.outOfService = m.logMin/m.segment + int64(k.of(3))
		}
	} else {
		k.next()
		k.next()
	}
	if k.seldom() { // the log ends within a record, or in a blank
		m.logMax = max(m.logMin, m.logMax-int64(k.next()))
	}
	m.perFile = []int64{1, 2, 3, 5, 8, 300_000}[k.of(6)]
	m.min, m.max = m.first, m.first+n
	for i := range m.right { // the first message that the log still has, as a rule
		if p := m.right[i]; p != nil && p.pos >= m.logMin {
			m.min = m.first + int64(i)
			break
		}
	}
	switch k.of(8) {
	case 5:
		m.min = max(0, m.first-int64(k.of(4)))
	case 6:
		m.max += int64(k.next())
	case 7:
		m.min = min(m.min+int64(k.of(4)), m.max)
	}
	if k.seldom() {
		m.min = m.max
	}
	if k.seldom() {
		m.min, m.max = 0, 0
	}
	if k.seldom() {
		m.boundErr = errSystem
	}
	// Checked: from there on every entry is right and names a whole record.
	if k.next()&1 != 0 && m.max == m.first+n {
		m.checked = m.max
		for i := n - 1; i >= 0; i-- {
			p, s := m.right[i], m.slots[i]
			if p == nil || s.missing || !p.names(m.topic, m.queue, m.first+i) || p.badSum || s.entry.Offset != p.pos || int64(s.entry.Size) != p.size || p.pos+p.size > m.logMax {
				break
			}
			m.checked = m.first + i
		}
		if i := m.checked - m.first + int64(k.of(4)); i < n && k.next()&3 == 0 && !m.right[i].lmq {
			m.rewrite(m.right[i], k.of(4))
		}
	}
}

// rewrite changes a record's head after it was checked, as another process could that cut
// the log and wrote on.
func (m *pullModel) rewrite(p *place, how int) {
	raw := m.bytes[p.pos : p.pos+p.size]
	switch how {
	case 0:
		raw[39] |= byte(message.SysFlagPrepared)
		p.queued = false
	case 1:
		raw[27] ^= 1
		p.off ^= 1
	case 2:
		raw[15] ^= 1
		p.queue ^= 1
	case 3:
		raw[4] ^= 1
		p.broken = true
	}
	p.raw = raw
}

// entry returns the right entry of a record.
func (p *place) entry() consumequeue.Entry {
	return consumequeue.Entry{Offset: p.pos, Size: int32(p.size), TagCode: int64(twinHash(p.tags))}
}

// at returns the queue's entry of an offset, the zero one if it has none.
func (m *pullModel) at(off int64) consumequeue.Entry {
	if i := off - m.first; i >= 0 && i < int64(len(m.slots)) && !m.slots[i].missing {
		return m.slots[i].entry
	}
	return consumequeue.Entry{}
}

// describe shows a model and a pull.
func (m *pullModel) describe(p *pull) string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "log %d to %d in segments of %d, %d out of service; queue %d to %d (%v), checked from %d, files of %d\n",
		m.logMin, m.logMax, m.segment, m.outOfService, m.min, m.max, m.boundErr, m.checked, m.perFile)
	for i, s := range m.slots {
		fmt.Fprintf(&sb, "  %d: %+v", m.first+int64(i), s)
		if r := m.right[i]; r != nil {
			fmt.Fprintf(&sb, "; log has %d+%d %q off %d lmq %v queued %v broken %v bad sum %v", r.pos, r.size, r.tags, r.off, r.lmq, r.queued, r.broken, r.badSum)
		}
		sb.WriteByte('\n')
	}
	fmt.Fprintf(&sb, "pull %+v", *p)
	return sb.String()
}
