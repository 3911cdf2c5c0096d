package layout

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A write that is cut short, or destroyed later, leaves the state before it.
func TestStateSurvivesATornWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "warmlog", "state")
	f, known, err := OpenState(path)
	if err != nil || known {
		t.Fatal(known, err)
	}
	var want State
	for n := range int64(9) {
		before := want
		want = State{Durable: 100 + n, Dispatched: 50 + n, Mode: Mode(n % 2), Checkpoint: uint64(n)}
		if err := f.Write(want); err != nil {
			t.Fatal(err)
		}
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ReadState(path); err != nil || got != want {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
		if n == 0 {
			continue
		}
		at := int64(n+1) % 2 * stateSlot // the slot that was just written
		for _, i := range []int64{0, 9, 17, 25, 32, 47} {
			torn := append([]byte(nil), whole...)
			torn[at+i] ^= 4
			if err := os.WriteFile(path, torn, 0o644); err != nil {
				t.Fatal(err)
			}
			if got, err := ReadState(path); err != nil || got != before {
				t.Fatalf("byte %d: %+v, %v, want %+v", i, got, err, before)
			}
		}
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f, known, err = OpenState(path)
	if err != nil || !known || f.Last() != want {
		t.Fatalf("opened again: %+v, %v, %v", f, known, err)
	}
	f.Close()
	if err := os.WriteFile(path, make([]byte, 1024), 0o644); err != nil {
		t.Fatal(err)
	}
	f, known, err = OpenState(path)
	if !errors.Is(err, ErrState) || known {
		t.Fatal(known, err)
	}
	if err := f.Write(want); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if got, err := ReadState(path); err != nil || got != want {
		t.Fatal(got, err)
	}
}

func TestCheckpointIsWrittenAsItIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	want := Checkpoint{1, 2, 3, 4, 5, 6}
	for range 2 {
		if err := WriteCheckpoint(path, want); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadCheckpoint(path); err != nil || got != want {
			t.Fatalf("%+v, %v", got, err)
		}
		want.LogicsOffset = 1 << 40
	}
	if st, err := os.Stat(path); err != nil || st.Size() != checkpointFile {
		t.Fatal(st, err)
	}
}

func TestTwoCannotTakeOneLock(t *testing.T) {
	s := Store(t.TempDir())
	stale := []byte(`{"pid":1,"host":"another","since":"2026-01-01T00:00:00Z"}`)
	if err := errors.Join(os.MkdirAll(filepath.Dir(s.Owner()), 0o755), os.WriteFile(s.Owner(), stale, 0o644), os.WriteFile(s.Lock(), []byte("lock"), 0o644)); err != nil {
		t.Fatal(err)
	}
	l, err := Take(s)
	if err != nil {
		t.Fatal("a process that is gone keeps others out: ", err)
	}
	if _, err := Take(s); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("by process %d on ", os.Getpid())) {
		t.Fatal(err)
	}
	if held, _, err := Holder(s.Lock()); err != nil || !held {
		t.Fatal(held, err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if o := ReadOwner(s.Owner()); o != (Owner{}) {
		t.Errorf("released, and still %v", o)
	}
	l, err = Take(s)
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
}
