//go:build !linux

package pagecache

import (
	"errors"
	"os"
)

// Nothing is known here, so no page is ever given back or prefetched.

func forget(*os.File, int64, int64) {}

func evict(*os.File, []byte, int64, int64, bool) error { return errors.ErrUnsupported }

func willNeed(*os.File, int64, int64) {}

func noReadAhead(*os.File) {}

func (p *Prober) readDontCache(f *os.File, b []byte, off int64) (int, error) { return f.ReadAt(b, off) }
