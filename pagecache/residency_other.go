//go:build !linux

package pagecache

import (
	"errors"
	"os"
)

// Other kernels are not asked: everything is unknown. (darwin has mincore, which the x/sys
// package does not offer.)

func notTold(err error) bool { return errors.Is(err, errors.ErrUnsupported) }

func cachestat(*os.File, int64, int64) (int64, error) { return 0, errors.ErrUnsupported }

func mincore(*os.File, []byte, int64, int64, *runs) (int64, error) { return 0, errors.ErrUnsupported }
