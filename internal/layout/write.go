package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/cespare/xxhash/v2"
)

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// NoRoom reports whether a write failed because the disk is full, or the quota of who writes is
// used up: there is no difference to a store.
func NoRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// CreateAbort marks a store as one that is being written, with this process's id, as
// RocketMQ 5 does.
func CreateAbort(path string) error {
	err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0o644)
	if NoRoom(err) {
		_, err = os.Stat(path) // an empty one says the same, as RocketMQ 4's does
	}
	if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// RemoveAbort marks a store as one that was stopped in order.
func RemoveAbort(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

func (c Checkpoint) encode() []byte {
	b := make([]byte, 0, checkpointSize)
	for _, v := range []int64{c.PhysicTime, c.LogicsTime, c.IndexTime, c.MasterFlushed, c.ConfirmOffset, c.LogicsOffset} {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// Digest tells one checkpoint from another.
func (c Checkpoint) Digest() uint64 { return xxhash.Sum64(c.encode()) }

// checkpointFile is the size that RocketMQ maps.
const checkpointFile = 4096

// WriteCheckpoint writes the fields of a checkpoint and leaves what follows them. The
// fields lie in one sector, so that the file is the old or the new one after a power cut.
func WriteCheckpoint(path string, c Checkpoint) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return err
	} else if st.Size() < checkpointFile {
		if err := f.Truncate(checkpointFile); err != nil {
			return err
		}
	}
	if _, err := f.WriteAt(c.encode(), 0); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	return f.Sync()
}
