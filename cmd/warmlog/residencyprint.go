package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/pagecache"
)

const (
	stripWidth = 48 // characters, where no terminal says how wide it is
	leastStrip = 16
	besides    = 60 // what a line has beside its strip, about
)

// stripFor returns the width of a strip on a terminal.
func stripFor(width int) int { return max(leastStrip, width-besides) }

func printResidency(out io.Writer, r *warmlog.ResidencyReport, runs bool, width int) {
	printf(out, "store        %s\n", r.Dir)
	printf(out, "memory       %v\n", r.Memory)
	printf(out, "threshold    %s, %d %% of it: what lies nearer to the end of the log is in memory by RocketMQ's rule\n", size(r.Threshold), pagecache.DefaultRatio)
	for i, p := range r.Probers {
		printf(out, "prober       %v", p.Prober)
		if i > 0 {
			printf(out, " (%s and its like)", p.File)
		}
		printf(out, "\n")
	}
	var files []warmlog.FileResidency
	for _, s := range r.Segments {
		files = append(files, s.FileResidency)
	}
	printf(out, "log          %s in %s; physical offsets %d to %d\n", total(files), plural(len(r.Segments), "segment", "segments"), r.Begin, r.End)
	files = nil
	for _, q := range r.Queues {
		files = append(files, q.FileResidency)
	}
	printf(out, "queues       %s in %s\n", total(files), plural(len(r.Queues), "file", "files"))
	printTail(out, r)
	printPulls(out, r)
	if len(r.Segments) > 0 {
		t := newTable(out, runs, width, "segment")
		for _, s := range r.Segments {
			t.row(filepath.Base(s.File), s.FileResidency, s.From)
		}
		t.flush()
	}
	if len(r.Queues) > 0 {
		t := newTable(out, runs, width, "from\tqueue\ttopic")
		for _, q := range r.Queues {
			t.row(fmt.Sprintf("%d\t%d\t%s", q.From, q.ID, printable(q.Topic)), q.FileResidency, 0)
		}
		t.flush()
	}
}

// printable returns a name as it is, or quoted where it would spoil a table.
func printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// total says how much of all files is in memory.
func total(files []warmlog.FileResidency) string {
	var all, known, resident int64
	for _, f := range files {
		all += f.Bytes
		if f.Known {
			known += f.Bytes
			resident += f.Resident
		}
	}
	switch {
	case known == 0 && all > 0:
		return "unknown what is in memory of " + size(all)
	case known < all:
		return fmt.Sprintf("%s in memory of %s, and unknown of %s", size(resident), size(known), size(all-known))
	default:
		return fmt.Sprintf("%s in memory of %s", size(resident), size(all))
	}
}

func printTail(out io.Writer, r *warmlog.ResidencyReport) {
	if r.Begin == r.End {
		printf(out, "tail         the log is empty\n")
		return
	}
	printf(out, "tail         %s of the last %s", part(r.Tail), size(r.Tail.Bytes))
	if r.Tail.Known {
		printf(out, "; without a gap the last %s, from %d on", size(r.End-r.WarmFrom), r.WarmFrom)
	}
	printf(out, "\nwithin       %s of the last %s, which lie within the threshold\n", part(r.Within), size(r.Within.Bytes))
}

// part says how much of a part of the log is in memory.
func part(l warmlog.LogResidency) string {
	if !l.Known {
		return "unknown how much is in memory"
	}
	return fmt.Sprintf("%s (%s) in memory", size(l.Resident), share(l.Resident, l.Bytes))
}

// share writes a part in percent: 0 and 100 only where it is nothing and all.
func share(n, of int64) string {
	switch {
	case of <= 0:
		return "-"
	case n > 0 && n*1000 < of:
		return "<0.1 %"
	}
	return strconv.FormatFloat(float64(n*1000/of)/10, 'f', 1, 64) + " %" // rounded down
}

func printPulls(out io.Writer, r *warmlog.ResidencyReport) {
	if len(r.Pulls) == 0 {
		return
	}
	printf(out, "\nwhat a pull from here would be told:\n")
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	printf(w, "  place\toffset\tbehind the end\tby distance\tby residency\tof what it would read\n")
	for _, p := range r.Pulls {
		byResidency := where(p.ByResidency)
		if !p.Batch.Known {
			byResidency = "unknown: by distance, " + byResidency
		}
		printf(w, "  %s\t%d\t%s\t%s\t%s\t%s of %s\n", p.From, p.Batch.From, size(p.Diff), where(p.ByDistance), byResidency, part(p.Batch), size(p.Batch.Bytes))
	}
	_ = w.Flush()
}

func where(slave bool) string {
	if slave {
		return "the slave"
	}
	return "here"
}

// table is one of files.
type table struct {
	out   io.Writer
	runs  bool
	width int // of a strip
	text  strings.Builder
	w     *tabwriter.Writer       // to text
	files []warmlog.FileResidency // of the rows
	whys  []string                // why something is not known, each once
}

// newTable begins a table. Names come last, as those of topics may be long.
func newTable(out io.Writer, runs bool, width int, names string) *table {
	t := &table{out: out, runs: runs, width: width}
	t.w = tabwriter.NewWriter(&t.text, 0, 8, 2, ' ', 0)
	printf(t.w, "in memory\tsize\tresident\tshare\t%s\n", names)
	return t
}

// row prints a file. base is what its runs are counted from.
func (t *table) row(names string, f warmlog.FileResidency, base int64) {
	resident, part := "unknown", "unknown"
	if f.Known {
		resident, part = size(f.Resident), share(f.Resident, f.Bytes)
	} else if !slices.Contains(t.whys, f.Why) {
		t.whys = append(t.whys, f.Why)
	}
	printf(t.w, "%s\t%s\t%s\t%s\t%s\n", strip(f, base, t.width), size(f.Bytes), resident, part, names)
	t.files = append(t.files, f)
}

func (t *table) flush() {
	_ = t.w.Flush()
	row := -1 // the head
	printf(t.out, "\n")
	for line := range strings.Lines(t.text.String()) {
		printf(t.out, "%s", line)
		if row >= 0 && t.runs {
			for _, run := range t.files[row].Runs {
				printf(t.out, "  [%d, %d) %s\n", run[0], run[1], size(run[1]-run[0]))
			}
		}
		row++
	}
	for _, why := range t.whys {
		printf(t.out, "unknown: %s\n", why)
	}
}

// strip shows where a file is in memory: each of width characters stands for an equal part of it.
func strip(f warmlog.FileResidency, base int64, width int) string {
	var sb strings.Builder
	// Where part i of the file begins; the factors are of one file's size and small.
	edge := func(i int) int64 { return f.Bytes/int64(width)*int64(i) + f.Bytes%int64(width)*int64(i)/int64(width) }
	next := 0 // the first run that does not end before
	for i := range width {
		from := edge(i)
		to := max(edge(i+1), from+1) // of a file with fewer bytes than the strip has characters
		n := int64(0)
		for next < len(f.Runs) && f.Runs[next][1]-base <= from {
			next++
		}
		for j := next; j < len(f.Runs) && f.Runs[j][0]-base < to; j++ {
			n += max(0, min(to, f.Runs[j][1]-base)-max(from, f.Runs[j][0]-base))
		}
		sb.WriteRune(shade(f, from, to, n))
	}
	return sb.String()
}

// shade is the character for a part of a file of which n bytes are in memory.
func shade(f warmlog.FileResidency, from, to, n int64) rune {
	switch of := to - from; {
	case from >= f.Written && n == 0:
		return ' '
	case !f.Known:
		return '?'
	case n == 0:
		return '·'
	case n >= of:
		return '█'
	case n >= of-of/3:
		return '▓'
	case n >= of/3:
		return '▒'
	default:
		return '░'
	}
}
