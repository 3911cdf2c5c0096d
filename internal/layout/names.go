package layout

import (
	"fmt"
	"path/filepath"
	"strconv"
)

// Store names the files of the store in a directory.
type Store string

func (s Store) CommitLog() string         { return s.in("commitlog") }
func (s Store) ConsumeQueue() string      { return s.in("consumequeue") }
func (s Store) ConsumeQueueExt() string   { return s.in("consumequeue_ext") }
func (s Store) BatchConsumeQueue() string { return s.in("batchconsumequeue") }
func (s Store) Index() string             { return s.in("index") }
func (s Store) Config() string            { return s.in("config") }
func (s Store) Checkpoint() string        { return s.in("checkpoint") }
func (s Store) Abort() string             { return s.in("abort") }
func (s Store) Lock() string              { return s.in("lock") }

func (s Store) State() string     { return s.in("warmlog/state") }
func (s Store) Owner() string     { return s.in("warmlog/owner") }
func (s Store) QueueEnds() string { return s.in("warmlog/queues") }
func (s Store) Deleted() string   { return s.in("warmlog/deleted") }
func (s Store) Cut() string       { return s.in("warmlog/cut") }
func (s Store) Temp() string      { return s.in("warmlog/temp") }
func (s Store) Aside() string     { return s.in("warmlog/aside") }

func (s Store) in(name string) string { return filepath.Join(string(s), name) }

const offsetDigits = 20

// FileName returns the name of a segment or queue file: its first byte's offset.
func FileName(offset int64) string { return fmt.Sprintf("%0*d", offsetDigits, offset) }

// ParseFileName returns the offset in the name of a segment or queue file, false where
// name is no such name.
func ParseFileName(name string) (int64, bool) {
	if len(name) != offsetDigits {
		return 0, false
	}
	for _, c := range []byte(name) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(name, 10, 64)
	return n, err == nil
}
