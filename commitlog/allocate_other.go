//go:build !linux

package commitlog

import "os"

func allocate(f *os.File, off, n int64) error { return allocateByWriting(f, off, n) }

func free(*os.File) (bytes int64, known bool) { return 0, false }
