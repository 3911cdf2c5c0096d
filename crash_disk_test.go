package warmlog_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// disk is an ext4 file system in a file, mounted, of which the power can be cut: the file
// lies on a second file system in a file, which can be frozen.
type disk struct {
	dir   string // where it is mounted
	image string
	outer string // where the file system that holds image is mounted
}

// newDisk makes a disk. A test is skipped where that is refused.
func newDisk(t *testing.T, megabytes int64) *disk {
	t.Helper()
	needDisks(t)
	d := &disk{}
	holder := filepath.Join(t.TempDir(), "outer")
	makeImage(t, holder, 2*megabytes+64)
	d.outer = mounted(t, holder)
	d.image = filepath.Join(d.outer, "image")
	makeImage(t, d.image, megabytes)
	d.dir = mounted(t, d.image)
	return d
}

// needDisks skips a test where no file system can be made.
func needDisks(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	for _, name := range []string{"mkfs.ext4", "mount", "umount", "fsfreeze"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip("no file system can be made:", err)
		}
	}
}

func makeImage(t *testing.T, path string, megabytes int64) {
	t.Helper()
	must(t, os.WriteFile(path, nil, 0o600))
	must(t, os.Truncate(path, megabytes<<20))
	command(t, "mkfs.ext4", "-q", "-m", "0", path)
}

// mounted mounts an image until the test ends.
func mounted(t *testing.T, image string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Skipf("mount is refused: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil && !strings.Contains(string(out), "not mounted") {
			t.Errorf("umount %s: %v: %s", dir, err, out)
			_ = exec.Command("umount", "-l", dir).Run()
		}
	})
	return dir
}

func unmount(t *testing.T, dir string) {
	t.Helper()
	command(t, "umount", dir)
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

// cut returns an image of what is on the disk now, at one moment: what its file system has
// in memory only is not there.
func (d *disk) cut(t *testing.T) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "cut")
	if out, err := exec.Command("fsfreeze", "-f", d.outer).CombinedOutput(); err != nil {
		t.Skipf("freezing is refused: %v: %s", err, out)
	}
	err := copySparse(to, d.image)
	command(t, "fsfreeze", "-u", d.outer)
	must(t, err)
	return to
}

// copySparse copies a file and leaves holes where it is zero.
func copySparse(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	buf, zero := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); ; at += int64(len(buf)) {
		n, err := io.ReadFull(in, buf)
		if n > 0 && !bytes.Equal(buf[:n], zero[:n]) {
			if _, err := out.WriteAt(buf[:n], at); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
			return out.Truncate(at + int64(n))
		case err != nil:
			return err
		}
	}
}
