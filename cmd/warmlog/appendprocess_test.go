package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// asTool makes the test binary the tool itself.
const asTool = "WARMLOG_TEST_AS_TOOL"

func TestMain(m *testing.M) {
	if os.Getenv(asTool) != "" {
		main()
	}
	os.Exit(m.Run())
}

// child runs the tool as a process.
func child(t *testing.T, args ...string) (*exec.Cmd, *talk, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asTool+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var e bytes.Buffer
	cmd.Stderr = &e
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, &talk{t: t, in: in, out: bufio.NewReader(out)}, &e
}

func TestAppendEndsInOrder(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		dir := t.TempDir()
		cmd, k, e := child(t, "append", dir, "--topic", "orders", "--segment-size", "65536")
		k.say("one")
		k.say("two")
		if _, err := io.WriteString(k.in, "begun"); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(k.out)
		if err := cmd.Wait(); err != nil || len(rest) > 0 {
			t.Fatalf("%v, %s, %s", err, e, rest)
		}
		sameAsCat(t, k.acks, []string{"one", "two"}, lines[messageJSON](t, good(t, "cat", dir, "--body")))
		if info := lines[infoJSON](t, good(t, "inspect", dir, "--json"))[0]; !info.Clean || info.Running {
			t.Errorf("%+v", info)
		}
	}
}

// Signals that come while lines do: every line that was taken is acknowledged.
func TestAppendEndsInOrderAtWork(t *testing.T) {
	dir := t.TempDir()
	cmd, k, e := child(t, "append", dir, "--topic", "orders", "--flushed", "--segment-size", "1000000")
	k.say("first")
	go func() {
		for {
			if _, err := io.WriteString(k.in, "more\n"); err != nil {
				return
			}
		}
	}()
	for range 1000 {
		line, err := k.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		k.acks = append(k.acks, lines[ackJSON](t, line)...)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(k.out)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v, %s", err, e)
	}
	k.acks = append(k.acks, lines[ackJSON](t, string(rest))...)
	if n := len(lines[messageJSON](t, good(t, "cat", dir))); n != len(k.acks) {
		t.Errorf("%d messages, %d acknowledged", n, len(k.acks))
	}
	good(t, "verify", dir)
}

// Who reads the acknowledgements goes away: the store is closed in order all the same.
func TestAppendWithoutAReader(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "append", dir, "--topic", "orders", "--segment-size", "65536")
	cmd.Env = append(os.Environ(), asTool+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outRead.Close()
	cmd.Stdout = outWrite
	var e bytes.Buffer
	cmd.Stderr = &e
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	outWrite.Close()
	if _, err := io.WriteString(in, "one\n"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(e.String(), "broken pipe") {
		t.Errorf("%v, %s", err, &e)
	}
	if info := lines[infoJSON](t, good(t, "inspect", dir, "--json"))[0]; !info.Clean {
		t.Errorf("%+v", info)
	}
}
