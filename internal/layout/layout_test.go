package layout

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmlog/warmlog/message"
)

func TestFileNames(t *testing.T) {
	for off, name := range map[int64]string{0: "00000000000000000000", 1 << 30: "00000000001073741824", math.MaxInt64: "09223372036854775807"} {
		if got := FileName(off); got != name {
			t.Errorf("%d: %s", off, got)
		}
		if got, ok := ParseFileName(name); !ok || got != off {
			t.Errorf("%s: %d, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "0", "0000000000000000000", "000000000000000000000", "09223372036854775808", "99999999999999999999",
		"-0000000000000000001", "+0000000000000000001", "0000000000000000000x", "00000000000000000000.bak", "٠٠٠٠٠٠٠٠٠٠", " 0000000000000000000"} {
		if n, ok := ParseFileName(name); ok {
			t.Errorf("%q is taken for %d", name, n)
		}
	}
}

func file(t *testing.T, content string) string {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheckpointForms(t *testing.T) {
	field := func(v byte) string { return "\x00\x00\x00\x00\x00\x00\x27" + string(rune(v)) }
	full := field(1) + field(2) + field(3) + field(4) + field(5) + field(6)
	for name, c := range map[string]struct {
		content string
		want    Checkpoint
	}{
		"4.9, three fields":      {full[:24], Checkpoint{9985, 9986, 9987, 0, 0, 0}},
		"5.0, four fields":       {full[:32] + strings.Repeat("\x00", 4064), Checkpoint{9985, 9986, 9987, 9988, 0, 0}},
		"5.1, five fields":       {full[:40] + strings.Repeat("\x00", 4056), Checkpoint{9985, 9986, 9987, 9988, 9989, 0}},
		"5.5, six fields":        {full + strings.Repeat("\xff", 4048), Checkpoint{9985, 9986, 9987, 9988, 9989, 9990}},
		"cut in the fourth":      {full[:31], Checkpoint{9985, 9986, 9987, 9984, 0, 0}},
		"never written, all 0":   {strings.Repeat("\x00", 4096), Checkpoint{}},
		"just the least, zeroed": {strings.Repeat("\x00", 24), Checkpoint{}},
	} {
		if got, err := ReadCheckpoint(file(t, c.content)); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, n := range []int{0, 1, 23} {
		path := file(t, full[:n])
		_, err := ReadCheckpoint(path)
		var damage *message.DamageError
		if !errors.Is(err, ErrCheckpoint) || !errors.As(err, &damage) || damage.File != path || damage.Offset != int64(n) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, err := ReadCheckpoint(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestMinTimestamp(t *testing.T) {
	for _, c := range []struct{ physic, logics, want int64 }{
		{0, 0, 0}, {10000, 9000, 6000}, {9000, 10000, 6000}, {2999, 9000, 0}, {3001, 9000, 1},
		{-5, 9000, 0}, {math.MinInt64, math.MaxInt64, 0}, {math.MaxInt64, math.MaxInt64, math.MaxInt64 - 3000},
	} {
		if got := (Checkpoint{PhysicTime: c.physic, LogicsTime: c.logics}).MinTimestamp(); got != c.want {
			t.Errorf("%d, %d: %d, want %d", c.physic, c.logics, got, c.want)
		}
	}
}

func TestAbort(t *testing.T) {
	for content, want := range map[string]Abort{"": {true, 0}, "7719": {true, 7719}, "12\n": {true, 12}, "x": {true, 0}, "-4": {true, 0}, strings.Repeat("9", 4096): {true, 0}} {
		if got, err := ReadAbort(file(t, content)); err != nil || got != want {
			t.Errorf("%q: %+v, %v", content, got, err)
		}
	}
	if got, err := ReadAbort(filepath.Join(t.TempDir(), "abort")); err != nil || got.Exists {
		t.Errorf("none: %+v, %v", got, err)
	}
}
