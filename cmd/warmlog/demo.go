package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/message"
	"github.com/warmlog/warmlog/pagecache"
)

const (
	demoTopic       = "demo"
	demoSegmentSize = 64 << 20
	demoBatch       = 32 // messages in a call
	demoTurns       = 8
	leastMessages   = 100
)

type demoFlags struct {
	dir      string
	messages int64
	body     int
	memory   int64
}

func (a *app) demo() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Append and read messages, and see what that takes and when to use the slave",
		Long: fmt.Sprintf(`demo writes messages to a new store in a temporary directory, in every way there is, and reads
them: near the end of the log, where a consumer is that keeps up, and from its beginning, where
one is that is far behind. It says how fast that was, and what the store suggests to either of
the two consumers: to go on, or to read from the slave.

A message that lies further behind the end than --memory is taken for one on disk. Brokers take
a share of the machine's memory for that; the demo a small number, so that it is reached in
seconds. Everything is in memory all the same, so that reading far behind is not slow here:
what the suggestion spares a real broker is reading from disk.

Log segments have %d MiB. With --dir the store is kept, in a directory that is new or empty.`, demoSegmentSize>>20),
		Example: `  warmlog demo
  warmlog demo --messages 20000 --body 128 --memory 1000000
  warmlog demo --dir /tmp/demo && warmlog inspect /tmp/demo`,
		Args: cobra.NoArgs,
		RunE: a.begin(func(cmd *cobra.Command, _ []string) error {
			switch {
			case f.messages < leastMessages:
				return misuse{fmt.Errorf("--messages is at least %d", leastMessages)}
			case f.body < 0 || f.body > maxBody:
				return misuse{fmt.Errorf("--body is within 0 and %d", maxBody)}
			case f.memory <= 0:
				return misuse{errors.New("--memory is at least 1")}
			}
			return a.runDemo(cmd.Context(), &f)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dir, "dir", "", "keep the store in this directory (default: a temporary one, removed at the end)")
	flags.Int64Var(&f.messages, "messages", 200_000, "messages to append")
	flags.IntVar(&f.body, "body", 1024, "bytes of a message's body")
	flags.Int64Var(&f.memory, "memory", 64<<20, "bytes that stand in for the memory")
	return cmd
}

func (a *app) runDemo(ctx context.Context, f *demoFlags) (err error) {
	d := demo{flags: f, bar: newBar(a.err), result: demoJSON{Dir: f.dir, Kept: f.dir != "", Messages: f.messages, BodyBytes: f.body,
		SegmentSize: demoSegmentSize, Memory: f.memory}}
	defer d.bar.finish()
	if f.dir == "" {
		if d.result.Dir, err = os.MkdirTemp("", "warmlog-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(d.result.Dir)) }()
	} else if names, err := os.ReadDir(f.dir); err == nil && len(names) > 0 {
		return fmt.Errorf("%s is not empty: demo begins a store of its own", f.dir)
	}
	d.ending = ending{app: a, grace: defaultGrace, step: "the messages that are under way"}
	if err := d.ending.run(ctx, func() error { return d.run(ctx) }); err != nil {
		return err
	}
	d.bar.finish()
	if a.json {
		return writeJSON(a.out, &d.result)
	}
	printDemo(a.out, &d.result)
	return nil
}

// demo is one run.
type demo struct {
	flags  *demoFlags
	bar    *bar
	store  *warmlog.Store
	ending ending
	next   int64 // queue offset of the next message
	looks  int64 // calls of look
	result demoJSON
}

// run appends the messages and reads them. What is flushed comes first, in a store that
// flushes all; the store is then opened again, as after a restart.
func (d *demo) run(ctx context.Context) error {
	n := d.flags.messages
	flushed, flushedAsync := max(1, n/1000), n/20
	err := d.with(warmlog.Flushed, func() error {
		if err := d.appendRow(ctx, "flushed, one by one", flushed, d.oneByOne); err != nil {
			return err
		}
		return d.appendRow(ctx, "flushed, asynchronous", flushedAsync, d.asynchronous)
	})
	if err != nil {
		return err
	}
	rest := n - flushed - flushedAsync
	return d.with(warmlog.Written, func() error {
		// In turns, so that none has the disk and the memory in a better state than others.
		for turn := range int64(demoTurns) {
			part := rest*(turn+1)/demoTurns - rest*turn/demoTurns
			third := part / 3
			if err := d.appendRow(ctx, "one by one", part-2*third, d.oneByOne); err != nil {
				return err
			}
			if err := d.appendRow(ctx, fmt.Sprintf("%d in a call", demoBatch), third, d.inCalls); err != nil {
				return err
			}
			if err := d.appendRow(ctx, "asynchronous", third, d.asynchronous); err != nil {
				return err
			}
		}
		return d.read(ctx)
	})
}

// with opens the store, does something with it and closes it.
func (d *demo) with(durability warmlog.Durability, do func() error) (err error) {
	d.store, err = warmlog.Open(d.result.Dir, warmlog.Options{
		Policy:      getmessage.Distance, // the story is of the threshold
		SegmentSize: demoSegmentSize, MaxBody: maxBody, Durability: durability, Closing: d.ending.waiting, Memory: pagecache.ThresholdOptions{Bytes: d.flags.memory},
	})
	if err != nil {
		return err
	}
	return errors.Join(do(), d.store.Close())
}

// message makes the messages that are appended.
func (d *demo) message() *message.Message {
	return &message.Message{Topic: demoTopic, Tags: "demo", Body: bytes.Repeat([]byte("w"), d.flags.body)}
}

// look is called before each call of the store: it ends a run that nobody wants any more.
func (d *demo) look(ctx context.Context, phase string, done, total int64) error {
	if d.looks++; d.looks%256 != 0 {
		return nil
	}
	body := int64(max(1, d.flags.body)) // a bar has some length
	d.bar.update(warmlog.Progress{Phase: phase, Done: done * body, Total: total * body})
	return ctx.Err()
}

func (d *demo) oneByOne(ctx context.Context, phase string, n int64) error {
	m := d.message()
	for i := range n {
		if err := d.look(ctx, phase, i, n); err != nil {
			return err
		}
		if _, err := d.store.Append(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) inCalls(ctx context.Context, phase string, n int64) error {
	ms := make([]*message.Message, demoBatch)
	for i := range ms {
		ms[i] = d.message()
	}
	for i := int64(0); i < n; i += demoBatch {
		if err := d.look(ctx, phase, i, n); err != nil {
			return err
		}
		if _, err := d.store.AppendAll(ctx, ms[:min(demoBatch, n-i)], warmlog.StoreDefault); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) asynchronous(ctx context.Context, phase string, n int64) error {
	m := d.message()
	inFlight := make(chan struct{}, mostInFlight)
	var failed error // of the calls of done, which come one after the other
	done := func(_ warmlog.Appended, err error) {
		if failed == nil {
			failed = err
		}
		<-inFlight
	}
	var err error
	for i := int64(0); i < n && err == nil; i++ {
		if err = d.look(ctx, phase, i, n); err == nil {
			inFlight <- struct{}{}
			d.store.AppendAsync(m, warmlog.StoreDefault, done)
		}
	}
	for range cap(inFlight) { // room for all: none is left
		inFlight <- struct{}{}
	}
	return errors.Join(err, failed)
}

// read reads as consumers near the end and far behind do, and asks what is suggested to them.
func (d *demo) read(ctx context.Context) error {
	n := d.flags.messages
	low, high := d.store.Bounds()
	d.result.LogBytes = high - low
	// Near is the newest half of what counts as in memory.
	near := n - min(n, max(demoBatch, d.flags.memory/2*n/d.result.LogBytes))
	for _, way := range []struct {
		what string
		from int64
		most int
	}{
		{"near the end, 32 a pull", near, demoBatch},
		{"near the end, 1 a pull", near, 1},
		{"from the beginning, 32 a pull", 0, demoBatch},
		{"from the beginning, 1 a pull", 0, 1},
	} {
		if err := d.readRow(ctx, way.what, way.from, way.most); err != nil {
			return err
		}
	}
	for _, reader := range []struct {
		name string
		from int64
	}{{"at the tail", n - demoBatch}, {"far behind", 0}} {
		if err := d.decide(ctx, reader.name, reader.from); err != nil {
			return err
		}
	}
	return nil
}

// pulls reads all messages, or as many: from an offset to the end, and again from there.
func (d *demo) pulls(ctx context.Context, phase string, from int64, most int) (pulls int64, err error) {
	var b getmessage.Batch
	defer b.Release()
	n := d.flags.messages
	req := getmessage.Request{Group: "demo", Topic: demoTopic, Offset: from}
	for got := int64(0); got < n; pulls++ {
		if err := d.look(ctx, phase, got, n); err != nil {
			return pulls, err
		}
		req.MaxMessages = int(min(int64(most), n-got))
		if err := d.store.Get(ctx, &req, &b); err != nil {
			return pulls, err
		}
		if len(b.Records()) == 0 {
			return pulls, fmt.Errorf("no message at offset %d: %v", req.Offset, b.Status)
		}
		for i, v := range b.Records() {
			if want := req.Offset + int64(i); v.QueueOffset() != want || len(v.Body()) != d.flags.body {
				return pulls, fmt.Errorf("message %d with a body of %d bytes instead of message %d", v.QueueOffset(), len(v.Body()), want)
			}
		}
		got += int64(len(b.Records()))
		if req.Offset = b.NextOffset; req.Offset == n {
			req.Offset = from
		}
	}
	return pulls, nil
}
