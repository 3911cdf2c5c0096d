package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDemoJSON(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	for _, n := range []int64{100, 3001} {
		r := lines[demoJSON](t, good(t, "demo", "--json", "--dir", dir, "--messages", count0(n), "--body", "300", "--memory", "20000"))[0]
		if r.Messages != n || r.BodyBytes != 300 || r.Memory != 20000 || r.Dir != dir || !r.Kept || r.LogBytes < 300*n {
			t.Errorf("%+v", r)
		}
		total := int64(0)
		for _, row := range append(r.Append, r.Read...) {
			if row.Messages <= 0 || row.Seconds <= 0 || row.MessagesPerSecond <= 0 || row.BytesPerSecond <= row.MessagesPerSecond || row.NanosPerMessage <= 0 {
				t.Errorf("%+v", row)
			}
		}
		for _, row := range r.Append {
			total += row.Messages
		}
		if len(r.Append) != 5 || len(r.Read) != 4 || total != n {
			t.Errorf("%d ways to append %d messages, %d ways to read", len(r.Append), total, len(r.Read))
		}
		for _, row := range r.Read {
			if row.Messages != n || row.Pulls > n || strings.Contains(row.What, "1 a pull") && row.Pulls != n {
				t.Errorf("%+v", row)
			}
		}
		tail, far := r.Readers[0], r.Readers[1]
		if tail.SuggestSlave || tail.Threshold != 20000 || tail.Diff <= 0 || tail.Diff > 20000 || tail.Reason != "within-threshold" || tail.Sentence == "" {
			t.Errorf("tail %+v", tail)
		}
		if !far.SuggestSlave || far.Threshold != 20000 || far.Diff <= 20000 || far.Offset != 0 || far.Reason != "beyond-threshold" || far.Sentence == "" {
			t.Errorf("far %+v", far)
		}
		if got := len(lines[messageJSON](t, good(t, "cat", dir))); int64(got) != n {
			t.Errorf("cat: %d messages, want %d", got, n)
		}
		good(t, "verify", dir)
		if _, errOut, code := tool(t, "demo", "--dir", dir, "--messages", "100"); code != exitFailed || !strings.Contains(errOut, "not empty") {
			t.Errorf("a second time: exit %d, %s", code, errOut)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

func count0(n int64) string { return strings.ReplaceAll(count(n), ",", "") }

func TestDemoTable(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	out := good(t, "demo", "--messages", "2000", "--memory", "100000")
	for _, want := range []string{"2,000 messages of 1 KiB", "one by one", "32 in a call", "asynchronous", "flushed", "near the end, 32 a pull", "from the beginning, 1 a pull",
		"97.6 KiB stand in for this broker's memory", "at the tail: It reads 1.1 KiB behind the end", "far behind: It reads 2.1 MiB behind the end"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	yes := map[string]string{}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 2 && (strings.HasPrefix(line, "at the tail  ") || strings.HasPrefix(line, "far behind  ")) {
			yes[f[0]] = f[len(f)-1]
		}
	}
	if yes["at"] != "no" || yes["far"] != "yes" {
		t.Errorf("%v in\n%s", yes, out)
	}
	if out := good(t, "demo", "--messages", "100", "--body", "0"); !strings.Contains(out, "The whole log counts as in memory") {
		t.Error(out)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	var o, e strings.Builder
	if code := run(ended, []string{"demo"}, strings.NewReader(""), &o, &e); code != exitFailed || o.Len() > 0 {
		t.Errorf("interrupted: exit %d, %s%s", code, &o, &e)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestNumbersForPeople(t *testing.T) {
	for got, want := range map[string]string{
		count(0): "0", count(999): "999", count(1000): "1,000", count(1234567): "1,234,567",
		size(0): "0 bytes", size(1023): "1,023 bytes", size(1024): "1 KiB", size(1<<20 + 1<<19): "1.5 MiB", size(3 << 30): "3 GiB",
		nanos(81.4): "81 ns", nanos(1940): "1.94 µs", nanos(2.5e6): "2.50 ms", nanos(3e9): "3.00 s",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
