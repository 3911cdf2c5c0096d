package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/fixtures"
)

// keys returns the names of a JSON object in order.
func keys(t *testing.T, text string) (names []string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		t.Fatalf("%s: %v, %v", text, first, err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name.(string))
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

func TestResidencyJSON(t *testing.T) {
	store := filepath.Join(fixtures.Unpack(t, "5.3.3-clean"), "store")
	out := good(t, "residency", store, "--json")
	if strings.Count(out, "\n") != 1 || !slices.Equal(keys(t, out), []string{"host", "prober", "segments", "queues"}) {
		t.Fatal(out)
	}
	raw := lines[struct{ Segments, Queues []json.RawMessage }](t, out)[0]
	for _, of := range []struct {
		all  []json.RawMessage
		want string
	}{
		{raw.Segments, "file from to bytes residentBytes runs"},
		{raw.Queues, "file topic queue from to bytes residentBytes runs"},
	} {
		for _, one := range of.all {
			if got := strings.Join(keys(t, string(one)), " "); got != of.want {
				t.Errorf("%s; want %s", got, of.want)
			}
		}
	}
	r := lines[residencyJSON](t, out)[0]
	if len(r.Segments) != 5 || len(r.Queues) != 34 || r.Host.RAM <= 0 || r.Host.Threshold != r.Host.Limit/100*40+r.Host.Limit%100*40/100 || len(r.Prober.Findings) != 2 {
		t.Errorf("%+v", r)
	}
	for i, s := range r.Segments {
		if base := int64(i) * 131072; s.From != base || s.To != base+131072 || s.Bytes != 131072 || s.File != filepath.Join(store, "commitlog", fmt.Sprintf("%020d", base)) {
			t.Errorf("%+v", s)
		}
	}
	for _, q := range r.Queues {
		if q.Bytes != 400 || q.To-q.From != 20 || q.Resident != nil && *q.Resident > q.Bytes {
			t.Errorf("%+v", q)
		}
	}
	if r.Prober.Method == "unknown" {
		t.Skipf("%+v", r.Prober)
	}
	for _, s := range r.Segments { // unpacked just now
		if s.Resident == nil || s.Runs == nil || *s.Resident > s.Bytes || len(*s.Runs) > 0 && ((*s.Runs)[0][0] < s.From || (*s.Runs)[0][1] > s.To) {
			t.Errorf("%+v", s)
		}
	}
}

func TestResidencyText(t *testing.T) {
	store := filepath.Join(fixtures.Unpack(t, "5.3.3-clean"), "store")
	out := good(t, "residency", store, "--map")
	for _, want := range []string{"\nmemory ", "\nthreshold ", "\nprober ", "\ntail ", "\nwithin ", "what a pull from here would be told:", "\n  beginning ", "\n  middle ", "\n  tail ", "00000000000000524288", "%RETRY%billing"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if !strings.Contains(out, "unknown") && !strings.Contains(out, "  [0, ") {
		t.Error("no runs in\n", out)
	}
	if out := good(t, "residency", store); strings.Contains(out, "  [") {
		t.Error("runs in\n", out)
	}
}

// What is not known is null, and told with the reason.
func TestResidencyUnknown(t *testing.T) {
	store := filepath.Join(fixtures.Unpack(t, "5.3.3-clean"), "store")
	r, err := warmlog.Residency(context.Background(), store, warmlog.ResidencyOptions{Methods: 1 << 7})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(residencyLine(r))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(b); strings.Count(text, `"residentBytes":null,"runs":null`) != 39 || !strings.Contains(text, `"prober":{"method":"unknown","findings":[{"method":"cachestat","believed":false,"reason":"not to be used"}`) {
		t.Error(text)
	}
	var sb strings.Builder
	printResidency(&sb, r, true, 10)
	text := sb.String()
	if strings.Count(text, "?????") < 5 || strings.Count(text, "unknown: cachestat: not believed: not to be used") != 2 || !strings.Contains(text, "unknown how much is in memory of") || strings.Contains(text, " 0 bytes") {
		t.Error(text)
	}
}

// counting is a writer that says when so many lines were written.
type counting struct {
	mu   sync.Mutex
	text bytes.Buffer
	left int
	done func()
}

func (c *counting) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.Write(b)
	if c.left -= bytes.Count(b, []byte("\n")); c.left <= 0 {
		c.done()
	}
	return len(b), nil
}

func TestResidencyWatch(t *testing.T) {
	store := filepath.Join(fixtures.Unpack(t, "5.3.3-clean"), "store")
	foreign := filepath.Join(store, "commitlog", "foreign")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	watch := func(lines int, args ...string) string {
		t.Helper()
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		out := &counting{left: lines, done: stop}
		var errOut bytes.Buffer
		code := run(ctx, append([]string{"residency", store, "--watch"}, args...), strings.NewReader(""), out, &errOut)
		if code != exitGood || strings.Count(errOut.String(), foreign) != 1 {
			t.Errorf("exit %d, %s", code, errOut.String())
		}
		return out.text.String()
	}
	all := lines[residencyJSON](t, watch(2, "--json"))
	if len(all) != 2 || len(all[1].Segments) != 5 {
		t.Errorf("%d objects", len(all))
	}
	if out := watch(60); !strings.HasPrefix(out, "20") || strings.Count(out, "\nstore ") < 1 || strings.Contains(out, "\x1b") {
		t.Error(out)
	}
}

func TestResidencyNotes(t *testing.T) {
	store := filepath.Join(fixtures.Unpack(t, "5.3.3-clean"), "store")
	loop := filepath.Join(store, "commitlog", "00000000000000000001")
	if err := os.Symlink(filepath.Base(loop), loop); err != nil {
		t.Fatal(err)
	}
	out, errOut, code := tool(t, "residency", store, "--json")
	if code != exitFailed || len(lines[residencyJSON](t, out)[0].Segments) != 5 || !strings.Contains(errOut, loop) || !strings.Contains(errOut, "1 file or directory could not be looked at") {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
}

func TestStrip(t *testing.T) {
	f := warmlog.FileResidency{Bytes: 1000, Written: 800, Known: true, Runs: [][2]int64{{5000, 5100}, {5105, 5200}, {5250, 5300}, {5310, 5320}, {5599, 5600}}}
	for _, c := range []struct {
		width int
		want  string
	}{
		{10, "█▓▒░·░··  "},
		{5, "▓░░· "},
		{1, "░"},
	} {
		if got := strip(f, 5000, c.width); got != c.want {
			t.Errorf("%d: %q; want %q", c.width, got, c.want)
		}
	}
	for _, c := range []struct {
		f    warmlog.FileResidency
		want string
	}{
		{warmlog.FileResidency{Bytes: 3, Written: 3, Known: true, Runs: [][2]int64{{0, 3}}}, "████████"},
		{warmlog.FileResidency{Known: true}, "        "},
		{warmlog.FileResidency{Bytes: 80, Written: 40}, "????    "},
		{warmlog.FileResidency{Bytes: 1<<63 - 1, Written: 1<<63 - 1, Known: true}, "········"},
	} {
		if got := strip(c.f, 0, 8); got != c.want {
			t.Errorf("%+v: %q; want %q", c.f, got, c.want)
		}
	}
	for _, c := range []struct {
		n, of int64
		want  string
	}{{0, 0, "-"}, {0, 5, "0.0 %"}, {1, 5000, "<0.1 %"}, {9999, 10000, "99.9 %"}, {7, 7, "100.0 %"}} {
		if got := share(c.n, c.of); got != c.want {
			t.Errorf("%d of %d: %s", c.n, c.of, got)
		}
	}
	if got := printable("a\nb"); got != `"a\nb"` || printable("日志 %") == `"日志 %"` {
		t.Error(got)
	}
}

func TestPaint(t *testing.T) {
	var sb strings.Builder
	paint(&sb, "one\n二二二二\nthree\nfour\n", 3, 3)
	if want := "\x1b[H\x1b[?7lone\x1b[K\n二二二\x1b[K\n… a\x1b[K\x1b[J\x1b[?7h"; sb.String() != want {
		t.Errorf("%q\nwant %q", sb.String(), want)
	}
}
