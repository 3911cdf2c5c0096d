package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/warmlog/warmlog"
	"golang.org/x/term"
)

// bar shows how far something has come, where it takes over a second and somebody sits at
// a terminal.
type bar struct {
	out   io.Writer // nil: nobody looks
	began time.Time
	phase string
	shown *progressbar.ProgressBar
}

func newBar(out io.Writer) *bar {
	b := &bar{began: time.Now()}
	if terminal(out) != nil {
		b.out = out
	}
	return b
}

// terminal returns out if somebody may sit there and look, else nil.
func terminal(out io.Writer) *os.File {
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// update takes a step. It is called from one goroutine.
func (b *bar) update(p warmlog.Progress) {
	if b.out == nil || time.Since(b.began) < time.Second {
		return
	}
	if b.shown == nil || p.Phase != b.phase {
		b.finish()
		b.phase = p.Phase
		b.shown = progressbar.NewOptions64(p.Total, progressbar.OptionSetWriter(b.out), progressbar.OptionSetDescription(p.Phase),
			progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	_ = b.shown.Set64(p.Done) // a terminal that is gone is no reason to stop
}

func (b *bar) finish() {
	if b.shown != nil {
		_ = b.shown.Finish()
		b.shown = nil
	}
}
