package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/warmlog/warmlog/getmessage"
)

// demoJSON is what demo prints with --json.
type demoJSON struct {
	Dir         string       `json:"dir"`
	Kept        bool         `json:"kept"`
	Messages    int64        `json:"messages"`
	BodyBytes   int          `json:"bodyBytes"` // of a message
	SegmentSize int64        `json:"segmentSize"`
	LogBytes    int64        `json:"logBytes"`
	Memory      int64        `json:"memory"` // the bytes that stand in for it
	Append      []rateJSON   `json:"append"`
	Read        []rateJSON   `json:"read"`
	Readers     []readerJSON `json:"readers"`
}

// rateJSON is how fast something went.
type rateJSON struct {
	What              string  `json:"what"`
	Messages          int64   `json:"messages"`
	Pulls             int64   `json:"pulls,omitempty"`
	Seconds           float64 `json:"seconds"`
	MessagesPerSecond float64 `json:"messagesPerSecond"`
	BytesPerSecond    float64 `json:"bytesPerSecond"` // of bodies
	NanosPerMessage   float64 `json:"nanosPerMessage"`
}

// readerJSON is what the store suggests to a consumer.
type readerJSON struct {
	Reader       string `json:"reader"`
	Offset       int64  `json:"offset"` // of its pull, in the queue
	Diff         int64  `json:"diff"`
	Threshold    int64  `json:"threshold"`
	SuggestSlave bool   `json:"suggestSlave"`
	Reason       string `json:"reason"`
	Sentence     string `json:"sentence"`
}

func (d *demo) rate(what string, messages, pulls int64, took time.Duration) rateJSON {
	took = max(took, 1)
	perSecond := float64(messages) / took.Seconds()
	return rateJSON{what, messages, pulls, took.Seconds(), perSecond, perSecond * float64(d.flags.body), float64(took) / float64(messages)}
}

// appendRow appends messages in one way, until consumers can see the last one, and adds them
// to the row of that way.
func (d *demo) appendRow(ctx context.Context, what string, n int64, do func(ctx context.Context, phase string, n int64) error) error {
	began := time.Now()
	err := do(ctx, "append: "+what, n)
	if err == nil {
		err = d.store.Dispatched(ctx)
	}
	if err != nil {
		return fmt.Errorf("append, %s: %w", what, err)
	}
	took := time.Since(began)
	i := slices.IndexFunc(d.result.Append, func(r rateJSON) bool { return r.What == what })
	if i < 0 {
		i = len(d.result.Append)
		d.result.Append = append(d.result.Append, rateJSON{})
	}
	row := &d.result.Append[i]
	*row = d.rate(what, row.Messages+n, 0, took+time.Duration(row.Seconds*float64(time.Second)))
	_, end, err := d.store.QueueBounds(ctx, demoTopic, 0)
	if d.next += n; err == nil && end != d.next {
		err = fmt.Errorf("append, %s: the queue ends at %d instead of %d", what, end, d.next)
	}
	return err
}

func (d *demo) readRow(ctx context.Context, what string, from int64, most int) error {
	began := time.Now()
	pulls, err := d.pulls(ctx, "read: "+what, from, most)
	if err != nil {
		return fmt.Errorf("read, %s: %w", what, err)
	}
	d.result.Read = append(d.result.Read, d.rate(what, d.flags.messages, pulls, time.Since(began)))
	return nil
}

// decide asks what the store suggests to a consumer that pulls at an offset.
func (d *demo) decide(ctx context.Context, name string, from int64) error {
	var b getmessage.Batch
	defer b.Release()
	req := getmessage.Request{Group: "demo", Topic: demoTopic, Offset: from, MaxMessages: demoBatch}
	if err := d.store.Get(ctx, &req, &b); err != nil {
		return fmt.Errorf("pull %s: %w", name, err)
	}
	c := b.Decision
	d.result.Readers = append(d.result.Readers, readerJSON{name, from, c.Diff, c.Threshold, c.SuggestSlave, c.Reason.String(), sentence(c)})
	return nil
}

// sentence says why a decision is as it is.
func sentence(c getmessage.Decision) string {
	diff, threshold := size(c.Diff), size(c.Threshold)
	switch c.Reason {
	case getmessage.WithinThreshold:
		return fmt.Sprintf("It reads %s behind the end; the newest %s count as in memory.", diff, threshold)
	case getmessage.BeyondThreshold:
		return fmt.Sprintf("It reads %s behind the end; only the newest %s count as in memory.", diff, threshold)
	case getmessage.NoEntryReached:
		return "Nothing could be read, and the whole log counts as the distance."
	}
	return "Nothing was read."
}

func printDemo(out io.Writer, r *demoJSON) {
	printf(out, "%s messages of %s; a log of %s in segments of %s\n", count(r.Messages), size(int64(r.BodyBytes)), size(r.LogBytes), size(r.SegmentSize))
	printf(out, "\n%-30s %10s %12s %10s %13s\n", "append", "messages", "per second", "MB/s", "time for one")
	for _, row := range r.Append {
		printRate(out, &row, "\n")
	}
	printf(out, "Until consumers see the last one. Flushed survives a power cut, the rest the death of the process.\n")
	printf(out, "\n%-30s %10s %12s %10s %13s %10s\n", "read", "messages", "per second", "MB/s", "time for one", "in a pull")
	for _, row := range r.Read {
		printRate(out, &row, fmt.Sprintf(" %10.1f\n", float64(row.Messages)/float64(row.Pulls)))
	}
	printf(out, "Who is far behind gets smaller batches. Nothing came from disk.\n")
	printf(out, "\nWho should read from the slave? Here %s stand in for this broker's memory.\n\n", size(r.Memory))
	printf(out, "%-30s %10s %12s %10s %13s\n", "consumer", "offset", "diff", "threshold", "use the slave")
	for _, one := range r.Readers {
		printf(out, "%-30s %10s %12s %10s %13s\n", one.Reader, count(one.Offset), size(one.Diff), size(one.Threshold), yesNo(one.SuggestSlave))
	}
	for _, one := range r.Readers {
		printf(out, "%s: %s\n", one.Reader, one.Sentence)
	}
	if r.LogBytes <= r.Memory {
		printf(out, "The whole log counts as in memory: take more --messages or less --memory.\n")
	}
	if r.Kept {
		printf(out, "\nThe store is kept: warmlog inspect %s\n", r.Dir)
	}
}

// printRate prints a row, and what comes after it.
func printRate(out io.Writer, r *rateJSON, rest string) {
	printf(out, "%-30s %10s %12s %10.1f %13s%s", r.What, count(r.Messages), count(int64(r.MessagesPerSecond)), r.BytesPerSecond/1e6, nanos(r.NanosPerMessage), rest)
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// count writes a number with commas.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// size writes bytes for people.
func size(n int64) string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.bytes {
			return strconv.FormatFloat(float64(n/unit.bytes)+float64(n%unit.bytes*10/unit.bytes)/10, 'f', -1, 64) + " " + unit.name
		}
	}
	return count(n) + " bytes"
}

// nanos writes a time of ns with three digits.
func nanos(ns float64) string {
	for _, unit := range []struct {
		nanos float64
		name  string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}} {
		if ns >= unit.nanos {
			return strconv.FormatFloat(ns/unit.nanos, 'f', 2, 64) + " " + unit.name
		}
	}
	return strconv.FormatFloat(ns, 'f', 0, 64) + " ns"
}
