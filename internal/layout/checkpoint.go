package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/warmlog/warmlog/message"
)

// ErrCheckpoint is the damage of a checkpoint that is too short to be one.
var ErrCheckpoint = message.NewKind("bad-checkpoint", "the checkpoint has fewer than 24 bytes")

const (
	checkpointSize  = 48 // of the fields that any release writes
	checkpointLeast = 24 // of the fields that all releases write
)

// Checkpoint says up to where data was flushed when it was written. Times are the store
// times of messages, ms since 1970. A field that the writing release does not know is 0.
type Checkpoint struct {
	PhysicTime    int64 `json:"physicMsgTimestamp"`   // commit log
	LogicsTime    int64 `json:"logicsMsgTimestamp"`   // consume queues
	IndexTime     int64 `json:"indexMsgTimestamp"`    // last filled index file
	MasterFlushed int64 `json:"masterFlushedOffset"`  // physical offset
	ConfirmOffset int64 `json:"confirmPhyOffset"`     // physical offset, start of a record
	LogicsOffset  int64 `json:"logicsPhysicalOffset"` // start of the last dispatched record
}

// ReadCheckpoint reads the checkpoint of a store. A store without one gets the zero
// Checkpoint and fs.ErrNotExist.
func ReadCheckpoint(path string) (Checkpoint, error) {
	f, err := os.Open(path)
	if err != nil {
		return Checkpoint{}, err
	}
	defer f.Close()
	b := make([]byte, checkpointSize)
	n, err := io.ReadFull(f, b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return Checkpoint{}, fmt.Errorf("read checkpoint: %w", err)
	}
	c, err := DecodeCheckpoint(b[:n])
	if err != nil {
		return Checkpoint{}, &message.DamageError{File: path, Offset: int64(n), Err: err}
	}
	return c, nil
}

// DecodeCheckpoint reads the head of a checkpoint: 24 bytes at the least. What the writing
// release did not know counts as 0.
func DecodeCheckpoint(b []byte) (Checkpoint, error) {
	if len(b) < checkpointLeast {
		return Checkpoint{}, ErrCheckpoint
	}
	var full [checkpointSize]byte
	copy(full[:], b)
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(full[i:])) }
	return Checkpoint{at(0), at(8), at(16), at(24), at(32), at(40)}, nil
}

// minMargin is what RocketMQ takes off the times, for messages of one ms and for queues
// that were flushed one after another.
const minMargin = 3000

// MinTimestamp returns the time before which commit log and queues are on disk; 0 where
// that is not known. Source: StoreCheckpoint.getMinTimestamp.
func (c Checkpoint) MinTimestamp() int64 {
	t := min(c.PhysicTime, c.LogicsTime)
	if t < minMargin {
		return 0 // negative times would overflow below, and mean nothing
	}
	return t - minMargin
}

// Abort is what the abort file tells.
type Abort struct {
	Exists bool
	PID    int // of the process that wrote it; 0 where it does not say (4.9)
}

// ReadAbort looks at the abort file of a store.
func ReadAbort(path string) (Abort, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return Abort{}, nil
	}
	if err != nil {
		return Abort{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return Abort{}, fmt.Errorf("read abort: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid < 0 {
		pid = 0
	}
	return Abort{Exists: true, PID: pid}, nil
}
