//go:build warmlogdebug

package getmessage_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/poison"
	"github.com/warmlog/warmlog/message"
)

// here returns the line that calls it.
func here() string {
	_, file, line, _ := runtime.Caller(1)
	return fmt.Sprintf("%s:%d", file, line)
}

// panics returns what do panics with, "" if it does not.
func panics(do func()) (what string) {
	defer func() {
		if p := recover(); p != nil {
			what = fmt.Sprint(p)
		}
	}()
	do()
	return ""
}

func wantRelease(t *testing.T, name, what, where string) {
	t.Helper()
	if !strings.Contains(what, "getmessage: a record of a Batch") || !strings.Contains(what, where) {
		t.Errorf("%s: panic %q, want one that names Batch and %s", name, what, where)
	}
}

func TestViewsPanicAfterRelease(t *testing.T) {
	l := newFileLog(t, 5, 100, scattered)
	var b getmessage.Batch
	for name, end := range map[string]func() string{
		"Release":  func() string { b.Release(); return here() },
		"next Get": func() string { l.pull(&b); return "filelog_test.go" },
	} {
		l.pull(&b)
		records := b.Records()
		copied := records[3]
		where := end()
		v := reflect.ValueOf(&copied)
		tried := 0
		for i := range v.NumMethod() {
			m := v.Type().Method(i)
			// Size is that of the view, and touches nothing. Iterators do when they are used.
			if m.Type.NumIn() > 1 || m.Name == "Size" || m.Type.NumOut() > 0 && m.Type.Out(0).Kind() == reflect.Func {
				continue
			}
			tried++
			wantRelease(t, name+" "+m.Name, panics(func() { v.Method(i).Call(nil) }), where)
		}
		if tried < 20 {
			t.Errorf("only %d accessors tried", tried)
		}
		wantRelease(t, name+" Property", panics(func() { copied.Property("x") }), where)
		wantRelease(t, name+" Places", panics(func() {
			for range copied.Places() {
			}
		}), where)
		wantRelease(t, name+" Is", panics(func() { copied.Is("t", 0, 3) }), where)
		wantRelease(t, name+" the slice of records", panics(func() { records[0].Body() }), where)
	}
	b.Release()
}

func TestSlicesFaultAfterRelease(t *testing.T) {
	l := newFileLog(t, 5, 100, scattered)
	var b getmessage.Batch
	l.pull(&b)
	body, segments := b.Records()[3].Body(), b.AppendSegments(nil)
	b.Release()
	where := "owned_debug_test.go"
	wantRelease(t, "a body", panics(func() { getmessage.Guard(func() { touched(body) }) }), where)
	wantRelease(t, "a segment", panics(func() { getmessage.Guard(func() { touched(segments[4]) }) }), where)
	ours, _ := connected(t, "tcp")
	if n, err := ours.Write(body); n != 0 || !errors.Is(err, syscall.EFAULT) {
		t.Errorf("a body written to a connection: %d, %v", n, err)
	}
}

//go:noinline
func touched(b []byte) (sum byte) {
	for _, c := range b {
		sum += c
	}
	return sum
}

const staleEnv = "WARMLOG_TEST_STALE"

// TestStaleChild is the child of TestCrashNamesRelease.
func TestStaleChild(t *testing.T) {
	if os.Getenv(staleEnv) == "" {
		t.Skip("only a child runs this")
	}
	l := newFileLog(t, 5, 100, scattered)
	var b getmessage.Batch
	l.pull(&b)
	body := b.Records()[3].Body()
	b.Release()
	touched(body)
}

// A slice that is touched without Guard ends the process; what it prints names the place of
// the touch and that of the release.
func TestCrashNamesRelease(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestStaleChild$")
	cmd.Env = append(os.Environ(), staleEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatal("it went unseen")
	}
	for _, want := range []string{"unexpected fault address", "released its last getmessage.Batch at", "owned_debug_test.go", "getmessage_test.touched"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the crash does not say %q: %s", want, out)
		}
	}
}

func TestReleasedMemoryIsBounded(t *testing.T) {
	l := newFileLog(t, 5, 100, scattered)
	var b getmessage.Batch
	var first, last message.View
	for i := range poison.Kept + 100 {
		l.pull(&b)
		last = b.Records()[0]
		if i == 101 {
			first = last
		}
	}
	b.Release()
	wantRelease(t, "the oldest that is kept", panics(func() { first.Body() }), "filelog_test.go")
	wantRelease(t, "the newest", panics(func() { last.Body() }), "owned_debug_test.go")
}

func TestCopiesAreTheRecords(t *testing.T) {
	l := newFileLog(t, 50, 700, func(i int) int { return 24 * (i % 3 / 2) })
	var b getmessage.Batch
	l.pull(&b)
	defer b.Release()
	for i := range l.records {
		v := &b.Records()[i]
		if string(v.Raw()) != string(l.records[i]) || v.Check() != nil {
			t.Errorf("record %d: other bytes", i)
		}
	}
}
