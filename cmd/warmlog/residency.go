package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/warmlog/warmlog"
	"golang.org/x/term"
)

// watchEvery is how often --watch looks.
const watchEvery = time.Second

func (a *app) residency() *cobra.Command {
	var v residencyView
	cmd := &cobra.Command{
		Use:   "residency DIR",
		Short: "Say which parts of a store are in memory",
		Long: `residency asks the kernel which pages of segments and queue files are in memory, and shows
where: each character of a strip stands for an equal part of the file,

  █ all of it in memory   ▓ ▒ ░ less   · nothing   ? not known   blank: never written

It says what may be believed of the kernel, how much memory there is, how much of the log's
end is in memory, and what a pull from the beginning, the middle and the tail of the log
would be told: by RocketMQ's rule (the slave, if the place lies further behind the end than
the threshold) and by what is in memory of the 256 KiB from there. Where the kernel's answer
cannot be believed it says unknown, and why.

Looking warms nothing: no byte of a file is read, and nothing is written to the store, which
may be in use. The end of the log is therefore where the file system says that data end;
zeros that a broker lays ahead of its records count.

Sizes are bytes. With --map, and in JSON always, the parts that are in memory are listed as
[from, to): physical offsets in segments, bytes of the file in queue files. JSON has null
where the kernel's answer is not known, and notes on standard error. The exit code is 1 where
a file could not be looked at.`,
		Example: `  warmlog residency /data/store
  warmlog residency /data/store --watch
  warmlog residency /data/store --json | jq '.segments[] | [.file, .residentBytes]'`,
		Args: dirArg,
		RunE: a.begin(func(cmd *cobra.Command, args []string) error { return a.runResidency(cmd.Context(), args[0], v) }),
	}
	cmd.Flags().BoolVar(&v.watch, "watch", false, "look again every second until interrupted; a terminal is redrawn, newest segment first")
	cmd.Flags().BoolVar(&v.runs, "map", false, "list the parts that are in memory")
	return cmd
}

// residencyView is how residency shows what it sees.
type residencyView struct {
	watch, runs bool
}

func (a *app) runResidency(ctx context.Context, dir string, v residencyView) error {
	w, err := warmlog.NewResidencyWatch(dir, warmlog.ResidencyOptions{})
	if err != nil {
		return err
	}
	told := map[string]bool{}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		r, err := w.Look(ctx)
		if v.watch && ctx.Err() != nil {
			return a.unwatch(v)
		}
		if err != nil {
			return err
		}
		if err := a.showResidency(r, v, told); err != nil {
			return err
		}
		if !v.watch && r.Failed > 0 {
			return fmt.Errorf("%s could not be looked at", plural(r.Failed, "file or directory", "files or directories"))
		}
		if !v.watch {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return a.unwatch(v)
		}
	}
}

// unwatch ends a watch that was interrupted, which is how it ends.
func (a *app) unwatch(v residencyView) error {
	if a.redraws(v) {
		printf(a.out, "\n") // the cursor is at the end of the last line
	}
	return nil
}

func (a *app) redraws(v residencyView) bool { return v.watch && !a.json && a.screen != nil }

func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", more)
}

// showResidency prints a report. told are the notes that were printed already.
func (a *app) showResidency(r *warmlog.ResidencyReport, v residencyView, told map[string]bool) error {
	if a.redraws(v) {
		a.redraw(r, v)
		return a.out.Flush()
	}
	if a.json {
		if err := writeJSON(a.out, residencyLine(r)); err != nil {
			return err
		}
	} else {
		if v.watch {
			printf(a.out, "%s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
		}
		printResidency(a.out, r, v.runs, stripWidth)
		if v.watch {
			printf(a.out, "\n")
		}
	}
	if err := a.out.Flush(); err != nil {
		return err
	}
	for _, note := range r.Notes {
		if !told[note] {
			told[note] = true
			a.note(note)
		}
	}
	return nil
}

// redraw paints a report over the one before, as much of it as the terminal has lines for; so
// the newest segment comes first.
func (a *app) redraw(r *warmlog.ResidencyReport, v residencyView) {
	width, height, err := term.GetSize(int(a.screen.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	var sb strings.Builder
	printf(&sb, "%s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
	for _, note := range r.Notes {
		printf(&sb, "note: %s\n", note)
	}
	shown := *r
	shown.Segments = slices.Clone(r.Segments)
	slices.Reverse(shown.Segments)
	printResidency(&sb, &shown, v.runs, stripFor(width))
	paint(a.out, sb.String(), width, height)
}

// paint writes text over what a terminal shows, from its top, cut to its size.
func paint(out io.Writer, text string, width, height int) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > height {
		more := len(lines) - height + 1
		lines = append(lines[:height-1], fmt.Sprintf("… and %s", plural(more, "line more", "lines more")))
	}
	printf(out, "\x1b[H\x1b[?7l") // wide characters must not make a line wrap
	for i, line := range lines {
		if runes := []rune(line); len(runes) > width {
			line = string(runes[:width])
		}
		end := "\n"
		if i == len(lines)-1 {
			end = "" // or the terminal scrolls
		}
		printf(out, "%s\x1b[K%s", line, end)
	}
	printf(out, "\x1b[J\x1b[?7h")
}
