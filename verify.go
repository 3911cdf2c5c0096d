package warmlog

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

// ErrMisnumbered is the damage of a record whose queue offset does not continue its queue.
var ErrMisnumbered = message.NewKind("misnumbered", "the queue offset in the record does not continue its queue")

// Verification is what [Store.Verify] looked at.
type Verification struct {
	Segments int
	Bytes    int64 // of the log
	Records  int64 // sound ones
	Entries  int64 // queue entries that name their record
	Queues   int
	Index    keyindex.Summary
	Damage   int64 // disagreements, also those beyond what is reported
	// Told is what is no damage but worth knowing, one line each.
	Told []string
	// Behind are those of Told that say what queues or index lack: the next writer adds it.
	Behind []string
}

// Verify reads the whole log, all queue files and the index, and compares them. Each damage
// is given to damaged, which must not call the store, with its file, the offset in it and
// its kind. What recovery would cut, and queues and index that are behind the log, are no
// damage: they are told.
func (s *Store) Verify(ctx context.Context, damaged func(*message.DamageError)) (*Verification, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	v := verifier{Store: s, ctx: ctx, result: &Verification{}, queues: map[*consumequeue.Queue]*queueCheck{}}
	v.report = func(d *message.DamageError) {
		if v.atEnd {
			v.torn++
			return
		}
		v.result.Damage++
		damaged(d)
	}
	if err := v.run(); err != nil {
		return nil, err
	}
	return v.result, nil
}

type verifier struct {
	*Store
	ctx    context.Context
	report func(*message.DamageError)
	result *Verification
	queues map[*consumequeue.Queue]*queueCheck
	index  *keyindex.Checker
	ext    bool // queues have ext files, to which a tag code may point

	// atEnd says that the record at hand is the last one of a store that was not stopped in
	// order. A write that was cut short can leave it torn where no checksum covers it; what
	// disagrees with it then is part of the tail.
	atEnd bool
	torn  int64 // disagreements with that record

	lost stretches
	// named are records that were reported, by physical offset.
	named map[int64]bool
	// unfiled are records that no queue entry names, by physical offset.
	unfiled map[int64]bool
	behind  int64 // messages that are in no queue file yet
	ahead   int64 // queue entries of records that recovery cuts
	old     int64 // records of queues that were deleted and made again since
}

func (v *verifier) run() error {
	s := v.Store
	min, max := s.Bounds()
	v.result.Segments, v.result.Bytes = len(s.log.Segments()), max-min
	v.result.Told = s.Notes()
	v.unfiled, v.named = map[int64]bool{}, map[int64]bool{}
	if _, err := os.Stat(s.paths.ConsumeQueueExt()); err == nil {
		v.ext = true
	}
	index, err := keyindex.Open(s.paths.Index(), keyindex.Options{})
	if err != nil {
		return err
	}
	files, notes, err := index.Files()
	if err != nil {
		return err
	}
	v.result.Told = append(v.result.Told, notes...)
	if v.index, err = index.NewChecker(v.report); err != nil {
		return err
	}
	defer v.index.Close()
	if s.abort.Exists {
		v.index.Cut(max)
	}
	if err := v.log(min, max); err != nil {
		return err
	}
	if v.result.Index, err = v.index.Finish(); err != nil {
		return err
	}
	if err := v.finishQueues(); err != nil {
		return err
	}
	v.tell(len(files))
	return nil
}

// log reads the log from front to back.
func (v *verifier) log(from, to int64) error {
	return v.records(v.ctx, from, to, func(rec *message.View, pos int64) error {
		v.result.Records++
		v.atEnd = v.abort.Exists && pos == v.lastRecord.Load()
		defer func() { v.atEnd = false }()
		v.index.Record(rec)
		if v.result.Records%1024 == 0 {
			v.Store.report("verifying", pos-from, to-from)
		}
		return v.queued(rec, pos)
	}, func(d *message.DamageError, from, to int64) error {
		v.lost = append(v.lost, stretch{from, to})
		v.index.Gap(from, to)
		v.report(d)
		return nil
	})
}

// tell adds what is worth knowing.
func (v *verifier) tell(indexFiles int) {
	told := func(format string, args ...any) {
		v.result.Told = append(v.result.Told, fmt.Sprintf(format, args...))
	}
	behind := func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		v.result.Told, v.result.Behind = append(v.result.Told, line), append(v.result.Behind, line)
	}
	if cut := v.cut(); !errors.Is(cut, message.ErrMagic) {
		told("tail: %v; recovery ends the log here, at physical offset %d", cut, v.Store.log.Max())
	}
	if v.torn > 0 {
		told("the last record, at %d, may be torn: queues and index disagree with it in %d places", v.lastRecord.Load(), v.torn)
	}
	if v.behind > 0 {
		behind("queues are behind the log by %d messages", v.behind)
	}
	if v.ahead > 0 {
		told("queues are ahead of the log by %d entries, which recovery cuts", v.ahead)
	}
	if v.old > 0 {
		told("%d records are of queues that were deleted and made again", v.old)
	}
	if n := v.result.Index.Behind; n > 0 {
		behind("the index is behind the log by %d keys", n)
	}
	if n := v.result.Index.Ahead; n > 0 {
		told("the index is ahead of the log by %d keys, which recovery cuts", n)
	}
	if n := v.result.Index.Outside; n > 0 {
		told("%d keys lie in parts of the log that the index does not cover", n)
	}
	if back := v.disorder.Load(); back > 0 {
		told("the clock was set back by %d ms", back)
	}
	if v.abort.Exists {
		told("the store was not stopped in order, or is running")
	}
}
