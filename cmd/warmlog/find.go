package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/consumequeue"
)

func (a *app) find() *cobra.Command {
	var q warmlog.KeyQuery
	var queue int32
	var time int64
	cmd := &cobra.Command{
		Use:   "find DIR",
		Short: "Find messages by key, or an offset by time",
		Long: `find --key prints the messages of a topic that have a key and were stored within --from and
--to (both inclusive, ms since 1970): the newest, in physical order.
find --time prints the offset of the first message of a queue that was stored at that time
or later; the end of the queue, if all are older.`,
		Example: `  warmlog find /data/store --topic orders --key k1
  warmlog find /data/store --topic orders --key k1 --from 1700000000000 --to 1700000060000 --max 5
  warmlog find /data/store --topic orders --queue 0 --time 1700000000000`,
		Args: dirArg,
		RunE: a.begin(func(cmd *cobra.Command, args []string) error {
			flags := cmd.Flags()
			byKey, byTime := flags.Changed("key"), flags.Changed("time")
			switch {
			case byKey == byTime:
				return misuse{errors.New("either --key or --time")}
			case byKey && flags.Changed("queue"):
				return misuse{errors.New("--queue goes with --time")}
			case byTime && (flags.Changed("from") || flags.Changed("to") || flags.Changed("max")):
				return misuse{errors.New("--from, --to and --max go with --key")}
			case byTime:
				return a.runFindTime(cmd.Context(), args[0], q.Topic, queue, time)
			case q.Key == "":
				return misuse{errors.New("--key is empty")}
			case q.Max <= 0:
				return misuse{errors.New("--max is at least 1")}
			}
			if flags.Changed("to") && q.To == 0 {
				q.To = -1 // not "no bound"
			}
			return a.runFindKey(cmd.Context(), args[0], q)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&q.Topic, "topic", "", "topic")
	flags.StringVar(&q.Key, "key", "", "key of the message: its UNIQ_KEY or one of its KEYS")
	flags.Int64Var(&q.From, "from", 0, "stored at this time or later, ms since 1970")
	flags.Int64Var(&q.To, "to", 0, "stored at this time or earlier")
	flags.IntVar(&q.Max, "max", 64, "print at most so many, the newest")
	flags.Int32Var(&queue, "queue", 0, "queue of the topic")
	flags.Int64Var(&time, "time", 0, "search by store time, ms since 1970")
	_ = cmd.MarkFlagRequired("topic")
	return cmd
}

func (a *app) runFindTime(ctx context.Context, dir, topic string, queue int32, time int64) error {
	store, err := a.open(ctx, dir)
	if err != nil {
		return err
	}
	defer store.Close()
	off, err := store.OffsetByTime(ctx, topic, queue, time, consumequeue.Lower)
	if errors.Is(err, warmlog.ErrUnknownQueue) {
		a.note(err.Error())
		off, err = 0, nil // as a broker answers
	}
	if err != nil {
		return err
	}
	return writeJSON(a.out, struct {
		Offset int64 `json:"offset"`
	}{off})
}

func (a *app) runFindKey(ctx context.Context, dir string, q warmlog.KeyQuery) error {
	store, err := a.open(ctx, dir)
	if err != nil {
		return err
	}
	defer store.Close()
	r, err := store.FindByKey(ctx, q)
	if err != nil {
		return err
	}
	p := printer{app: a}
	for _, d := range r.Damaged {
		p.damaged = true
		a.damage(d)
	}
	var buf []byte
	for _, off := range r.Offsets {
		v, b, err := store.Record(off, buf)
		buf = b
		if err := p.print(&v, err); err != nil {
			return err
		}
	}
	if r.More {
		a.note("there are older messages with this key")
	}
	if p.damaged {
		return errDamage
	}
	return nil
}
