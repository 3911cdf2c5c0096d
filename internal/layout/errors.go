package layout

import (
	"errors"

	"github.com/warmlog/warmlog/message"
)

// ErrUnsupported is the class of stores that are refused because they use something that
// this engine does not have.
var ErrUnsupported = errors.New("not supported")

// What can be wrong with the files of a log or queue.
var (
	ErrFileSize = message.NewKind("bad-file-size", "the file does not have the size that files of its kind have here")
	ErrHole     = message.NewKind("missing-file", "files before and after it are there")
)
