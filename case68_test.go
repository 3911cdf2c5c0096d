package warmlog_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// goTool runs the go tool for another platform.
func goTool(t *testing.T, platform string, args ...string) (string, error) {
	t.Helper()
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go tool here")
	}
	if testing.Short() {
		t.Skip("compiling for another platform takes long")
	}
	goos, goarch, _ := strings.Cut(platform, "/")
	c := exec.Command(tool, args...)
	c.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0", "GOFLAGS=")
	out, err := c.CombinedOutput()
	return string(out), err
}

// Where it is meant to run it builds, tests included (vet compiles them).
func TestCase68OtherPlatforms(t *testing.T) {
	for _, platform := range []string{"linux/arm64", "darwin/arm64"} {
		for _, args := range [][]string{{"build", "./..."}, {"vet", "./..."}} {
			t.Run(strings.ReplaceAll(platform, "/", " ")+" "+args[0], func(t *testing.T) {
				if out, err := goTool(t, platform, args...); err != nil {
					t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
				}
			})
		}
	}
}

// Where it cannot run the build says why.
func TestCase68RefusedPlatforms(t *testing.T) {
	for platform, why := range map[string]string{
		"linux/386":     "warmlog_needs_a_64_bit_platform",
		"linux/arm":     "warmlog_needs_a_64_bit_platform",
		"windows/amd64": "warmlog_needs_a_unix_platform_linux_or_darwin",
	} {
		t.Run(strings.ReplaceAll(platform, "/", " "), func(t *testing.T) {
			out, err := goTool(t, platform, "build", ".")
			if err == nil || !strings.Contains(out, why) {
				t.Errorf("%v, without %s:\n%s", err, why, out)
			}
			if lines := strings.Count(out, ".go:"); lines > 3 {
				t.Errorf("the reason is lost among %d others:\n%s", lines, out)
			}
		})
	}
}
