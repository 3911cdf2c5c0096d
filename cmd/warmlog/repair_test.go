package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repair says what it does, and does it; a dry run only says it.
func TestRepairCommand(t *testing.T) {
	dir := t.TempDir()
	out, errOut, code := toolWith(t, "one\ntwo\nthree\n", "append", dir, "--topic", "orders", "--segment-size", "65536", "--queue-file-size", "2000")
	if code != exitGood {
		t.Fatal(code, out, errOut)
	}
	queue := filepath.Join(dir, "consumequeue/orders/0", strings.Repeat("0", 20))
	b, err := os.ReadFile(queue)
	if err != nil {
		t.Fatal(err)
	}
	copy(b[20:], strings.Repeat("x", 20))
	if err := os.WriteFile(queue, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, _, code = tool(t, "verify", dir); code != exitFailed {
		t.Fatalf("verify: %d, %s", code, out)
	}
	if out, _, code = tool(t, "repair", dir, "--dry-run"); code != exitGood || !strings.Contains(out, queue) || !strings.Contains(out, "would") {
		t.Errorf("dry run: %d, %s", code, out)
	}
	if out, _, code = tool(t, "verify", dir); code != exitFailed {
		t.Errorf("the dry run has changed something: %d, %s", code, out)
	}
	if out, errOut, code = tool(t, "repair", dir); code != exitGood || !strings.Contains(out, "aside") {
		t.Errorf("repair: %d, %s%s", code, out, errOut)
	}
	if out, _, code = tool(t, "verify", dir); code != exitGood {
		t.Errorf("verify: %d, %s", code, out)
	}
	if out, _, code = tool(t, "repair", dir, "--json"); code != exitGood || !strings.Contains(out, `"steps":0`) {
		t.Errorf("again: %d, %s", code, out)
	}
}
