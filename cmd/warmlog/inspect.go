package main

import (
	"context"
	"fmt"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/message"
)

// infoJSON is what inspect prints with --json.
type infoJSON struct {
	Dir           string            `json:"dir"`
	SegmentSize   int64             `json:"segmentSize"`
	QueueFileSize int64             `json:"queueFileSize"`
	MinOffset     int64             `json:"minOffset"`
	MaxOffset     int64             `json:"maxOffset"`
	Clean         bool              `json:"clean"`
	Running       bool              `json:"running"`
	PID           int               `json:"pid,omitempty"`
	Recovery      cutJSON           `json:"recovery"`
	Checkpoint    layout.Checkpoint `json:"checkpoint"`
	Segments      []segmentJSON     `json:"segments"`
	Queues        []queueJSON       `json:"queues"`
	Index         []indexJSON       `json:"index"`
	Groups        []groupJSON       `json:"groups"`
	Notes         []string          `json:"notes"`
}

type cutJSON struct {
	Cut    int64  `json:"cut"` // physical offset
	File   string `json:"file"`
	Offset int64  `json:"offset"` // in the file
	Kind   string `json:"kind"`
}

type segmentJSON struct {
	File string `json:"file"`
	From int64  `json:"from"`
	To   int64  `json:"to"`
	Size int64  `json:"size"`
}

type queueJSON struct {
	Topic     string `json:"topic"`
	Queue     int32  `json:"queue"`
	Min       int64  `json:"minOffset"`
	Max       int64  `json:"maxOffset"`
	FirstTime *int64 `json:"firstStoreTimestamp"`
	LastTime  *int64 `json:"lastStoreTimestamp"`
}

type indexJSON struct {
	File        string `json:"file"`
	Keys        int32  `json:"keys"`
	BeginTime   int64  `json:"beginTimestamp"`
	EndTime     int64  `json:"endTimestamp"`
	BeginOffset int64  `json:"beginPhyOffset"`
	EndOffset   int64  `json:"endPhyOffset"`
	Damage      string `json:"damage,omitempty"`
}

type groupJSON struct {
	Group  string `json:"group"`
	Topic  string `json:"topic"`
	Queue  int32  `json:"queue"`
	Offset int64  `json:"offset"`
}

func (a *app) inspect() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect DIR",
		Short: "Say what a store consists of",
		Long: `inspect lists segments, queues, index files and consumer progress, says whether the store
was stopped in order or is running, what its checkpoint holds, and where recovery would end
the log.`,
		Example: `  warmlog inspect /data/store
  warmlog inspect /data/store --json`,
		Args: dirArg,
		RunE: a.begin(func(cmd *cobra.Command, args []string) error { return a.runInspect(cmd.Context(), args[0]) }),
	}
}

func (a *app) runInspect(ctx context.Context, dir string) error {
	store, err := a.open(ctx, dir)
	if err != nil {
		return err
	}
	defer store.Close()
	info, err := store.Inspect(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return writeJSON(a.out, infoLine(info))
	}
	a.printInfo(info)
	return nil
}

func infoLine(i *warmlog.Info) infoJSON {
	line := infoJSON{
		Dir: i.Dir, SegmentSize: i.SegmentSize, QueueFileSize: i.QueueSize, MinOffset: i.MinOffset, MaxOffset: i.MaxOffset,
		Clean: i.Clean, Running: i.Running, PID: i.PID, Checkpoint: i.Checkpoint,
		Recovery: cutJSON{i.MaxOffset, i.Cut.File, i.Cut.Offset, message.KindName(i.Cut)},
		Segments: []segmentJSON{}, Queues: []queueJSON{}, Index: []indexJSON{}, Groups: []groupJSON{}, Notes: append([]string{}, i.Notes...),
	}
	for _, s := range i.Segments {
		line.Segments = append(line.Segments, segmentJSON(s))
	}
	for _, q := range i.Queues {
		line.Queues = append(line.Queues, queueJSON{q.Topic, q.ID, q.Min, q.Max, known(q.FirstTime), known(q.LastTime)})
	}
	for _, f := range i.Index {
		h := f.Header
		x := indexJSON{f.Path, h.Keys(), h.BeginTimestamp, h.EndTimestamp, h.BeginOffset, h.EndOffset, ""}
		if f.Err != nil {
			x.Damage = f.Err.Error()
		}
		line.Index = append(line.Index, x)
	}
	for _, g := range i.Groups {
		line.Groups = append(line.Groups, groupJSON{g.Group, g.Topic, g.QueueID, g.Offset})
	}
	return line
}

// known is nil for a time that is not known.
func known(t int64) *int64 {
	if t == 0 {
		return nil
	}
	return &t
}

func (a *app) printInfo(i *warmlog.Info) {
	printf(a.out, "store        %s\n", i.Dir)
	printf(a.out, "log          physical offsets %d to %d, %d segments of %d bytes\n", i.MinOffset, i.MaxOffset, len(i.Segments), i.SegmentSize)
	printf(a.out, "state        %s\n", state(i))
	printf(a.out, "recovery     would end the log at %d: %s at byte %d (%s)\n", i.MaxOffset, filepath.Base(i.Cut.File), i.Cut.Offset, message.KindName(i.Cut))
	c := i.Checkpoint
	printf(a.out, "checkpoint   log %s, queues %s, index %s; offsets: master flushed %d, confirmed %d, dispatched %d\n",
		clock(c.PhysicTime), clock(c.LogicsTime), clock(c.IndexTime), c.MasterFlushed, c.ConfirmOffset, c.LogicsOffset)
	w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', tabwriter.AlignRight)
	printf(w, "\nsegment\tfrom\tto\tsize\t\n")
	for _, s := range i.Segments {
		printf(w, "%s\t%d\t%d\t%d\t\n", filepath.Base(s.File), s.From, s.To, s.Size)
	}
	_ = w.Flush()
	w = tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	printf(w, "\ntopic\tqueue\tmin\tmax\tfirst stored\tlast stored\n")
	for _, q := range i.Queues {
		printf(w, "%s\t%d\t%d\t%d\t%s\t%s\n", q.Topic, q.ID, q.Min, q.Max, clock(q.FirstTime), clock(q.LastTime))
	}
	if len(i.Index) > 0 {
		printf(w, "\nindex file\tkeys\tfrom\tto\tfirst key\tlast key\n")
		for _, f := range i.Index {
			h := f.Header
			printf(w, "%s\t%d\t%d\t%d\t%s\t%s\n", filepath.Base(f.Path), h.Keys(), h.BeginOffset, h.EndOffset, clock(h.BeginTimestamp), clock(h.EndTimestamp))
			if f.Err != nil {
				printf(w, "\t%v\n", f.Err)
			}
		}
	}
	if len(i.Groups) > 0 {
		printf(w, "\ngroup\ttopic\tqueue\tnext offset\n")
		for _, g := range i.Groups {
			printf(w, "%s\t%s\t%d\t%d\n", g.Group, g.Topic, g.QueueID, g.Offset)
		}
	}
	_ = w.Flush()
	for _, note := range i.Notes {
		printf(a.out, "\nnote: %s", note)
	}
	if len(i.Notes) > 0 {
		printf(a.out, "\n")
	}
}

func state(i *warmlog.Info) string {
	switch {
	case i.Running && i.PID > 0:
		return fmt.Sprintf("running, process %d", i.PID)
	case i.Running:
		return "running"
	case i.Clean:
		return "stopped in order"
	case i.PID > 0:
		return fmt.Sprintf("not stopped in order, by process %d", i.PID)
	}
	return "not stopped in order"
}

// clock writes a time in ms since 1970 for people.
func clock(ms int64) string {
	if ms <= 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
