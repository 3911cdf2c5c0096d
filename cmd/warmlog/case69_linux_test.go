package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// contained is the tool as process 1 of a PID namespace, as in a container.
type contained struct {
	*exec.Cmd
	t   *testing.T
	in  io.WriteCloser
	out *os.File
	err *bufio.Reader
}

func contain(t *testing.T, args ...string) *contained {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a PID namespace")
	}
	c := &contained{Cmd: exec.Command(os.Args[0], args...), t: t}
	c.Env = append(os.Environ(), asTool+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	var err error
	if c.in, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, outWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out, c.Stdout = out, outWrite
	t.Cleanup(func() { out.Close() })
	e, errWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.err, c.Stderr = bufio.NewReader(e), errWrite
	t.Cleanup(func() { e.Close() })
	err = c.Start()
	outWrite.Close()
	errWrite.Close()
	if err != nil {
		t.Skip("a PID namespace is refused: ", err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	return c
}

// until reads standard error up to a line with some text.
func (c *contained) until(text string) string {
	c.t.Helper()
	for {
		line, err := c.err.ReadString('\n')
		if strings.Contains(line, text) {
			return line
		}
		if err != nil {
			c.t.Fatalf("no %q: %v, %q", text, err, line)
		}
	}
}

func (c *contained) send(sig syscall.Signal) {
	c.t.Helper()
	if err := c.Process.Signal(sig); err != nil {
		c.t.Fatal(err)
	}
}

// exit waits for the end, and checks the exit code.
func (c *contained) exit(code int) {
	c.t.Helper()
	_ = c.Wait()
	if got := c.ProcessState.ExitCode(); got != code {
		rest, _ := io.ReadAll(c.err)
		c.t.Fatalf("exit %d (%v), want %d: %s", got, c.ProcessState, code, rest)
	}
}

// stuck fills the pipe that the tool prints to, gives the tool a line, and returns when the
// store in dir has it: nobody reads what the tool prints, so it can acknowledge nothing.
func (c *contained) stuck(dir string) {
	c.t.Helper()
	full, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", c.out.Fd()), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	for err == nil {
		_, err = unix.Write(full, make([]byte, 4096))
	}
	unix.Close(full)
	if !errors.Is(err, unix.EAGAIN) {
		c.t.Fatal("the pipe takes everything: ", err)
	}
	if _, err := io.WriteString(c.in, "line\n"); err != nil {
		c.t.Fatal(err)
	}
	for {
		if out, _, code := tool(c.t, "cat", dir); code == exitGood && out != "" {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func clean(t *testing.T, dir string) bool {
	t.Helper()
	return lines[infoJSON](t, good(t, "inspect", dir, "--json"))[0].Clean
}

// Process 1 gets a termination under load: it ends in order, says what it waits for, and has
// acknowledged what it took.
func TestCase69ProcessOneEndsInOrder(t *testing.T) {
	for _, flushed := range []string{"--flushed=false", "--flushed"} {
		dir := filepath.Join(t.TempDir(), "store")
		c := contain(t, "append", dir, "--topic", "orders", "--segment-size", "1000000", flushed)
		go func() {
			for {
				if _, err := io.WriteString(c.in, "line\n"); err != nil {
					return
				}
			}
		}()
		out := bufio.NewReader(c.out)
		acks := 0
		for ; acks < 1000; acks++ {
			if _, err := out.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		c.send(syscall.SIGTERM)
		c.until("ending: waiting for ")
		for ; ; acks++ {
			if _, err := out.ReadString('\n'); err != nil {
				break
			}
		}
		c.exit(exitGood)
		if !clean(t, dir) {
			t.Error("ended in order, and not marked so")
		}
		if n := len(lines[messageJSON](t, good(t, "cat", dir))); n != acks {
			t.Errorf("%d messages, %d acknowledged", n, acks)
		}
	}
}

// Process 1 cannot end in order: a second signal ends it at once; without one it gives up when
// its time is over. Either way the store is marked as one that was not closed, and whole.
func TestCase69ProcessOneThatHangs(t *testing.T) {
	for _, row := range []struct {
		grace  string
		second syscall.Signal
		code   int
		says   string
	}{
		{"1h", syscall.SIGTERM, exitSignal + 15, "a second signal"},
		{"1h", syscall.SIGINT, exitSignal + 2, "a second signal"},
		{"30ms", 0, exitFailed, "within 30ms: it waits for the lines that were read; the next start"},
	} {
		dir := filepath.Join(t.TempDir(), "store")
		c := contain(t, "append", dir, "--topic", "orders", "--segment-size", "1000000", "--grace", row.grace)
		c.stuck(dir)
		c.send(syscall.SIGTERM)
		c.until("ending: waiting for the lines that were read")
		if row.second != 0 {
			c.send(row.second)
		}
		c.until(row.says)
		c.exit(row.code)
		if clean(t, dir) {
			t.Errorf("%+v: marked as ended in order", row)
		}
		acked, err := io.ReadAll(c.out)
		if err != nil {
			t.Fatal(err)
		}
		acks := strings.Count(string(acked), "\n")
		more := len(appendLines(t, "one more\n", dir, "--topic", "orders")) // what it left keeps nobody out
		if n := len(lines[messageJSON](t, good(t, "cat", dir))); n < acks+more {
			t.Errorf("%+v: %d messages, %d acknowledged", row, n, acks)
		}
		good(t, "verify", dir)
	}
}

// A second start is refused and names who has the store, or waits as long as it was told. Who
// was killed keeps nobody out.
func TestCase69SecondStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	args := []string{"append", dir, "--topic", "orders", "--segment-size", "65536"}
	first, k, e := child(t, args...)
	k.say("one")
	holder := fmt.Sprintf("by process %d on ", first.Process.Pid)
	for _, wait := range []string{"0", "20ms"} {
		_, errOut, code := toolWith(t, "two\n", append(args, "--wait", wait)...)
		if code != exitFailed || !strings.Contains(errOut, holder) || strings.Contains(errOut, "waited 20ms") != (wait != "0") {
			t.Errorf("--wait %s: exit %d, %s", wait, code, errOut)
		}
	}
	second := contain(t, append(args, "--wait", "1h")...)
	if line := second.until("waiting: "); !strings.Contains(line, holder) {
		t.Error(line)
	}
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err != nil {
		t.Fatal(err, e)
	}
	io.WriteString(second.in, "two\n")
	if _, err := bufio.NewReader(second.out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	// A process that is 1 in its container is 1 to others, of that container's name.
	if _, errOut, code := toolWith(t, "", args...); code != exitFailed || !strings.Contains(errOut, "by process 1 on ") {
		t.Errorf("exit %d, %s", code, errOut)
	}
	second.send(syscall.SIGKILL)
	_ = second.Wait()
	for _, left := range []string{"lock", "abort", "warmlog/owner"} {
		if _, err := os.Stat(filepath.Join(dir, left)); err != nil {
			t.Error(err)
		}
	}
	appendLines(t, "three\n", args[1:]...)
	if n := len(lines[messageJSON](t, good(t, "cat", dir))); n != 3 || !clean(t, dir) {
		t.Errorf("%d messages", n)
	}
}
