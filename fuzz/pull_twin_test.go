package fuzz_test

import (
	"math"
	"slices"
	"strings"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
)

// pull is what a consumer asks for, in the twin's own words.
type pull struct {
	topic       string
	queue       int32
	unknown     bool // the store does not know the queue
	offset      int64
	maxMessages int
	maxBytes    int64
	tags        string // subscription; "" or "*": all
	exact       bool
	slave       bool
	strict      bool
	limits      getmessage.Limits // all set
	threshold   int64
}

// answer is what the table says to a pull.
type answer struct {
	status    getmessage.Status
	hint      getmessage.Hint
	next      int64
	min, max  int64
	records   []*place
	damaged   int
	failed    bool // an error instead of all this
	reason    getmessage.Reason
	diff      int64
	suggested bool
}

// twinPull answers a pull by the state table of the description (getmessage-and-pull,
// section 2) with the corrections that package getmessage documents. It is slow, and
// written from that table.
func twinPull(m *pullModel, p *pull) answer {
	if p.topic == "" || p.queue < 0 { // row 0
		return answer{status: getmessage.NoMatchedLogicQueue, next: p.offset}
	}
	a := answer{}
	if !p.unknown {
		if m.boundErr != nil {
			return answer{failed: true}
		}
		a.min, a.max = m.min, m.max
	}
	// corrected is nextOffsetCorrection: a slave leaves the offset alone and says why.
	corrected := func(status getmessage.Status, next int64, why getmessage.Hint) answer {
		a.status, a.next = status, next
		if p.slave {
			a.next, a.hint = p.offset, why
		}
		return a
	}
	switch {
	case a.max == 0: // row 1
		return corrected(getmessage.NoMessageInQueue, 0, getmessage.AskMaster)
	case p.offset < a.min: // row 2
		return corrected(getmessage.OffsetTooSmall, a.min, getmessage.AskMaster)
	case p.offset == a.max: // row 3
		return corrected(getmessage.OffsetOverflowOne, p.offset, getmessage.NotYet)
	case p.offset > a.max: // row 4
		return corrected(getmessage.OffsetOverflowBadly, a.max, getmessage.NotYet)
	}
	s := twinScan{pullModel: m, pull: p, answer: a}
	s.run()
	if s.failed {
		return answer{failed: true}
	}
	s.decide()
	return s.answer
}

// twinScan is row 5 of the table.
type twinScan struct {
	*pullModel
	*pull
	answer
	bytes     int64
	skipUntil int64
	reached   bool
	pulled    int64 // maxPulling
}

// outcome of looking at one entry.
type outcome int

const (
	consumed outcome = iota
	full             // left for the next pull
	unknown          // cannot be told for now
	failed
)

func (s *twinScan) want() int {
	if s.maxMessages == 0 {
		return 32
	}
	return s.maxMessages
}

func (s *twinScan) wantBytes() int64 {
	if s.maxBytes == 0 {
		return 128 << 20
	}
	return min(max(s.maxBytes, 100), 128<<20)
}

func (s *twinScan) run() {
	s.status = getmessage.NoMatchedMessage
	s.next = s.offset
	look := max((s.limits.FilterBytes+19)/20, int64(s.want()))
	for off := s.offset; off < s.answer.max; off++ {
		if off-s.offset >= look || off/s.perFile != s.offset/s.perFile { // (a), and one queue file
			return
		}
		switch s.entry(s.at(off), off, false) {
		case full:
			return
		case unknown:
			if len(s.records) == 0 { // F3, corrected: nothing is skipped
				s.status, s.next = getmessage.OffsetFoundNull, s.offset
			}
			return
		case failed: // what was found before is given
			s.failed = len(s.records) == 0
			return
		}
		s.next = off + 1
	}
}

// batchFull is the table of the description, section 2.1.
func (s *twinScan) batchFull(size int64, inMemory bool) bool {
	count := len(s.records)
	bytesLimit, countLimit := s.limits.DiskBytes, s.limits.DiskMessages
	if inMemory {
		bytesLimit, countLimit = s.limits.MemoryBytes, s.limits.MemoryMessages
	}
	switch {
	case s.bytes == 0 || count == 0:
		return false
	case count+1 > s.want():
		return true
	case s.bytes+size > s.wantBytes():
		return true
	case s.bytes+size > bytesLimit:
		return true
	}
	return count > countLimit-1
}

func (s *twinScan) passed(status getmessage.Status) outcome {
	if len(s.records) == 0 {
		s.status = status
	}
	return consumed
}

func (s *twinScan) entry(e consumequeue.Entry, off int64, healed bool) outcome {
	if !real(e) { // never written, a filler (F4), or nonsense
		if len(s.records) >= max(s.want(), 1) || s.bytes >= s.wantBytes() {
			return full
		}
		return s.wrong(e, off, healed)
	}
	inMemory := s.logMax-e.Offset <= s.threshold
	if s.batchFull(int64(e.Size), inMemory) || s.bytes >= s.wantBytes() { // (b), (c)
		return full
	}
	if e.Offset < s.skipUntil { // (d)
		s.reach(e)
		return consumed
	}
	if !s.acceptsEntry(e.TagCode) { // (e)
		s.reach(e)
		return s.passed(getmessage.NoMatchedMessage)
	}
	if e.Offset < s.logMin { // (f)
		s.reach(e)
		s.skipUntil = s.logMin
		return s.passed(getmessage.MessageWasRemoving)
	}
	if int64(e.Size) > s.logMax-e.Offset {
		return s.wrong(e, off, healed)
	}
	if e.Offset/s.segment == s.outOfService {
		return failed
	}
	// F7, corrected: it has to be the record that the entry names.
	rec := s.places[e.Offset]
	if rec == nil || rec.size != int64(e.Size) || !rec.names(s.pull.topic, s.pull.queue, off) {
		return s.wrong(e, off, healed)
	}
	s.reach(e)
	if !s.acceptsRecord(e.TagCode, rec) { // (h)
		return s.passed(getmessage.NoMatchedMessage)
	}
	s.records = append(s.records, rec)
	s.bytes += rec.size
	s.status = getmessage.Found
	return consumed
}

// real reports whether an entry could be one of a record: also its end is an offset.
func real(e consumequeue.Entry) bool {
	return e.Offset >= 0 && e.Size > 0 && e.Size != math.MaxInt32 && e.Offset+int64(e.Size) > e.Offset
}

func (s *twinScan) reach(e consumequeue.Entry) { s.reached, s.pulled = true, e.Offset }

// wrong is an entry that names no record of its queue: the log is asked.
func (s *twinScan) wrong(e consumequeue.Entry, off int64, healed bool) outcome {
	if !healed {
		if i := off - s.first; i >= 0 && i < int64(len(s.slots)) {
			switch s.slots[i].heal {
			case healUnavailable:
				return unknown
			case healFails:
				return failed
			}
		}
		if right, ok := s.healed(off); ok && right != e {
			return s.entry(right, off, true)
		}
	}
	if s.strict {
		return failed
	}
	if real(e) && e.Offset < s.logMax { // it may have been there; beyond the end nothing was reached
		s.reach(e)
	}
	s.damaged++
	return s.passed(getmessage.MessageWasRemoving)
}

// acceptsEntry is the filter by the tag code in the queue.
func (s *twinScan) acceptsEntry(code int64) bool {
	if s.everything() {
		return true
	}
	const extAddress = -2147483649 // and below: says nothing about the tag
	return code <= extAddress || slices.ContainsFunc(s.subscribed(), func(tag string) bool { return twinHash(tag) == int32(code) })
}

// acceptsRecord is the filter by the record: exact, or where the entry had no hash.
func (s *twinScan) acceptsRecord(code int64, rec *place) bool {
	switch {
	case s.everything():
		return true
	case s.exact:
		return slices.Contains(s.subscribed(), rec.tags)
	case code <= -2147483649:
		return slices.ContainsFunc(s.subscribed(), func(tag string) bool { return twinHash(tag) == twinHash(rec.tags) })
	}
	return true
}

func (s *twinScan) subscribed() (tags []string) {
	for _, tag := range strings.Split(s.tags, "||") {
		if tag = strings.Trim(tag, " "); tag != "" {
			tags = append(tags, tag)
		}
	}
	return tags
}

// decide is the suggestion, by distance: F1 is as in RocketMQ, so that the whole log counts
// where no entry was reached.
func (s *twinScan) decide() {
	s.diff = s.logMax - s.pulled
	s.suggested = s.diff > s.threshold
	switch {
	case !s.reached:
		s.reason = getmessage.NoEntryReached
	case s.suggested:
		s.reason = getmessage.BeyondThreshold
	default:
		s.reason = getmessage.WithinThreshold
	}
}
