//go:build !linux

package commitlog

import "os"

func syncData(f *os.File) error { return f.Sync() }

func writeBack(*os.File, int64, int64) {}
