package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmlog/warmlog/internal/fixtures"
)

// toolWith is tool with a standard input.
func toolWith(t testing.TB, in string, args ...string) (out, errOut string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(in), &o, &e)
	return o.String(), e.String(), code
}

// appendLines appends lines, all of which must be taken.
func appendLines(t testing.TB, in string, args ...string) []ackJSON {
	t.Helper()
	out, errOut, code := toolWith(t, in, append([]string{"append"}, args...)...)
	if code != exitGood || errOut != "" {
		t.Fatalf("append: exit %d, %s", code, errOut)
	}
	return lines[ackJSON](t, out)
}

// sameAsCat compares acknowledgements and bodies with what cat prints.
func sameAsCat(t testing.TB, acks []ackJSON, bodies []string, cat []messageJSON) {
	t.Helper()
	if len(acks) != len(bodies) || len(cat) != len(acks) {
		t.Fatalf("%d acknowledgements, %d in cat, want %d", len(acks), len(cat), len(bodies))
	}
	for i, m := range cat {
		if got := (ackJSON{m.Topic, m.Queue, m.QueueOffset, m.PhysicalOffset, m.Size, m.MsgID}); got != acks[i] {
			t.Errorf("message %d: acknowledged %+v, cat has %+v", i, acks[i], got)
		}
		if body, err := base64.StdEncoding.DecodeString(*m.BodyBase64); err != nil || string(body) != bodies[i] {
			t.Errorf("message %d: body %.40q, want %.40q", i, body, bodies[i])
		}
	}
}

func TestAppendLines(t *testing.T) {
	bodies := []string{"one", "", "with\x00bytes\xff\x01\r", strings.Repeat("long", 100_000), strings.Repeat("x", chunkSize), strings.Repeat("x", chunkSize-1), strings.Repeat("x", maxBody), "last"}
	for _, flushed := range []bool{false, true} {
		for _, newline := range []string{"\n", ""} { // at the end
			dir := filepath.Join(t.TempDir(), "new", "store")
			args := []string{dir, "--topic", "orders", "--queue", "3", "--tags", "paid", "--keys", "k1 k2", "--segment-size", "8388608", "--queue-file-size", "200"}
			if flushed {
				args = append(args, "--flushed")
			}
			acks := appendLines(t, strings.Join(bodies, "\n")+newline, args...)
			cat := lines[messageJSON](t, good(t, "cat", dir, "--topic", "orders", "--queue", "3", "--body"))
			sameAsCat(t, acks, bodies, cat)
			for i, m := range cat {
				if m.QueueOffset != int64(i) || m.Tags == nil || *m.Tags != "paid" || m.Keys == nil || *m.Keys != "k1 k2" {
					t.Errorf("message %d: %+v", i, m)
				}
			}
			info := lines[infoJSON](t, good(t, "inspect", dir, "--json"))[0]
			if info.SegmentSize != 8388608 || info.QueueFileSize != 200 || !info.Clean || info.Running {
				t.Errorf("%+v", info)
			}
		}
	}
}

func TestAppendJSON(t *testing.T) {
	dir := t.TempDir()
	in := strings.Join([]string{
		`{}`,
		`{"topic":"other","queue":7,"tags":"t","keys":"k","properties":{"b":"2","a":"é\u0001"},"body":"no, a separator"}`,
		`{"topic":"other","queue":7,"tags":"t","keys":"k","properties":{"b":"2","a":"é"},"body":"text \ufffd"}`,
		`{"bodyBase64":"AAEC/w==","properties":{"TAGS":"own"}}`,
		`{"keys":null,"body":"x"}`,
	}, "\n")
	out, errOut, code := toolWith(t, in, "append", dir, "--json", "--topic", "orders", "--queue", "2", "--keys", "dk", "--segment-size", "1000000")
	if wrong := lines[refusedJSON](t, strings.SplitAfter(errOut, "\n")[0]); code != exitFailed || wrong[0].Line != 2 || !strings.Contains(wrong[0].Error, "separator") {
		t.Fatalf("exit %d, %s", code, errOut)
	}
	sameAsCat(t, lines[ackJSON](t, out), []string{"", "text \uFFFD", "\x00\x01\x02\xff", "x"}, lines[messageJSON](t, good(t, "cat", dir, "--log", "--body")))
	orders := lines[messageJSON](t, good(t, "cat", dir, "--topic", "orders", "--queue", "2"))
	if len(orders) != 3 || *orders[0].Keys != "dk" || orders[0].Tags != nil || *orders[1].Tags != "own" || *orders[2].Keys != "dk" {
		t.Errorf("%+v", orders)
	}
	other := lines[messageJSON](t, good(t, "cat", dir, "--topic", "other"))
	if len(other) != 1 || other[0].Queue != 7 || fmt.Sprint(other[0].Properties) != "map[KEYS:k TAGS:t a:é b:2]" {
		t.Errorf("%+v", other)
	}
}

func TestAppendRefuses(t *testing.T) {
	bad := []struct{ line, want string }{
		{`nonsense`, "invalid character"},
		{``, "unexpected end"},
		{`null`, "no JSON object"},
		{`[1]`, "no JSON object"},
		{`{"topic":"t"} {}`, "invalid character"},
		{`{"topic":"t","bodi":"x"}`, "bodi: unknown member"},
		{`{"Topic":"t"}`, "Topic: unknown member"},
		{`{"body":"x"}`, "topic is empty"},
		{`{"topic":"a/b"}`, "no name for a directory"},
		{`{"topic":"t","queue":-1}`, "queue id -1"},
		{`{"topic":"t","queue":"1"}`, "queue: "},
		{`{"topic":"t","queue":4294967296}`, "queue: "},
		{`{"topic":"t","body":1}`, "body: "},
		{`{"topic":"t","body":"x","bodyBase64":"eA=="}`, "there is a body, too"},
		{`{"topic":"t","bodyBase64":"?"}`, "bodyBase64: "},
		{`{"topic":"t","properties":{"a":1}}`, `"a"`},
		{`{"topic":"t","properties":{"a":null}}`, `"a" is no string`},
		{`{"topic":"t","keys":"k","properties":{"KEYS":"k"}}`, `"KEYS" is given twice`},
		{`{"topic":"t","body":"\ud800"}`, "surrogate"},
		{"{\"topic\":\"t\",\"body\":\"\xff\"}", "UTF-8"},
		{`{"topic":"t","body":"` + strings.Repeat("x", maxBody+1) + `"}`, "limit 4194304"},
		{`{"topic":"t","properties":{"a":"` + strings.Repeat("x", 40_000) + `"}}`, "properties take"},
	}
	var in strings.Builder
	for _, b := range bad { // each between two that are taken
		fmt.Fprintf(&in, "{\"topic\":\"t\",\"body\":\"good\"}\n%s\n", b.line)
	}
	dir := t.TempDir()
	out, errOut, code := toolWith(t, in.String(), "append", dir, "--json")
	if acks := lines[ackJSON](t, out); code != exitFailed || len(acks) != len(bad) || acks[len(bad)-1].QueueOffset != int64(len(bad)-1) {
		t.Errorf("exit %d, %d acknowledged, want %d", code, len(acks), len(bad))
	}
	said := strings.SplitAfter(errOut, "\n")
	for i, b := range bad {
		if one := lines[refusedJSON](t, said[i])[0]; one.Line != int64(2*i+2) || !strings.Contains(one.Error, b.want) {
			t.Errorf("%.60s: %+v, want line %d, %s", b.line, one, 2*i+2, b.want)
		}
	}
	if want := fmt.Sprintf("%d of %d lines were refused", len(bad), 2*len(bad)); !strings.Contains(errOut, want) {
		t.Errorf("no %q in %s", want, errOut)
	}

	in.Reset()
	fmt.Fprintf(&in, "a\n%s\nb\n%s\n", strings.Repeat("x", maxBody+1), strings.Repeat("x", 2*maxBody))
	out, errOut, code = toolWith(t, in.String(), "append", dir, "--topic", "lines")
	if n := len(lines[ackJSON](t, out)); n != 2 || code != exitFailed || !strings.Contains(errOut, "line 2: the line has 4194305 bytes") || !strings.Contains(errOut, "line 4: ") {
		t.Errorf("%d acknowledged, exit %d, %s", n, code, errOut)
	}
}

// talk is a running append: a line goes in and its acknowledgement comes out.
type talk struct {
	t    *testing.T
	in   io.Writer
	out  *bufio.Reader
	acks []ackJSON
}

func (k *talk) say(line string) {
	k.t.Helper()
	if _, err := io.WriteString(k.in, line+"\n"); err != nil {
		k.t.Fatal(err)
	}
	answer, err := k.out.ReadString('\n')
	if err != nil {
		k.t.Fatalf("%s: %v", line, err)
	}
	k.acks = append(k.acks, lines[ackJSON](k.t, answer)...)
}

// startAppend runs append with pipes. The returned function closes its input and returns what
// it left.
func startAppend(t *testing.T, args ...string) (*talk, func() (rest, errOut string, code int)) {
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	var e bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(context.Background(), append([]string{"append"}, args...), inRead, outWrite, &e)
		inRead.Close()
		outWrite.Close()
	}()
	k := &talk{t: t, in: inWrite, out: bufio.NewReader(outRead)}
	return k, func() (string, string, int) {
		inWrite.Close()
		rest, _ := io.ReadAll(k.out)
		return string(rest), e.String(), <-code
	}
}

func TestAppendAnswersAtOnce(t *testing.T) {
	for _, mode := range [][]string{nil, {"--flushed"}} {
		dir := t.TempDir()
		k, end := startAppend(t, append([]string{dir, "--topic", "orders", "--segment-size", "65536"}, mode...)...)
		var bodies []string
		for i := range 20 {
			bodies = append(bodies, fmt.Sprintf("line %d", i))
			k.say(bodies[i])
		}
		if rest, errOut, code := end(); rest != "" || errOut != "" || code != exitGood {
			t.Fatalf("%q, %q, exit %d", rest, errOut, code)
		}
		sameAsCat(t, k.acks, bodies, lines[messageJSON](t, good(t, "cat", dir, "--body")))
	}
}

func TestAppendKeepsTheOrder(t *testing.T) {
	const n = mostInFlight + 1000
	var in strings.Builder
	for i := range n {
		fmt.Fprintf(&in, "{\"queue\":%d,\"body\":\"%d\"}\n", i%5, i)
	}
	for _, mode := range [][]string{nil, {"--flushed"}} {
		dir := t.TempDir()
		acks := appendLines(t, in.String(), append([]string{dir, "--json", "--topic", "orders", "--segment-size", "1000000"}, mode...)...)
		bodies := make([]string, n)
		for i := range bodies {
			bodies[i] = fmt.Sprint(i)
		}
		sameAsCat(t, acks, bodies, lines[messageJSON](t, good(t, "cat", dir, "--log", "--body")))
		for i, one := range acks {
			if one.Queue != int32(i%5) || one.QueueOffset != int64(i/5) {
				t.Fatalf("acknowledgement %d: %+v", i, one)
			}
		}
		good(t, "verify", dir)
	}
}

func TestAppendGoesOn(t *testing.T) {
	dir := t.TempDir()
	appendLines(t, "a\nb\n", dir, "--topic", "orders", "--segment-size", "1000000")
	if acks := appendLines(t, "c\n", dir, "--topic", "orders"); acks[0].QueueOffset != 2 {
		t.Errorf("%+v", acks)
	}
	if acks := appendLines(t, "", dir, "--topic", "orders", "--segment-size", "1000000"); len(acks) != 0 {
		t.Errorf("%+v", acks)
	}
	for _, other := range []string{"--segment-size", "--queue-file-size"} {
		if _, errOut, code := toolWith(t, "d\n", "append", dir, "--topic", "orders", other, "500000"); code != exitFailed || !strings.Contains(errOut, "500000") {
			t.Errorf("%s: exit %d, %s", other, code, errOut)
		}
	}
	if n := len(lines[messageJSON](t, good(t, "cat", dir))); n != 3 {
		t.Errorf("%d messages", n)
	}
	// A second writer is refused, and the first one goes on.
	k, end := startAppend(t, dir, "--topic", "orders")
	k.say("d")
	if _, errOut, code := toolWith(t, "e\n", "append", dir, "--topic", "orders"); code != exitFailed || errOut == "" {
		t.Errorf("a second writer: exit %d, %s", code, errOut)
	}
	k.say("e")
	if _, errOut, code := end(); code != exitGood || k.acks[1].QueueOffset != 4 {
		t.Errorf("exit %d, %s, %+v", code, errOut, k.acks)
	}
}

// Stores of real brokers are gone on with, also one whose broker was killed.
func TestAppendToABrokersStore(t *testing.T) {
	for _, name := range fixtures.Stores {
		t.Run(name, func(t *testing.T) {
			store := filepath.Join(fixtures.Unpack(t, name), "store")
			before := lines[messageJSON](t, good(t, "cat", store, "--body"))
			have := before[len(before)-1]
			next := int64(0)
			for _, m := range before {
				if m.Topic == have.Topic && m.Queue == have.Queue {
					next = m.QueueOffset + 1
				}
			}
			out, errOut, code := toolWith(t, "one\ntwo\n", "append", store, "--topic", have.Topic, "--queue", fmt.Sprint(have.Queue))
			acks := lines[ackJSON](t, out)
			if code != exitGood || len(acks) != 2 || acks[0].QueueOffset != next || acks[1].QueueOffset != next+1 {
				t.Fatalf("exit %d, %s, %+v, want offset %d", code, errOut, acks, next)
			}
			after := lines[messageJSON](t, good(t, "cat", store, "--body"))
			if len(after) != len(before)+2 {
				t.Fatalf("%d messages, want %d", len(after), len(before)+2)
			}
			for i, m := range before {
				if a, b := mustJSON(t, m), mustJSON(t, after[i]); a != b {
					t.Fatalf("message %d was\n%s and is\n%s", i, a, b)
				}
			}
			sameAsCat(t, acks, []string{"one", "two"}, after[len(before):])
			good(t, "verify", store)
		})
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A store that fails ends the command, which says how far it came.
func TestAppendToAStoreThatFails(t *testing.T) {
	for _, mode := range [][]string{nil, {"--flushed"}} {
		failing(t, mode)
	}
}

func failing(t *testing.T, mode []string) {
	dir := t.TempDir()
	k, end := startAppend(t, append([]string{dir, "--topic", "orders", "--segment-size", "65536"}, mode...)...)
	k.say("first")
	// No further segment can be made.
	if err := os.RemoveAll(filepath.Join(dir, "commitlog")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "warmlog")); err != nil {
		t.Fatal(err)
	}
	go func() {
		for range 1000 { // more than the segments that may have been made in advance
			if _, err := fmt.Fprintln(k.in, strings.Repeat("x", 10_000)); err != nil {
				return
			}
		}
	}()
	got, _ := io.ReadAll(k.out)
	acks := int64(len(k.acks) + len(lines[ackJSON](t, string(got))))
	_, errOut, code := end()
	if want := fmt.Sprintf("acknowledged: %d of ", acks); code != exitFailed || !strings.Contains(errOut, want) || !strings.Contains(errOut, fmt.Sprintf("last one line %d,", acks)) {
		t.Errorf("exit %d, %s\nwant %s", code, errOut, want)
	}
}
