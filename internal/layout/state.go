package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"
	"github.com/warmlog/warmlog/message"
)

// ErrState is the damage of a state file of which no slot can be read.
var ErrState = message.NewKind("bad-state", "no slot of the file has its checksum")

// Mode is how a run of the store wrote its log.
type Mode uint8

const (
	// Written: records are stored into the mapping and synced in the background.
	Written Mode = iota
	// Flushed: records are written and synced before they are visible.
	Flushed
)

// State is what a store knows of itself beyond RocketMQ's checkpoint. All offsets are
// physical, and lower bounds of what was true when it was written.
type State struct {
	Durable    int64 // the log is on disk up to here: damage below is corruption
	Dispatched int64 // queue and index entries of all records below are on disk
	Mode       Mode  // of the run that wrote it
	Keyless    bool  // the index has no file, because no record has a key
	// Checkpoint is the digest of RocketMQ's checkpoint as this store wrote it last. Another
	// one shows that a broker has written to the store since: the state is then not believed.
	Checkpoint uint64
}

// The file has two slots of one sector each, written in turn, so that a write that is cut
// short destroys the older one at the most.
//
//	0   8  "warmlog1"
//	8   8  sequence number: the slot with the higher one counts
//	16  8  durable
//	24  8  dispatched
//	32  1  mode
//	33  1  1: keyless
//	34  6  0
//	40  8  digest of the checkpoint
//	48  8  xxhash64 of the 48 bytes before
const (
	stateSlot  = 512
	stateMagic = "warmlog1"
	stateBytes = 56
)

// StateFile is the open state file of a store that is written.
type StateFile struct {
	file *os.File
	seq  uint64
	last State
}

// OpenState opens or makes the state file. known is false where there was none. The error
// of a file that is damaged is an [ErrState]; it then is begun anew.
func OpenState(path string) (f *StateFile, known bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, false, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, false, err
	}
	f = &StateFile{file: file}
	f.last, f.seq, err = readState(file)
	switch {
	case errors.Is(err, io.EOF):
		return f, false, nil
	case errors.Is(err, ErrState):
		return f, false, err
	case err != nil:
		file.Close()
		return nil, false, err
	}
	return f, true, nil
}

// ReadState reads a state file. A store without one gets fs.ErrNotExist.
func ReadState(path string) (State, error) {
	file, err := os.Open(path)
	if err != nil {
		return State{}, err
	}
	defer file.Close()
	s, _, err := readState(file)
	return s, err
}

// readState returns the newest sound slot; io.EOF for an empty file.
func readState(file *os.File) (s State, seq uint64, err error) {
	b := make([]byte, 2*stateSlot)
	n, err := file.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return s, 0, err
	}
	if n == 0 {
		return s, 0, io.EOF
	}
	for at := 0; at+stateBytes <= n; at += stateSlot {
		one, oneSeq, ok := decodeState(b[at : at+stateBytes])
		if ok && oneSeq > seq {
			s, seq = one, oneSeq
		}
	}
	if seq == 0 {
		return s, 0, &message.DamageError{File: file.Name(), Err: ErrState}
	}
	return s, seq, nil
}

func decodeState(b []byte) (s State, seq uint64, ok bool) {
	be := binary.BigEndian
	if string(b[:8]) != stateMagic || be.Uint64(b[48:]) != xxhash.Sum64(b[:48]) {
		return s, 0, false
	}
	s = State{int64(be.Uint64(b[16:])), int64(be.Uint64(b[24:])), Mode(b[32]), b[33] == 1, be.Uint64(b[40:])}
	return s, be.Uint64(b[8:]), s.Durable >= 0 && s.Dispatched >= 0
}

// Last returns what was read or written last.
func (f *StateFile) Last() State { return f.last }

// Write makes s the state, on disk when it returns.
func (f *StateFile) Write(s State) error {
	be := binary.BigEndian
	b := make([]byte, 0, stateSlot)
	b = append(b, stateMagic...)
	b = be.AppendUint64(b, f.seq+1)
	b = be.AppendUint64(b, uint64(s.Durable))
	b = be.AppendUint64(b, uint64(s.Dispatched))
	b = append(b, byte(s.Mode), 0, 0, 0, 0, 0, 0, 0)
	if s.Keyless {
		b[33] = 1
	}
	b = be.AppendUint64(b, s.Checkpoint)
	b = be.AppendUint64(b, xxhash.Sum64(b))
	if _, err := f.file.WriteAt(b[:stateSlot], int64(f.seq+1)%2*stateSlot); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if err := f.file.Sync(); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	f.seq, f.last = f.seq+1, s
	return nil
}

// Close closes the file.
func (f *StateFile) Close() error { return f.file.Close() }
