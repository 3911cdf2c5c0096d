//go:build warmlogdebug

package getmessage

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"

	"github.com/warmlog/warmlog/internal/poison"
	"github.com/warmlog/warmlog/message"
)

// owned is the memory of a batch's own in a debug build: what the batch hands out are copies
// there, and Release protects it, whoever else still has the log's memory mapped.
type owned struct {
	memory []byte // nil: nothing was handed out since the last release
	failed bool   // the log's memory cannot be read, or there is no more: handed out as it is
}

// take moves the records into memory of the batch's own, before they are first handed out.
// Adjacent ones stay adjacent, others do not become so.
func (o *owned) take(b *Batch) {
	if o.memory != nil || o.failed || len(b.records) == 0 {
		return
	}
	places := make([]int, len(b.records))
	size := 0
	for i := range b.records {
		if i > 0 && !follows(b.records[i-1].Raw(), b.records[i].Raw()) {
			size += 16
		}
		places[i] = size
		size += int(b.records[i].Size())
	}
	memory, err := poison.New(size)
	if err != nil {
		o.failed = true
		return
	}
	if readable(func() {
		for i, at := range places {
			copy(memory[at:], b.records[i].Raw())
		}
	}) != nil {
		poison.Free(memory)
		o.failed = true
		return
	}
	for i, at := range places {
		end := at + int(b.records[i].Size())
		b.records[i] = message.ViewOf(memory[at:end:end])
	}
	o.memory = memory
}

// release protects what take made.
func (o *owned) release(b *Batch) {
	o.failed = false
	if o.memory == nil {
		return
	}
	where := caller()
	poison.Release(o.memory, "getmessage: a record of a Batch is used after the Batch was released (by Release, or by Get with the same Batch) at "+where)
	o.memory = nil
	b.records = nil // the next Get would write over the views in it that somebody may have kept
	// A slice that somebody kept faults, and the runtime knows nothing of batches; but it prints
	// the labels of goroutines.
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("released its last getmessage.Batch at", where)))
}

func init() {
	const setting = "tracebacklabels=1" // is looked at whenever it is set
	if old := os.Getenv("GODEBUG"); old == "" {
		os.Setenv("GODEBUG", setting)
	} else if !strings.Contains(old, "tracebacklabels=") {
		os.Setenv("GODEBUG", old+","+setting)
	}
}

// caller returns the place outside of this package and the module's root that led here.
func caller() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		inside := strings.HasPrefix(f.Function, "github.com/warmlog/warmlog/getmessage.") || strings.HasPrefix(f.Function, "github.com/warmlog/warmlog.")
		if !inside || !more {
			return fmt.Sprintf("%s:%d (%s)", f.File, f.Line, f.Function)
		}
	}
}
