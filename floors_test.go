package warmlog_test

import (
	"os/exec"
	"strings"
	"testing"
)

// floorOf returns the floor of a package in ARCHITECTURE.md, 0 for one of another module.
func floorOf(path string) int {
	name, ours := strings.CutPrefix(path, "github.com/warmlog/warmlog")
	if !ours {
		return 0
	}
	if name == "/internal/storetest" || name == "/internal/fixtures" {
		return 5 // for tests
	}
	switch first, _, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/"); first {
	case "":
		return 4
	case "message", "pagecache", "internal":
		return 1
	case "commitlog", "consumequeue", "keyindex":
		return 2
	case "getmessage", "progress":
		return 3
	default:
		return 5 // cmd, bench, fuzz
	}
}

func TestImportsGoDown(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the go command is not there to list imports:", err)
	}
	out, err := exec.Command(goTool, "list", "-f", `{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	edges := 0
	for line := range strings.Lines(string(out)) {
		from, to, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || floorOf(to) == 0 {
			continue
		}
		if edges++; floorOf(from) < floorOf(to) {
			t.Errorf("%s imports %s from a higher floor", from, to)
		}
	}
	if edges < 20 {
		t.Errorf("only %d imports seen", edges)
	}
}
