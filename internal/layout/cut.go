package layout

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"

	"github.com/cespare/xxhash/v2"
	"github.com/warmlog/warmlog/message"
)

// While a log is being cut, warmlog/cut says where: a process that dies meanwhile leaves it,
// and the next one goes on.
//
//	0   8  "warmcut", version 1
//	8   8  physical offset where the log ends, big endian
//	16  8  xxhash64 of all before
const (
	cutMagic = "warmcut\x01"
	cutSize  = 24
)

// ErrCut is the damage of the file.
var ErrCut = message.NewKind("bad-cut", "the note of where the log is cut cannot be read")

// EncodeCut returns the content of the file.
func EncodeCut(off int64) []byte {
	b := binary.BigEndian.AppendUint64([]byte(cutMagic), uint64(off))
	return binary.BigEndian.AppendUint64(b, xxhash.Sum64(b))
}

// ReadCut returns where the log is being cut; -1 where there is no such file.
func ReadCut(path string) (off int64, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	if len(b) != cutSize || string(b[:8]) != cutMagic || binary.BigEndian.Uint64(b[16:]) != xxhash.Sum64(b[:16]) || int64(binary.BigEndian.Uint64(b[8:])) < 0 {
		return -1, &message.DamageError{File: path, Err: ErrCut}
	}
	return int64(binary.BigEndian.Uint64(b[8:])), nil
}
