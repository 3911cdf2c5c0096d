package warmlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/message"
)

// RepairStep is one thing that [Repair] does, or would do.
type RepairStep struct {
	What string // in a few words
	File string // that it is about
	// Damage is why; nil for what is no damage, as a tail.
	Damage *message.DamageError
}

// Repaired is what [Repair] found and did.
type Repaired struct {
	Steps []RepairStep
	// Left is the damage that nothing can mend: records that are passed over.
	Left []*message.DamageError
	// Aside is the directory with what was removed; empty where nothing was.
	Aside string
}

// What Repair can do about a file.
const (
	repairTail  = "cut what lies behind the end of the log, and keep it aside"
	repairQueue = "set the queue file aside and make it again from the log"
	repairIndex = "set the index aside and make it again from the log"
	repairSkip  = "leave the record as it is: readers pass over it"
	repairLeft  = "complete the queues and the index from the log"
)

// Repair makes a store readable again: what lies behind the end of the log is cut off, queue
// files and index that are damaged are made again from the log, and records that are damaged
// stay where they are and are named. Everything that is removed is kept in the store's
// warmlog/aside. With dryRun nothing is changed. The store must not be in use: the error is
// then an [ErrInUse]. o is what the store will be opened with afterwards.
func Repair(ctx context.Context, dir string, o Options, dryRun bool) (*Repaired, error) {
	r, damage, err := planRepair(ctx, dir, o)
	if err != nil || dryRun || len(r.Steps) == 0 {
		return r, err
	}
	paths := layout.Store(dir)
	lock, err := layout.Take(paths)
	if err != nil {
		return nil, err
	}
	err = setAside(paths, damage)
	if released := lock.Release(); err == nil {
		err = released
	}
	if err != nil {
		return nil, fmt.Errorf("repair %s: %w", dir, err)
	}
	o.ReadOnly, o.CheckBytes = false, -1
	store, err := OpenContext(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	if err := store.Close(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(paths.Aside()); err == nil {
		r.Aside = paths.Aside()
	}
	again, _, err := planRepair(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	for _, s := range again.Steps {
		if s.Damage != nil {
			r.Left = append(r.Left, s.Damage)
		}
	}
	return r, nil
}

// planRepair verifies a store and says what is to be done.
func planRepair(ctx context.Context, dir string, o Options) (*Repaired, []*message.DamageError, error) {
	o.ReadOnly, o.CheckBytes = true, -1
	store, err := OpenContext(ctx, dir, o)
	if err != nil {
		return nil, nil, err
	}
	defer store.Close()
	var damage []*message.DamageError
	v, err := store.Verify(ctx, func(d *message.DamageError) { damage = append(damage, d) })
	if err != nil {
		return nil, nil, err
	}
	r := &Repaired{}
	if cut := store.cut(); store.abort.Exists || !errors.Is(cut, message.ErrMagic) {
		r.Steps = append(r.Steps, RepairStep{repairTail, cut.File, nil})
	}
	seen := map[string]bool{}
	for _, d := range damage {
		what := repairSkip
		switch partOf(store.paths, d.File) {
		case store.paths.ConsumeQueue():
			what = repairQueue
		case store.paths.Index():
			what = repairIndex
		}
		if what != repairSkip && seen[d.File] {
			continue
		}
		seen[d.File] = true
		r.Steps = append(r.Steps, RepairStep{what, d.File, d})
	}
	for _, line := range v.Behind {
		r.Steps = append(r.Steps, RepairStep{repairLeft, line, nil})
	}
	return r, damage, nil
}

// partOf returns the directory of the store that a file lies in.
func partOf(paths layout.Store, file string) string {
	for _, dir := range []string{paths.ConsumeQueue(), paths.Index()} {
		if strings.HasPrefix(file, dir+string(filepath.Separator)) {
			return dir
		}
	}
	return ""
}

// setAside moves damaged queue files and, if one of its files is damaged, the index into
// warmlog/aside, and lets the next start read the whole log.
func setAside(paths layout.Store, damage []*message.DamageError) error {
	files := map[string]bool{}
	for _, d := range damage {
		switch partOf(paths, d.File) {
		case paths.ConsumeQueue():
			files[d.File] = true
		case paths.Index():
			all, err := filepath.Glob(filepath.Join(paths.Index(), "*"))
			if err != nil {
				return err
			}
			for _, f := range all {
				files[f] = true
			}
		}
	}
	for file := range files {
		rel, err := filepath.Rel(string(paths), file)
		if err != nil {
			return err
		}
		to, err := freeName(paths.Aside(), strings.ReplaceAll(rel, string(filepath.Separator), "_"))
		if err != nil {
			return err
		}
		if err := os.Rename(file, to); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	// Without it the start believes nothing that was noted before.
	if err := os.Remove(paths.State()); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}
