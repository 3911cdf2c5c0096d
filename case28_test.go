package warmlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/message"
)

// refused are messages that no store takes, and a word of the error that says why.
func refused(maxBody int) map[string]*message.Message {
	long := func(n int) string { return strings.Repeat("x", n) }
	return map[string]*message.Message{
		"no topic":                {Topic: ""},
		"a topic of 256 bytes":    {Topic: long(256)},
		"a topic with a path":     {Topic: "a/b"},
		"the parent directory":    {Topic: ".."},
		"this directory":          {Topic: "."},
		"a topic with a zero":     {Topic: "a\x00b"},
		"a topic not UTF-8":       {Topic: "a\xff"},
		"a queue below 0":         {Topic: "orders", QueueID: -1},
		"an absurd queue":         {Topic: "orders", QueueID: 1 << 30},
		"a body over the limit":   {Topic: "orders", Body: make([]byte, maxBody+1)},
		"properties too long":     {Topic: "orders", Properties: []message.Property{{Name: "a", Value: long(32768)}}},
		"keys with a separator":   {Topic: "orders", Keys: "a\x01b"},
		"tags with a separator":   {Topic: "orders", Tags: "a\x02b"},
		"a name with one":         {Topic: "orders", Properties: []message.Property{{Name: "a\x01", Value: "b"}}},
		"a property with no name": {Topic: "orders", Properties: []message.Property{{Name: "", Value: "b"}}},
	}
}

// A message that is refused uses up nothing: no byte of the log, no offset of a queue. A
// batch is appended whole or not at all, and its members are what they are alone.
func TestCase28RefusedMessages(t *testing.T) {
	const maxBody = 1 << 14
	for _, crc := range []bool{false, true} {
		ctx := context.Background()
		s := create(t, t.TempDir(), warmlog.Options{MaxBody: maxBody, RecordCRC: crc})
		next := int64(0)
		end := func() int64 { _, end := s.Bounds(); return end }
		good := func(body []byte) {
			t.Helper()
			r, err := s.Append(ctx, &message.Message{Topic: "orders", Body: body, Tags: "t"})
			if err != nil || r.QueueOffset != next {
				t.Fatalf("%+v, %v, want offset %d", r, err, next)
			}
			next++
		}
		good(nil)
		for name, m := range refused(maxBody) {
			before := end()
			if _, err := s.Append(ctx, m); !errors.Is(err, warmlog.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
			s.AppendAsync(m, warmlog.StoreDefault, func(_ warmlog.Appended, err error) {
				if !errors.Is(err, warmlog.ErrInvalid) {
					t.Errorf("%s: %v", name, err)
				}
			})
			for _, n := range []int{1, 2, 128} {
				batch := make([]*message.Message, n)
				for i := range batch {
					batch[i] = &message.Message{Topic: "orders", Body: []byte{byte(i)}}
				}
				batch[n/2] = m
				if got, err := s.AppendAll(ctx, batch, warmlog.StoreDefault); !errors.Is(err, warmlog.ErrInvalid) || got != nil {
					t.Errorf("%s among %d: %v, %v", name, n, got, err)
				}
			}
			if end() != before {
				t.Errorf("%s: %d bytes were used up", name, end()-before)
			}
			good([]byte(name))
		}
		good(make([]byte, maxBody)) // the limit itself
		// More than a segment at once.
		big := make([]*message.Message, 5)
		for i := range big {
			big[i] = &message.Message{Topic: "orders", Body: make([]byte, maxBody)}
		}
		if _, err := s.AppendAll(ctx, big, warmlog.StoreDefault); !errors.Is(err, warmlog.ErrInvalid) {
			t.Errorf("a batch of more than a segment: %v", err)
		}
		good(nil)
		sameInBatches(t, s, next, crc)
		must(t, s.Close())
		if _, err := s.Append(ctx, &message.Message{Topic: "orders"}); !errors.Is(err, warmlog.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	}
}

// sameInBatches appends messages alone and in batches that cross segments.
func sameInBatches(t *testing.T, s *warmlog.Store, next int64, crc bool) {
	t.Helper()
	ctx := context.Background()
	for n := range 40 {
		var batch []*message.Message
		for i := range n {
			batch = append(batch, &message.Message{Topic: "orders", Body: bytes.Repeat([]byte{byte(i)}, i*53), Tags: fmt.Sprint("t", i%3),
				Keys: fmt.Sprint("k", i), Properties: []message.Property{{Name: "n", Value: fmt.Sprint(i)}}, BornTimestamp: 7})
		}
		got, err := s.AppendAll(ctx, batch, warmlog.StoreDefault)
		must(t, err)
		for i, r := range got {
			if r.QueueOffset != next {
				t.Fatalf("member %d of %d: %+v, want offset %d", i, n, r, next)
			}
			next++
		}
		for i, m := range batch {
			alone, err := s.Append(ctx, m)
			must(t, err)
			next++
			a, _, err := s.Record(got[i].PhysicalOffset, nil)
			must(t, err)
			b, _, err := s.Record(alone.PhysicalOffset, nil)
			must(t, err)
			pa, pb := a.Properties(), b.Properties()
			if crc { // the checksum is over its place, too
				pa, pb = pa[:len(pa)-message.PropCRCSize], pb[:len(pb)-message.PropCRCSize]
			}
			if !bytes.Equal(a.Body(), b.Body()) || !bytes.Equal(pa, pb) || a.TagCode() != b.TagCode() || a.BodyCRC() != b.BodyCRC() || a.Size() != b.Size() {
				t.Fatalf("member %d of %d differs from the same message alone", i, n)
			}
		}
	}
	must(t, s.Dispatched(ctx))
	var b getmessage.Batch
	defer b.Release()
	must(t, s.Get(ctx, &getmessage.Request{Topic: "orders", Offset: next}, &b))
	if b.Status != getmessage.OffsetOverflowOne {
		t.Errorf("at %d: %v, the queue ends with %d", next, b.Status, b.MaxOffset)
	}
}
