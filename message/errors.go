package message

import (
	"errors"
	"fmt"
)

// ErrDamaged is the class of all errors that say that stored bytes are not what the
// format says. Ask for it with errors.Is.
var ErrDamaged = errors.New("damaged")

// What can be wrong with a record. Each is an [ErrDamaged].
var (
	ErrTruncated  = damage("truncated", "the bytes end before the record does")
	ErrMagic      = damage("bad-magic", "no record or blank begins here")
	ErrSize       = damage("bad-size", "the total size is impossible")
	ErrLengths    = damage("bad-lengths", "the lengths inside do not add up to the total size")
	ErrBodyCRC    = damage("bad-body-crc", "the body does not have the checksum of the record")
	ErrPropCRC    = damage("bad-record-crc", "the record does not have the checksum in its properties")
	ErrMisplaced  = damage("misplaced", "the physical offset in the record is not where it lies")
	ErrUnfinished = damage("unfinished", "not every byte of the last record was written, as far as one can see")
	ErrOtherEntry = damage("wrong-record", "the record is not the one that the queue entry names")
)

// Kind is one way in which stored bytes can be wrong: a short name for tools and a
// sentence for people.
type Kind struct {
	name, text string
}

func damage(name, text string) *Kind { return &Kind{name, text} }

// NewKind makes a kind of damage for another format of the store.
func NewKind(name, text string) *Kind { return damage(name, text) }

// Name returns the short name, lower case with hyphens.
func (k *Kind) Name() string { return k.name }

func (k *Kind) Error() string { return k.text }

// Is makes every kind an [ErrDamaged].
func (k *Kind) Is(target error) bool { return target == ErrDamaged }

// DamageError says where stored bytes are not what the format says. It is the error of
// commit log, consume queues, index and checkpoint alike.
type DamageError struct {
	File   string // path of the file
	Offset int64  // byte offset within the file
	Err    error  // what is wrong, usually a *Kind
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s at byte %d: %v", e.File, e.Offset, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }

// KindName returns the short name of the damage that err is or wraps, "unknown" for
// another error.
func KindName(err error) string {
	var k *Kind
	if errors.As(err, &k) {
		return k.name
	}
	return "unknown"
}
