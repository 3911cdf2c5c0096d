package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
)

// pullJSON is the answer to a pull.
type pullJSON struct {
	Status       string `json:"status"`
	Next         int64  `json:"next"`
	MinOffset    int64  `json:"minOffset"`
	MaxOffset    int64  `json:"maxOffset"`
	Count        int    `json:"count"`
	Bytes        int64  `json:"bytes"`
	Diff         int64  `json:"diff"`
	Threshold    int64  `json:"threshold"`
	SuggestSlave bool   `json:"suggestSlave"`
	Reason       string `json:"reason"`
	Policy       string `json:"policy"`
	Hint         string `json:"hint,omitempty"` // why a slave did not correct an offset
	// Of other policies than distance: how it is known where the next record is, its pages and
	// those in memory; and whether the messages were read by system call.
	Source   string         `json:"source,omitempty"`
	Pages    int64          `json:"pages,omitempty"`
	Resident int64          `json:"resident,omitempty"`
	Cold     bool           `json:"cold,omitempty"`
	Records  []*messageJSON `json:"records,omitempty"`
}

func (a *app) get() *cobra.Command {
	var req getmessage.Request
	var name string
	var slave bool
	var records bool
	cmd := &cobra.Command{
		Use:   "get DIR",
		Short: "Pull once, as a consumer would",
		Long: `get answers one pull as a broker would: status and offsets by RocketMQ's rules, and whether
the consumer should go to the slave, with the distance behind the end of the log (diff) and
the distance that counts as in memory (threshold), in bytes.

By distance, RocketMQ's rule, that alone decides. By residency the kernel is asked whether the
record that the next pull reads first is in memory; hybrid is the same of a tool, which has
written nothing. Where the kernel does not tell, distance decides.`,
		Example: `  warmlog get /data/store --topic orders --queue 0 --offset 7
  warmlog get /data/store --topic orders --queue 0 --offset 7 --max 8 --records`,
		Args: dirArg,
		RunE: a.begin(func(cmd *cobra.Command, args []string) error {
			policy, err := getmessage.ParsePolicy(name)
			if err != nil {
				return misuse{err}
			}
			if req.QueueID < 0 {
				return misuse{errors.New("--queue is not negative")}
			}
			if req.MaxMessages <= 0 {
				req.MaxMessages = -1 // what 0 means to RocketMQ
			}
			return a.runGet(cmd.Context(), args[0], &req, warmlog.Options{ReadOnly: true, Role: role(slave), Policy: policy}, records)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Topic, "topic", "", "topic")
	flags.Int32Var(&req.QueueID, "queue", 0, "queue of the topic")
	flags.Int64Var(&req.Offset, "offset", 0, "queue offset of the first message wanted")
	flags.IntVar(&req.MaxMessages, "max", 32, "messages wanted at most")
	flags.StringVar(&req.Group, "group", "warmlog", "consumer group")
	flags.StringVar(&name, "policy", getmessage.Distance.String(), "how to decide about the slave: distance, hybrid or residency")
	flags.BoolVar(&slave, "slave", false, "answer as a slave, which corrects no offset")
	flags.BoolVar(&records, "records", false, "add the messages")
	_ = cmd.MarkFlagRequired("topic")
	_ = cmd.MarkFlagRequired("offset")
	return cmd
}

func role(slave bool) getmessage.Role {
	if slave {
		return getmessage.Slave
	}
	return getmessage.Master
}

func (a *app) runGet(ctx context.Context, dir string, req *getmessage.Request, o warmlog.Options, records bool) error {
	store, err := a.openWith(ctx, dir, o)
	if err != nil {
		return err
	}
	defer store.Close()
	var b getmessage.Batch
	defer b.Release()
	if err := store.Get(ctx, req, &b); err != nil {
		return err
	}
	d := b.Decision
	answer := pullJSON{
		Status: b.Status.String(), Next: b.NextOffset, MinOffset: b.MinOffset, MaxOffset: b.MaxOffset, Count: len(b.Records()), Bytes: b.Bytes,
		Diff: d.Diff, Threshold: d.Threshold, SuggestSlave: d.SuggestSlave, Reason: d.Reason.String(), Policy: d.Policy.String(), Hint: b.Hint.String(),
	}
	if d.Policy != getmessage.Distance {
		answer.Source, answer.Pages, answer.Resident, answer.Cold = d.Source.String(), d.Pages, d.Resident, d.Cold
	}
	if records {
		err := getmessage.Guard(func() {
			for _, v := range b.Records() {
				answer.Records = append(answer.Records, messageLine(&v, false))
			}
		})
		if err != nil {
			return err
		}
	}
	if err := writeJSON(a.out, answer); err != nil {
		return err
	}
	for _, d := range b.Damaged {
		a.damage(d)
	}
	if len(b.Damaged) > 0 {
		return errDamage
	}
	return nil
}
