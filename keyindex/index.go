package keyindex

import (
	"fmt"
	"sync"
)

// Options say how an index is read. The zero value is right for what RocketMQ and warmlog
// write.
type Options struct {
	// Slots is the number of slots of every file. 0 finds it from each file, which is
	// right unless a broker was given another ratio than four entries per slot and the
	// search by content is not wanted.
	Slots int32

	// MaxSteps is how many entries one query may walk over, MaxReads how many records it
	// may read. 0 means 1,048,576 and 65,536: below a second from memory. A query that
	// needs more ends early and says so.
	MaxSteps, MaxReads int

	// Trust, if not nil, is asked about each file that has keys and looks whole; what it
	// refuses covers nothing and answers nothing. After a stop that was not orderly, and
	// not just the end of a process, pages of a file may be missing without a trace:
	// RocketMQ then gives up the files whose EndTimestamp is above the checkpoint's
	// indexMsgTimestamp. It may be called concurrently.
	Trust func(Header) bool
}

// Index is the key index of one store. It holds no descriptor and need not be closed.
type Index struct {
	dir  string
	opt  Options
	mu   sync.Mutex
	seen map[string]seen // by file name, of the files in the directory

	blocks sync.Pool // *block
}

// Open makes the index of a directory ("index" below a store's root). A missing directory
// is an empty index, to which a writer may come later. An error says that the directory
// cannot be listed or that opt is invalid; what is wrong with single files is in
// [Index.Files].
func Open(dir string, opt Options) (*Index, error) {
	if opt.Slots < 0 || opt.MaxSteps < 0 || opt.MaxReads < 0 {
		return nil, fmt.Errorf("keyindex: negative option in %+v", opt)
	}
	if opt.MaxSteps == 0 {
		opt.MaxSteps = 1 << 20
	}
	if opt.MaxReads == 0 {
		opt.MaxReads = 1 << 16
	}
	x := &Index{dir: dir, opt: opt, seen: map[string]seen{}}
	x.blocks.New = func() any { return new(block) }
	if _, _, err := x.list(); err != nil {
		return nil, err
	}
	return x, nil
}
