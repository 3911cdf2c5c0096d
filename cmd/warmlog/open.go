package main

import (
	"context"
	"errors"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/message"
)

// open opens a store for looking, with a progress bar where that takes time.
func (a *app) open(ctx context.Context, dir string) (*warmlog.Store, error) {
	return a.openWith(ctx, dir, warmlog.Options{ReadOnly: true})
}

func (a *app) openWith(ctx context.Context, dir string, o warmlog.Options) (*warmlog.Store, error) {
	b := newBar(a.err)
	defer b.finish()
	o.Progress = b.update
	return warmlog.OpenContext(ctx, dir, o)
}

// damage prints what is wrong with stored bytes on standard error.
func (a *app) damage(d *message.DamageError) {
	a.flush()
	if a.json {
		writeJSON(a.err, damageLine(d))
		return
	}
	printf(a.err, "damage: %s at byte %d: %s: %v\n", d.File, d.Offset, message.KindName(d), d.Err)
}

// note prints something worth knowing on standard error.
func (a *app) note(text string) {
	a.flush()
	if a.json {
		writeJSON(a.err, struct {
			Note string `json:"note"`
		}{text})
		return
	}
	printf(a.err, "note: %s\n", text)
}

// flush keeps the order of what goes to both outputs.
func (a *app) flush() { _ = a.out.Flush() }

// asDamage returns the damage in an error.
func asDamage(err error) (*message.DamageError, bool) {
	var d *message.DamageError
	return d, errors.As(err, &d)
}
