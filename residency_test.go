package warmlog_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/pagecache"
)

// Without a method nothing is known, which is told with the reason, and distance decides.
func TestResidencyUnknown(t *testing.T) {
	s := storetest.New(t, t.TempDir(), storetest.Options{})
	for range 200 {
		s.Add("orders", 0, 1000)
	}
	s.Close()
	r, err := warmlog.Residency(context.Background(), s.Dir(), warmlog.ResidencyOptions{Methods: 1 << 7, Memory: pagecache.ThresholdOptions{Bytes: 100_000}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Segments {
		if f.Known || f.Why == "" || f.Resident != 0 || f.Runs != nil || f.Bytes != 64<<10 {
			t.Errorf("%+v", f)
		}
	}
	if len(r.Segments) < 3 || r.Failed != 0 || r.Tail.Known || r.Tail.All() || r.WarmFrom != r.End || len(r.Pulls) != 3 {
		t.Errorf("%+v", r)
	}
	if tail := r.Pulls[2]; tail.Diff != min(256<<10, r.End) {
		t.Errorf("%+v", tail)
	}
	for _, p := range r.Pulls {
		if slave := p.Diff > 100_000; p.Batch.Known || p.ByDistance != slave || p.ByResidency != slave {
			t.Errorf("%+v", p)
		}
	}
}

func TestResidencyOfNothing(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	r, err := warmlog.Residency(ctx, dir, warmlog.ResidencyOptions{})
	if err != nil || len(r.Segments)+len(r.Queues)+len(r.Pulls)+r.Failed != 0 || r.Begin != 0 || r.End != 0 || len(r.Notes) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	must(t, os.Mkdir(filepath.Join(dir, "commitlog"), 0o755))
	empty := filepath.Join(dir, "commitlog", "00000000000000065536")
	must(t, os.WriteFile(empty, nil, 0o600))
	r, err = warmlog.Residency(ctx, dir, warmlog.ResidencyOptions{})
	if err != nil || len(r.Segments) != 1 || r.Begin != 65536 || r.End != 65536 || r.WarmFrom != 65536 || len(r.Pulls) != 0 || len(r.Notes) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, bad := range []struct {
		dir  string
		o    warmlog.ResidencyOptions
		want string
	}{
		{filepath.Join(dir, "missing"), warmlog.ResidencyOptions{}, "missing"},
		{empty, warmlog.ResidencyOptions{}, "no directory"},
		{dir, warmlog.ResidencyOptions{Tail: -1}, "tail"},
		{dir, warmlog.ResidencyOptions{Memory: pagecache.ThresholdOptions{Ratio: 96}}, "ratio"},
	} {
		if r, err := warmlog.Residency(ctx, bad.dir, bad.o); r != nil || err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%+v: %v, %v", bad, r, err)
		}
	}
	ended, stop := context.WithCancel(ctx)
	stop()
	if _, err := warmlog.Residency(ended, dir, warmlog.ResidencyOptions{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	w, err := warmlog.NewResidencyWatch(dir, warmlog.ResidencyOptions{})
	must(t, err)
	must(t, os.RemoveAll(dir))
	if _, err := w.Look(ctx); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
