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
	"testing"

	"github.com/warmlog/warmlog/internal/fixtures"
)

// tool runs a command line and returns what it wrote and its exit code.
func tool(t testing.TB, args ...string) (out, errOut string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(""), &o, &e)
	return o.String(), e.String(), code
}

// good runs a command that must succeed and say nothing on standard error.
func good(t testing.TB, args ...string) string {
	t.Helper()
	out, errOut, code := tool(t, args...)
	if code != exitGood || errOut != "" {
		t.Fatalf("warmlog %s: exit %d, %s", strings.Join(args, " "), code, errOut)
	}
	return out
}

func lines[T any](t testing.TB, out string) []T {
	t.Helper()
	var all []T
	for line := range strings.Lines(out) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, v)
	}
	return all
}

// manifest makes of a printed message a line of the fixtures' manifests.
func manifest(m messageJSON) fixtures.Message {
	var pairs []string
	for name, value := range m.Properties {
		pairs = append(pairs, name+"="+value)
	}
	slices.SortFunc(pairs, func(a, b string) int {
		return strings.Compare(strings.SplitN(a, "=", 2)[0], strings.SplitN(b, "=", 2)[0])
	})
	return fixtures.Message{
		Topic: m.Topic, Queue: m.Queue, QueueOffset: m.QueueOffset, PhysicalOffset: m.PhysicalOffset, Size: m.Size,
		Flag: m.Flag, SysFlag: m.SysFlag, BornTimestamp: m.BornTimestamp, StoreTimestamp: m.StoreTimestamp,
		BornHost: m.BornHost, StoreHost: m.StoreHost, BodyCRC: int64(m.BodyCRC), BodyLen: m.BodyLen, BodySHA256: m.BodySHA256,
		Tags: m.Tags, Keys: m.Keys, MsgID: m.MsgID, Properties: "{" + strings.Join(pairs, ", ") + "}",
	}
}

func TestCatIsTheManifest(t *testing.T) {
	for _, name := range fixtures.Stores {
		t.Run(name, func(t *testing.T) {
			dir := fixtures.Unpack(t, name)
			want := fixtures.Lines[fixtures.Message](t, filepath.Join(dir, "messages.jsonl"))
			slices.SortStableFunc(want, func(a, b fixtures.Message) int { return strings.Compare(a.Topic, b.Topic) })
			got := lines[messageJSON](t, good(t, "cat", filepath.Join(dir, "store")))
			if len(got) != len(want) {
				t.Fatalf("%d messages, want %d", len(got), len(want))
			}
			for i := range got {
				g, w := fmt.Sprintf("%+v", text(manifest(got[i]))), fmt.Sprintf("%+v", text(want[i]))
				if g != w {
					t.Fatalf("line %d\n got %s\nwant %s", i, g, w)
				}
			}
		})
	}
}

// text replaces the pointers of a line.
func text(m fixtures.Message) any {
	deref := func(s *string) string {
		if s == nil {
			return "(null)"
		}
		return *s
	}
	tags, keys := deref(m.Tags), deref(m.Keys)
	m.Tags, m.Keys = nil, nil
	return []any{m, tags, keys}
}

func TestCatChooses(t *testing.T) {
	store := filepath.Join(fixtures.Unpack(t, "5.3.3-clean"), "store")
	all := lines[messageJSON](t, good(t, "cat", store))
	count := func(keep func(messageJSON) bool) int {
		return len(slices.DeleteFunc(slices.Clone(all), func(m messageJSON) bool { return !keep(m) }))
	}
	for args, want := range map[string]int{
		"--topic orders":                              count(func(m messageJSON) bool { return m.Topic == "orders" }),
		"--topic orders --queue 1":                    count(func(m messageJSON) bool { return m.Topic == "orders" && m.Queue == 1 }),
		"--topic orders --queue 1 --offset 5":         count(func(m messageJSON) bool { return m.Topic == "orders" && m.Queue == 1 && m.QueueOffset >= 5 }),
		"--topic orders --queue 1 --offset 5 --max 3": 3,
		"--max 7":          7,
		"--max 0":          0,
		"--offset 1000000": 0,
		"--log --max 5":    5,
		"--log":            500,
		"--log --offset 1": 499,
		"--topic orders --queue 1 --max 99999999999": count(func(m messageJSON) bool { return m.Topic == "orders" && m.Queue == 1 }),
	} {
		got := lines[messageJSON](t, good(t, append([]string{"cat", store}, strings.Fields(args)...)...))
		if len(got) != want {
			t.Errorf("cat %s: %d messages, want %d", args, len(got), want)
		}
	}
	last := int64(-1)
	for _, m := range lines[messageJSON](t, good(t, "cat", store, "--log")) {
		if m.PhysicalOffset <= last {
			t.Errorf("%d after %d", m.PhysicalOffset, last)
		}
		last = m.PhysicalOffset
	}
	if m := lines[messageJSON](t, good(t, "cat", store, "--body", "--max", "1"))[0]; m.BodyBase64 == nil {
		t.Error("no body with --body")
	}
	if out, errOut, code := tool(t, "cat", store, "--topic", "nothing"); out != "" || code != exitGood || !strings.Contains(errOut, "no such queue") {
		t.Errorf("unknown topic: %q, %q, %d", out, errOut, code)
	}
}

func TestGetIsTheAnswer(t *testing.T) {
	dir := fixtures.Unpack(t, "5.3.3-headless")
	store := filepath.Join(dir, "store")
	n := 0
	for i, a := range fixtures.Lines[fixtures.Answer](t, filepath.Join(dir, "answers.jsonl")) {
		if a.Ask != "get" || i%5 != 0 {
			continue
		}
		n++
		out := good(t, "get", store, "--topic", a.Topic, "--queue", fmt.Sprint(a.Queue), "--offset", fmt.Sprint(a.Offset), "--max", fmt.Sprint(a.Max))
		got := lines[pullJSON](t, out)[0]
		if got.Status != a.Status || got.Next != a.Next || got.MinOffset != a.MinOffset || got.MaxOffset != a.MaxOffset || got.Count != a.Count || got.Bytes != a.Bytes {
			t.Errorf("got %+v\nwant %+v", got, a)
		}
		if got.SuggestSlave || got.Threshold <= 0 || got.Reason == "" {
			t.Errorf("decision of %+v", got)
		}
	}
	if n < 50 {
		t.Errorf("only %d answers", n)
	}
	got := lines[pullJSON](t, good(t, "get", store, "--topic", "tl", "--queue", "0", "--offset", "20", "--max", "3", "--records"))[0]
	if len(got.Records) != got.Count || got.Count != 3 || got.Records[0].QueueOffset != 20 {
		t.Errorf("records of %+v", got)
	}
}

func TestFind(t *testing.T) {
	for _, name := range []string{"4.9.7-rich", "5.3.3-rich", "5.3.3-headless"} {
		dir := fixtures.Unpack(t, name)
		store := filepath.Join(dir, "store")
		all := fixtures.Lines[fixtures.Message](t, filepath.Join(dir, "messages.jsonl"))
		slices.SortFunc(all, func(a, b fixtures.Message) int { return int(a.PhysicalOffset - b.PhysicalOffset) })
		for _, a := range fixtures.Lines[fixtures.Answer](t, filepath.Join(dir, "answers.jsonl")) {
			if a.Ask != "key" {
				continue
			}
			var want []int64
			for _, m := range all {
				if m.Topic == a.Topic && m.Keys != nil && slices.Contains(strings.Split(*m.Keys, " "), a.Key) && m.StoreTimestamp >= a.From && m.StoreTimestamp <= a.To {
					want = append(want, m.PhysicalOffset)
				}
			}
			if len(want) > 64 {
				want = want[len(want)-64:]
			}
			var got []int64
			for _, m := range lines[messageJSON](t, good(t, "find", store, "--topic", a.Topic, "--key", a.Key, "--from", fmt.Sprint(a.From), "--to", fmt.Sprint(a.To))) {
				got = append(got, m.PhysicalOffset)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s %s: %v, want %v", name, a.Topic, a.Key, got, want)
			}
		}
		out := good(t, "find", store, "--topic", all[0].Topic, "--queue", fmt.Sprint(all[0].Queue), "--time", "0")
		if !strings.HasPrefix(out, `{"offset":`) {
			t.Error(out)
		}
	}
}

func TestFindSaysThatThereAreMore(t *testing.T) {
	store := filepath.Join(fixtures.Unpack(t, "5.3.3-rich"), "store")
	out, errOut, code := tool(t, "find", store, "--topic", "tl", "--key", "Aa", "--max", "2")
	if got := lines[messageJSON](t, out); len(got) != 2 || got[0].PhysicalOffset >= got[1].PhysicalOffset || code != exitGood || !strings.Contains(errOut, "older") {
		t.Errorf("%d messages, exit %d, %q", len(got), code, errOut)
	}
	if out := good(t, "find", store, "--topic", "tl", "--key", "Aa", "--from", "5", "--to", "0"); out != "" {
		t.Errorf("from above to: %s", out)
	}
}

func TestInspect(t *testing.T) {
	store := filepath.Join(fixtures.Unpack(t, "5.3.3-pair"), "master")
	info := lines[infoJSON](t, good(t, "inspect", store, "--json"))[0]
	if len(info.Segments) != 1 || info.Segments[0].To != 131072 || info.MaxOffset != 19918 || info.Recovery.Cut != 19918 || !info.Clean || info.Running ||
		len(info.Queues) != 17 || info.Checkpoint.PhysicTime == 0 || len(info.Index) != 1 || len(info.Groups) == 0 {
		t.Errorf("%+v", info)
	}
	text := good(t, "inspect", store)
	for _, want := range []string{"stopped in order", "Payments", "RMQ_SYS_TRANS_HALF_TOPIC", "billing"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	killed := filepath.Join(fixtures.Unpack(t, "5.3.3-killed"), "store")
	if text := good(t, "inspect", killed); !strings.Contains(text, "not stopped in order, by process 7719") {
		t.Error(text)
	}
}

func TestVerify(t *testing.T) {
	store := filepath.Join(fixtures.Unpack(t, "5.3.3-clean"), "store")
	if out := good(t, "verify", store); !strings.Contains(out, "500 records") || !strings.Contains(out, "0 damaged") {
		t.Error(out)
	}
	// A bit of the body of a queued record in the second segment.
	records := lines[messageJSON](t, good(t, "cat", store, "--topic", "orders"))
	i := slices.IndexFunc(records, func(m messageJSON) bool {
		return m.PhysicalOffset > 131072 && m.PhysicalOffset < 250000 && m.BodyLen > 500
	})
	path := filepath.Join(store, "commitlog", "00000000000000131072")
	at := records[i].PhysicalOffset - 131072
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at+300] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	out, errOut, code := tool(t, "verify", store)
	if code != exitFailed || errOut != "" || !strings.Contains(out, path+" at byte ") {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
	out, _, code = tool(t, "verify", store, "--json")
	damage := lines[damageJSON](t, strings.SplitAfter(out, "\n")[0])[0]
	if code != exitFailed || damage.File != path || damage.Kind != "bad-body-crc" || damage.Offset != at {
		t.Errorf("%+v, exit %d", damage, code)
	}
	out, errOut, code = tool(t, "cat", store)
	if n := len(lines[messageJSON](t, out)); code != exitFailed || n != 436 || !strings.Contains(errOut, "damage: "+path) {
		t.Errorf("cat: %d messages, exit %d, %s", n, code, errOut)
	}
}

func TestExitCodes(t *testing.T) {
	store := filepath.Join(fixtures.Unpack(t, "5.3.3-pair"), "master")
	nowhere := filepath.Join(t.TempDir(), "nothing")
	for line, want := range map[string]int{
		"cat STORE":                      exitGood,
		"help":                           exitGood,
		"cat --help":                     exitGood,
		"completion bash":                exitGood,
		"":                               exitGood,
		"cat":                            exitMisuse,
		"cat STORE STORE":                exitMisuse,
		"cat STORE --nonsense":           exitMisuse,
		"cat STORE --queue 1":            exitMisuse,
		"cat STORE --topic t --log":      exitMisuse,
		"cat STORE --max -1":             exitMisuse,
		"nonsense":                       exitMisuse,
		"get STORE":                      exitMisuse,
		"get STORE --topic t --offset x": exitMisuse,
		"get STORE --topic t --offset 0 --policy magic":  exitMisuse,
		"get STORE --topic t --offset 0 --queue -1":      exitMisuse,
		"find STORE --topic t":                           exitMisuse,
		"find STORE --topic t --key k --time 1":          exitMisuse,
		"find STORE --topic t --time 1 --from 1":         exitMisuse,
		"find STORE --topic t --key k --max 0":           exitMisuse,
		"residency":                                      exitMisuse,
		"residency STORE":                                exitGood,
		"residency STORE/nothing":                        exitFailed,
		"residency STORE/checkpoint":                     exitFailed,
		"append":                                         exitMisuse,
		"append NEW":                                     exitMisuse,
		"append NEW --topic t --nonsense":                exitMisuse,
		"append NEW --topic a/b":                         exitMisuse,
		"append NEW --topic t --queue -1":                exitMisuse,
		"append NEW --json --queue -1":                   exitMisuse,
		"append NEW --topic t --tags \x01":               exitMisuse,
		"append NEW --topic t --segment-size 0":          exitMisuse,
		"append NEW --topic t --segment-size 4294967296": exitMisuse,
		"append NEW --topic t --queue-file-size 30":      exitMisuse,
		"demo NEW":                          exitMisuse,
		"demo --messages 99":                exitMisuse,
		"demo --body -1":                    exitMisuse,
		"demo --memory 0":                   exitMisuse,
		"append STORE/checkpoint --topic t": exitFailed,
		"demo --dir STORE":                  exitFailed,
		"cat STORE/nothing":                 exitFailed,
		"verify STORE/checkpoint":           exitFailed,
	} {
		args := strings.Fields(strings.NewReplacer("STORE", store, "NEW", nowhere).Replace(line))
		if out, errOut, code := tool(t, args...); code != want || want != exitGood && errOut == "" {
			t.Errorf("warmlog %s: exit %d, want %d: %s%s", line, code, want, out, errOut)
		}
	}
	if _, err := os.Stat(nowhere); !os.IsNotExist(err) {
		t.Errorf("a command that was misused made a store: %v", err)
	}
	for name, example := range map[string]string{"cat": " /data/store", "get": " /data/store", "find": " /data/store", "inspect": " /data/store",
		"residency": " /data/store", "verify": " /data/store", "append": " /data/store", "demo": " --messages"} {
		if out := good(t, name, "--help"); !strings.Contains(out, "Examples:") || !strings.Contains(out, "warmlog "+name+example) {
			t.Errorf("no example in the help of %s", name)
		}
	}
}
