package progress

import (
	"errors"

	"github.com/warmlog/warmlog/message"
)

// ErrNoGoodCopy says that of a file and its spare copy neither can be used, though one is
// there. What is wrong with each is wrapped too. To go on without them is the caller's
// decision: consumers would start anew.
var ErrNoGoodCopy = errors.New("no good copy")

// What can be wrong with a file. Each is a [message.ErrDamaged] and comes in a
// [message.DamageError], which tells file and byte.
var (
	ErrEmpty    = message.NewKind("empty-file", "the file is empty")
	ErrTooLarge = message.NewKind("too-large", "the file is larger than a table can be")
	ErrNotJSON  = message.NewKind("not-json", "the file is not JSON, nor what fastjson makes of it")
	ErrContent  = message.NewKind("bad-content", "the file does not hold what it should")
)
