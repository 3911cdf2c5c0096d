package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/message"
)

// repairStepJSON is one line of repair with --json.
type repairStepJSON struct {
	Step   string `json:"step"`
	File   string `json:"file"`
	Kind   string `json:"kind,omitempty"` // of the damage, if it is one
	Offset *int64 `json:"offset,omitempty"`
}

// repairJSON is the last line.
type repairJSON struct {
	DryRun bool   `json:"dryRun"`
	Steps  int    `json:"steps"`
	Left   int    `json:"left"`  // damage that stays
	Aside  string `json:"aside"` // where what was removed is
}

func (a *app) repair() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "repair DIR",
		Short: "Make a damaged store readable again",
		Long: `repair does what verify found a need for: it cuts off what lies behind the end of the log,
makes damaged queue files and a damaged index again from the log, and leaves damaged records
where they are, for readers to pass over. What it removes is kept in DIR/warmlog/aside. It
prints what it does; with --dry-run it changes nothing. The store must not be in use. The exit
code is 1 where damaged records stay.`,
		Example: `  warmlog repair /data/store --dry-run
  warmlog repair /data/store`,
		Args: dirArg,
		RunE: a.begin(func(cmd *cobra.Command, args []string) error { return a.runRepair(cmd.Context(), args[0], dryRun) }),
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done, and change nothing")
	return cmd
}

func (a *app) runRepair(ctx context.Context, dir string, dryRun bool) error {
	b := newBar(a.err)
	r, err := warmlog.Repair(ctx, dir, warmlog.Options{Progress: b.update}, dryRun)
	b.finish()
	if err != nil {
		return err
	}
	for _, s := range r.Steps {
		a.printStep(s)
	}
	left := len(r.Left)
	if a.json {
		err = writeJSON(a.out, repairJSON{dryRun, len(r.Steps), left, r.Aside})
	} else {
		switch {
		case len(r.Steps) == 0:
			printf(a.out, "nothing to do\n")
		case dryRun:
			printf(a.out, "%d steps would be taken\n", len(r.Steps))
		default:
			printf(a.out, "%d steps taken; %d damaged places stay", len(r.Steps), left)
			if r.Aside != "" {
				printf(a.out, "; what was removed is in %s", r.Aside)
			}
			printf(a.out, "\n")
		}
	}
	if err == nil && left > 0 {
		err = errDamage
	}
	return err
}

func (a *app) printStep(s warmlog.RepairStep) {
	if a.json {
		line := repairStepJSON{Step: s.What, File: s.File}
		if s.Damage != nil {
			line.Kind, line.Offset = message.KindName(s.Damage), &s.Damage.Offset
		}
		_ = writeJSON(a.out, line) // that the output is gone shows when it is flushed
		return
	}
	if s.Damage != nil {
		printf(a.out, "%s: %v\n", s.What, s.Damage)
		return
	}
	printf(a.out, "%s: %s\n", s.What, s.File)
}
