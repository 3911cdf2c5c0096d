package warmlog_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// planted are bugs of package planted and the test that must find each.
var planted = []struct{ bug, test, rounds string }{
	{"ack-before-write", "TestCrashKill/flushed_false_crc_false", "1"},
	{"publish-early", "TestCrashReaderOfTheEnd/durability_1", "1"},
	{"plain-store-toucher", "TestCrashReaderOfTheEnd/durability_1", "1"},
	{"ignore-sync-error", "TestCrashFailingCalls/fdatasync_EIO", "4"},
	{"ignore-sync-error", "TestCase01AFlushFails/flushed_true", "1"},
	{"sync-after-failure", "TestCrashFailingCalls/pwrite64_EIO", "8"},
	{"no-tail-cut", "TestCrashTailStaysCut", "1"},
	{"no-tail-rewrite", "TestCrashTailIsWrittenAgain", "1"},
	{"wait-without-look", "TestWaitMissesNothing", "1"},
}

// Each planted bug makes a crash test fail, which passes without it.
func TestPlantedBugs(t *testing.T) {
	if testing.Short() {
		t.Skip("builds this program again")
	}
	if os.Getenv("WARMLOG_PLANTED") != "" {
		t.Skip("this is the program with a bug")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the go command is not there:", err)
	}
	program := filepath.Join(t.TempDir(), "planted.test")
	if out, err := exec.Command(goTool, "test", "-c", "-tags", "planted", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, p := range planted {
		t.Run(p.bug+" "+p.test, func(t *testing.T) {
			c := exec.Command(program, "-test.run=^"+strings.ReplaceAll(p.test, "/", "$/^"), "-test.v")
			c.Env = append(os.Environ(), "WARMLOG_PLANTED="+p.bug, "WARMLOG_CRASH_ROUNDS="+p.rounds)
			out, err := c.CombinedOutput()
			switch s := string(out); {
			case strings.Contains(s, "--- SKIP: "+strings.SplitN(p.test, "/", 2)[0]):
				t.Skip("the test that finds it is skipped here")
			case !strings.Contains(s, "=== RUN   "+p.test):
				t.Fatalf("%s did not run: %v\n%s", p.test, err, s)
			case err == nil:
				t.Errorf("%s does not find it:\n%s", p.test, s)
			case !strings.Contains(s, "--- FAIL: "+strings.SplitN(p.test, "/", 2)[0]):
				t.Errorf("%s ends otherwise: %v\n%s", p.test, err, s)
			}
		})
	}
}
