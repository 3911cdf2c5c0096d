package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/message"
)

type catFlags struct {
	topic  string
	queue  int32
	offset int64
	max    int64
	log    bool
	body   bool
}

func (a *app) cat() *cobra.Command {
	var f catFlags
	cmd := &cobra.Command{
		Use:   "cat DIR",
		Short: "Print messages as JSON lines",
		Long: `cat prints messages as JSON lines: of one queue, of one topic, or of the whole store queue
by queue; with --log every record in physical order, also those that are in no queue.
Every record's checksums are compared. A damaged one is named on standard error, the rest is
printed, and the exit code is 1. Body length, hash and content are of the body as it is
stored, which may be compressed.`,
		Example: `  warmlog cat /data/store --topic orders --queue 0 --offset 7 --max 10
  warmlog cat /data/store --topic orders --body
  warmlog cat /data/store --log`,
		Args: dirArg,
		RunE: a.begin(func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.Flags().Changed("queue") && f.topic == "":
				return misuse{errors.New("--queue needs --topic")}
			case f.log && f.topic != "":
				return misuse{errors.New("--log prints the whole log, without --topic")}
			case f.max < 0 || f.offset < 0:
				return misuse{errors.New("--max and --offset are not negative")}
			}
			return a.runCat(cmd.Context(), args[0], &f, cmd.Flags().Changed("queue"), cmd.Flags().Changed("max"))
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "only this topic")
	flags.Int32Var(&f.queue, "queue", 0, "only this queue of the topic")
	flags.Int64Var(&f.offset, "offset", 0, "begin at this queue offset; with --log at this physical offset")
	flags.Int64Var(&f.max, "max", 0, "print at most so many messages")
	flags.BoolVar(&f.log, "log", false, "print every record in physical order")
	flags.BoolVar(&f.body, "body", false, "add the stored body as bodyBase64")
	return cmd
}

// errEnough ends the printing.
var errEnough = errors.New("enough")

func (a *app) runCat(ctx context.Context, dir string, f *catFlags, oneQueue, bounded bool) error {
	store, err := a.open(ctx, dir)
	if err != nil {
		return err
	}
	defer store.Close()
	p := printer{app: a, body: f.body, left: f.max, bounded: bounded}
	if f.log {
		err = p.log(ctx, store, f.offset)
	} else {
		err = p.queues(ctx, store, f, oneQueue)
	}
	if err != nil && err != errEnough {
		return err
	}
	if p.damaged {
		return errDamage
	}
	return nil
}

// printer prints messages until there are enough.
type printer struct {
	*app
	body    bool
	left    int64 // messages, if bounded
	bounded bool
	damaged bool
}

func (p *printer) queues(ctx context.Context, store *warmlog.Store, f *catFlags, oneQueue bool) error {
	found := false
	for _, q := range store.Queues() {
		if f.topic != "" && q.Topic != f.topic || oneQueue && q.ID != f.queue {
			continue
		}
		found = true
		for v, err := range store.Messages(ctx, q.Topic, q.ID, f.offset) {
			if err := p.print(v, err); err != nil {
				return err
			}
		}
	}
	if !found && f.topic != "" {
		p.note("the store has no such queue")
	}
	return nil
}

func (p *printer) log(ctx context.Context, store *warmlog.Store, from int64) error {
	begin, err := store.RecordAt(from)
	if err != nil {
		return err
	}
	for v, err := range store.Records(ctx, begin) {
		if err == nil && v.PhysicalOffset() < from {
			continue
		}
		if err := p.print(v, err); err != nil {
			return err
		}
	}
	return nil
}

func (p *printer) print(v *message.View, err error) error {
	if d, ok := asDamage(err); ok {
		p.damaged = true
		p.damage(d)
		return nil
	}
	if err != nil {
		return err
	}
	if p.bounded && p.left <= 0 {
		return errEnough
	}
	p.left--
	return writeJSON(p.out, messageLine(v, p.body))
}
