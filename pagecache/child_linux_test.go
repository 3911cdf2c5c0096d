package pagecache

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func init() { helper = serve }

// answer is what the child says to each question.
type answer struct {
	Memory    Memory
	Threshold int64
	Residency residency
	Err       string
}

// serve is the child: it answers one question a line.
//
//	read             what ReadMemory says
//	host             the same, of the host only
//	refresh          the threshold of 40 %, kept from question to question, read again
//	fill FILE        write and sync 16 MiB to a new file, then read it
//	nobody           become a user without rights
//	unshare          ask a child in a new cgroup namespace to read
//	container DIR    the same, with the cgroups mounted on DIR once more, as in a container
//
// and those of [look].
func serve() {
	var th *Threshold
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		word, arg, _ := strings.Cut(in.Text(), " ")
		var a answer
		var err error
		switch word {
		case "read":
			a.Memory, err = ReadMemory(MemoryOptions{})
		case "host":
			a.Memory, err = ReadMemory(MemoryOptions{HostOnly: true})
		case "refresh":
			if th == nil {
				th, err = NewThreshold(ThresholdOptions{})
			} else {
				err = th.Refresh()
			}
			if err == nil {
				a.Memory, a.Threshold = th.Memory(), th.Bytes()
			}
		case "fill":
			err = fill(arg)
		case "nobody":
			err = syscall.Setuid(65534)
		case "unshare":
			a, err = grandchild("read\n", syscall.CLONE_NEWCGROUP)
		case "container":
			a, err = grandchild("mount "+arg+"\nread\n", syscall.CLONE_NEWCGROUP|syscall.CLONE_NEWNS)
		case "mount":
			if kind, data, _ := strings.Cut(arg, " "); kind == v2.fsType {
				err = syscall.Mount("none", data, kind, 0, "")
			} else {
				err = syscall.Mount("none", data, kind, 0, "memory")
			}
		default:
			a.Residency, err = look(word, arg)
		}
		if err != nil {
			a.Err = err.Error()
		}
		if err := json.NewEncoder(os.Stdout).Encode(a); err != nil {
			os.Exit(1)
		}
	}
}

func fill(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(bytes.Repeat([]byte("warm log"), 2<<20)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	_, err = os.ReadFile(file)
	return err
}

// grandchild asks another child, in new namespaces, and returns its last answer.
func grandchild(questions string, namespaces uintptr) (a answer, err error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Stdin = strings.NewReader(questions)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: namespaces, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.Output()
	if err != nil {
		return a, err
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		a = answer{}
		if err := dec.Decode(&a); err != nil {
			return a, err
		}
		if a.Err != "" {
			return a, fmt.Errorf("grandchild: %s", a.Err)
		}
	}
	return a, nil
}

// child is a process in a cgroup that answers questions.
type child struct {
	t   *testing.T
	in  *os.File
	out *json.Decoder
	pid int
}

// newChild starts this test binary once more, in g.
func newChild(t *testing.T, g *group) *child {
	c := startChild(t)
	g.write("cgroup.procs", fmt.Sprint(c.pid))
	return c
}

// startChild starts this test binary once more.
func startChild(t *testing.T) *child {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"=1")
	cmd.Stdin, cmd.Stderr = r, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	t.Cleanup(func() {
		w.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &child{t, w, json.NewDecoder(out), cmd.Process.Pid}
}

// ask puts one question. Where the child is refused what it needs the test is skipped.
func (c *child) ask(format string, args ...any) answer {
	c.t.Helper()
	fmt.Fprintf(c.in, format+"\n", args...)
	var a answer
	if err := c.out.Decode(&a); err != nil {
		c.t.Fatal("the child is gone: ", err)
	}
	switch word, _, _ := strings.Cut(format, " "); {
	case a.Err == "":
	case word == "nobody" || word == "unshare" || word == "container" || word == "filter":
		c.t.Skip("refused: ", a.Err)
	default:
		c.t.Fatalf("%s: %s", word, a.Err)
	}
	if a.Memory.RAM != 0 {
		c.t.Log(a.Memory)
	}
	return a
}

// mountAgain is the question of a container with the cgroups of g on a directory.
func mountAgain(t *testing.T, g *group) string {
	dir := filepath.Join(t.TempDir(), "cgroup")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return "container " + g.v.fsType + " " + dir
}
