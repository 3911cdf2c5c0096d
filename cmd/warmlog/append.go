package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/message"
)

// maxBody is the largest body that append takes, in bytes: RocketMQ's limit.
const maxBody = 4 << 20

// storeHost is the address that appended records name as their broker's.
var storeHost = netip.MustParseAddrPort("127.0.0.1:10911")

type appendFlags struct {
	message  message.Message // what a line leaves out
	flushed  bool
	segment  int64
	queueLen int64
	wait     time.Duration // for another writer
	grace    time.Duration // after a signal
}

func (a *app) append() *cobra.Command {
	var f appendFlags
	cmd := &cobra.Command{
		Use:   "append DIR",
		Short: "Append messages from standard input",
		Long: `append appends a message for each line of standard input. The line, without its newline, is
the body, byte by byte. With --json each line is an object with any of topic, queue, tags,
keys, properties (names and strings), and body (a string) or bodyBase64; the flags say what
it leaves out.

For each message a JSON line says where it is, in the order of the input, as soon as the
message survives the death of this process; with --flushed, a power cut. Its msgId is that
which cat prints. A line that is refused is named on standard error, the rest goes on, and the
exit code is 1. The end of the input, an interrupt and a termination end it in order: lines that
were read are appended and acknowledged. A line that was begun is not a message then. After a
signal that takes no longer than --grace, and standard error says what it waits for; what was
not done then is found by the next start, and the exit code is 1. A second signal ends it at
once, with 128 and its number as exit code.

A store that is not there is made. A store has one writer: append does not go together with a
broker that runs on the same directory, and waits as long as --wait for another one to end.`,
		Example: `  echo hello | warmlog append /data/store --topic orders
  warmlog append /data/store --topic orders --queue 3 --tags paid --flushed < lines.txt
  echo '{"topic":"orders","keys":"k1","body":"hello"}' | warmlog append /data/store --json`,
		Args: dirArg,
		RunE: a.begin(func(cmd *cobra.Command, args []string) error {
			changed := cmd.Flags().Changed
			probe := f.message
			if a.json && !changed("topic") {
				probe.Topic = "any" // each line can have its own
			}
			switch err := probe.Validate(false); {
			case !a.json && !changed("topic"):
				return misuse{errors.New("--topic is needed, but with --json")}
			case err != nil:
				return misuse{err}
			case f.wait < 0 || f.grace < 0:
				return misuse{errors.New("--wait and --grace are not below 0")}
			case changed("segment-size") && (f.segment <= 0 || f.segment > math.MaxInt32):
				return misuse{fmt.Errorf("--segment-size is within 1 and %d", math.MaxInt32)}
			case changed("queue-file-size") && (f.queueLen <= 0 || f.queueLen%consumequeue.EntrySize != 0):
				return misuse{fmt.Errorf("--queue-file-size is a multiple of %d", consumequeue.EntrySize)}
			}
			return a.runAppend(cmd.Context(), args[0], &f)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.message.Topic, "topic", "", "topic")
	flags.Int32Var(&f.message.QueueID, "queue", 0, "queue of the topic")
	flags.StringVar(&f.message.Tags, "tags", "", "tag of the messages")
	flags.StringVar(&f.message.Keys, "keys", "", "keys of the messages, separated by spaces")
	flags.BoolVar(&f.flushed, "flushed", false, "acknowledge what survives a power cut")
	flags.Int64Var(&f.segment, "segment-size", 0, "bytes of a log segment of a new store (default 1 GiB)")
	flags.DurationVar(&f.wait, "wait", 0, "how long to wait for another writer of the store")
	flags.DurationVar(&f.grace, "grace", defaultGrace, "how long ending may take after a signal")
	flags.Int64Var(&f.queueLen, "queue-file-size", 0, "bytes of a queue file of a new store (default 6000000)")
	return cmd
}

func (a *app) runAppend(ctx context.Context, dir string, f *appendFlags) error {
	// A reader of the acknowledgements that goes away is an error of writing them, not the
	// end of the process: the store is closed in order.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)

	end := ending{app: a, grace: f.grace, step: "the lines that were read"}
	o := warmlog.Options{SegmentSize: f.segment, QueueFileSize: f.queueLen, MaxBody: maxBody, StoreHost: storeHost, LockWait: f.wait, Closing: end.waiting}
	if f.flushed {
		o.Durability = warmlog.Flushed
	}
	store, err := a.openToWrite(ctx, dir, o)
	if err != nil {
		return err
	}
	return end.run(ctx, func() error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		acks := newAcks(a, stop)
		read, err := a.appendLines(ctx, store, &f.message, acks)
		acks.finish()
		return errors.Join(acks.result(read), err, store.Close())
	})
}

// openToWrite opens a store, or makes it, and says what was odd about it.
func (a *app) openToWrite(ctx context.Context, dir string, o warmlog.Options) (*warmlog.Store, error) {
	b := newBar(a.err)
	defer b.finish()
	said := false
	o.Progress = func(p warmlog.Progress) {
		if !said && strings.HasPrefix(p.Phase, "waiting") {
			said = true
			a.note(p.Phase)
		}
		b.update(p)
	}
	store, err := warmlog.OpenContext(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	b.finish()
	for _, note := range store.Notes() {
		a.note(note)
	}
	for _, d := range store.Damaged() {
		a.damage(d)
	}
	return store, nil
}

// appendLines appends the lines of the input until it or ctx ends, and returns how many it
// read. What becomes of each goes to acks.
func (a *app) appendLines(ctx context.Context, store *warmlog.Store, defaults *message.Message, acks *acks) (read int64, err error) {
	most := maxBody
	if a.json {
		most = 6*maxBody + 1<<20 // a byte of a body can be written as six, and there is more than the body
	}
	in := newSplitter(ctx, a.in, most)
	for {
		line, err := in.next()
		var wrong refused
		switch {
		case errors.Is(err, io.EOF):
			return read, nil
		case errors.Is(err, errStopped):
			if in.length > 0 {
				acks.noteAtEnd(fmt.Sprintf("line %d was not complete, and is not appended", read+1))
			}
			return read, nil
		case err != nil && !errors.As(err, &wrong):
			return read, fmt.Errorf("read line %d: %w", read+1, err)
		}
		read++
		m := *defaults
		m.Body = line
		if err == nil && a.json {
			err = parseMessage(&m, line)
		}
		one := ack{line: read, topic: m.Topic, queue: m.QueueID, bytes: len(m.Body)}
		acks.expect(&one)
		if err != nil {
			acks.done(one, warmlog.Appended{}, err)
			continue
		}
		store.AppendAsync(&m, warmlog.StoreDefault, func(at warmlog.Appended, err error) { acks.done(one, at, err) })
	}
}
