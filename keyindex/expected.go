package keyindex

import (
	"slices"

	"github.com/warmlog/warmlog/message"
)

// expected is which entries one record should have, and how many of them were seen.
type expected struct {
	offset int64
	keys   []int32 // hashes of UNIQ_KEY and KEYS, in order
	tag    int32   // hash of the tag, which has an entry only from RocketMQ 5.4 on
	tagged bool    // the record has a tag

	at     int  // keys[:at] were seen, in this round
	tagAt  bool // the tag was seen, in this round
	seen   bool // any entry was
	rounds int  // how often it began again
	cut    bool // a file begins in this record, and the one before is not known
}

// of starts with a record.
func (x *expected) of(v *message.View) {
	*x = expected{offset: v.PhysicalOffset(), keys: KeyHashes(x.keys[:0], v, false)}
	x.tag, x.tagged = tagKeyHash(v)
}

// take counts an entry. skipped are the keys that should have come before it; ok is
// whether the record has such a key at all. A record's keys may come again from the start
// when a broker was restarted, even if the last round was not finished.
func (x *expected) take(h int32) (skipped []int32, ok bool) {
	from := x.at
	i := slices.Index(x.keys[x.at:], h)
	first := x.seen && (len(x.keys) > 0 && x.keys[0] == h || len(x.keys) == 0 && x.tagged && x.tag == h)
	switch {
	case i >= 0:
		x.at += i + 1
	case x.tagged && !x.tagAt && h == x.tag:
		i, x.at, x.tagAt = len(x.keys)-x.at, len(x.keys), true
	case first:
		x.rounds++
		x.at, x.tagAt, i = min(1, len(x.keys)), len(x.keys) == 0, 0
		from = 0
	default:
		return nil, false
	}
	x.seen = true
	return x.keys[from : from+i], true
}

// has reports whether an entry with that hash is still wanted.
func (x *expected) has(h int32) bool {
	return slices.Contains(x.keys[x.at:], h) || x.tagged && !x.tagAt && h == x.tag
}

// replaced reports whether the entry stands where the next key should stand and what
// follows fits: then it was put for that key, and one of the two is damaged.
func (x *expected) replaced(p peeked) bool {
	if x.at == len(x.keys) {
		return false
	}
	if x.at+1 < len(x.keys) {
		return p.then.Hash == x.keys[x.at+1] && p.then.Offset == x.offset
	}
	return p.then.Offset != x.offset || x.tagged && p.then.Hash == x.tag
}

// rest returns the keys without an entry.
func (x *expected) rest() []int32 { return x.keys[x.at:] }
