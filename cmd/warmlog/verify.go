package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/message"
)

// verifyJSON is the last line of verify with --json.
type verifyJSON struct {
	Segments     int      `json:"segments"`
	Bytes        int64    `json:"bytes"`
	Records      int64    `json:"records"`
	Queues       int      `json:"queues"`
	QueueEntries int64    `json:"queueEntries"`
	IndexFiles   int      `json:"indexFiles"`
	IndexEntries int64    `json:"indexEntries"`
	Damage       int64    `json:"damage"`
	Told         []string `json:"told"`
}

func (a *app) verify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify DIR",
		Short: "Check everything in a store",
		Long: `verify reads the whole log, all queue files and the key index, compares them, and prints a
line for each damage: file, byte, kind. It writes nothing. A tail that recovery would cut,
and queues and index that are behind the log, are no damage; they are told. The exit code is
1 where there is damage.`,
		Example: `  warmlog verify /data/store
  warmlog verify /data/store --json | jq -r 'select(.kind) | .file'`,
		Args: dirArg,
		RunE: a.begin(func(cmd *cobra.Command, args []string) error { return a.runVerify(cmd.Context(), args[0]) }),
	}
}

func (a *app) runVerify(ctx context.Context, dir string) error {
	b := newBar(a.err)
	store, err := warmlog.OpenContext(ctx, dir, warmlog.Options{ReadOnly: true, Progress: b.update})
	if d, ok := asDamage(err); ok {
		b.finish()
		a.printDamage(d)
	}
	if err != nil {
		return err
	}
	defer store.Close()
	v, err := store.Verify(ctx, a.printDamage)
	b.finish()
	if err != nil {
		return err
	}
	if a.json {
		err = writeJSON(a.out, verifyJSON{v.Segments, v.Bytes, v.Records, v.Queues, v.Entries, v.Index.Files, v.Index.Entries, v.Damage, append([]string{}, v.Told...)})
	} else {
		for _, line := range v.Told {
			printf(a.out, "told: %s\n", line)
		}
		printf(a.out, "checked %d bytes in %d segments, %d records, %d entries of %d queues, %d entries of %d index files: %d damaged\n",
			v.Bytes, v.Segments, v.Records, v.Entries, v.Queues, v.Index.Entries, v.Index.Files, v.Damage)
	}
	if err == nil && v.Damage > 0 {
		err = errDamage
	}
	return err
}

// printDamage prints a line of verify.
func (a *app) printDamage(d *message.DamageError) {
	if a.json {
		_ = writeJSON(a.out, damageLine(d)) // that the output is gone shows when it is flushed
		return
	}
	printf(a.out, "%s at byte %d: %s: %v\n", d.File, d.Offset, message.KindName(d), d.Err)
}
