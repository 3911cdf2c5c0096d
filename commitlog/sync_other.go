//go:build !linux

package commitlog

import "os"

func syncData(f *os.File) error { return f.Sync() }
