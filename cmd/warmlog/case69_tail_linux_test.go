package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Process 1 gets a termination when it has just acknowledged much that is not on the disk: it
// says how much, and ends in order within the time that it has by default. WARMLOG_SCALE=1 makes
// it 1 GiB instead of 64 MiB.
func TestCase69ProcessOneWithADirtyTail(t *testing.T) {
	const body = 1 << 20
	n := 64
	if os.Getenv("WARMLOG_SCALE") != "" {
		n = 1024
	}
	dir := filepath.Join(t.TempDir(), "store")
	c := contain(t, "append", dir, "--topic", "orders")
	line := append(bytes.Repeat([]byte("w"), body), '\n')
	go func() {
		for range n { // and the input stays open
			if _, err := c.in.Write(line); err != nil {
				t.Error(err)
			}
		}
	}()
	out := bufio.NewReader(c.out)
	for range n {
		if _, err := out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	c.send(syscall.SIGTERM)
	var dirty int64
	_, said, _ := strings.Cut(c.until("ending: waiting for the log, "), "of which ")
	if _, err := fmt.Sscanf(said, "%d bytes are to be synced", &dirty); err != nil {
		t.Errorf("%v: %s", err, said)
	}
	if dirty == 0 {
		t.Error("there was no dirty tail")
	}
	t.Logf("%d MiB were to be synced", dirty>>20)
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("printed later: %q, %v", rest, err)
	}
	c.exit(exitGood)
	if !clean(t, dir) {
		t.Error("ended in order, and not marked so")
	}
	if q := lines[infoJSON](t, good(t, "inspect", dir, "--json"))[0].Queues; len(q) != 1 || q[0].Max != int64(n) {
		t.Errorf("%d messages appended: %+v", n, q)
	}
	good(t, "verify", dir)
}

// demo as process 1 gets a termination while it appends: it prints no table, ends as a
// command that failed, and leaves nothing.
func TestCase69DemoAsProcessOne(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "kept")} {
		args := []string{"demo", "--messages", "100000000"} // for minutes
		if dir != "" {
			args = append(args, "--dir", dir)
		}
		c := contain(t, args...)
		log := filepath.Join(dir, "commitlog", "*")
		if dir == "" {
			log = filepath.Join(temp, "warmlog-demo-*", "commitlog", "*")
		}
		for all := []string(nil); len(all) == 0; time.Sleep(time.Millisecond) {
			var err error
			if all, err = filepath.Glob(log); err != nil {
				t.Fatal(err)
			}
		}
		c.send(syscall.SIGTERM)
		c.until("ending: waiting for ")
		out, err := io.ReadAll(c.out)
		if err != nil || len(out) > 0 {
			t.Errorf("printed: %q, %v", out, err)
		}
		c.exit(exitFailed)
		if dir != "" {
			if !clean(t, dir) {
				t.Error("what is kept is not marked as ended in order")
			}
			good(t, "verify", dir)
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}
