//go:build !linux

package pagecache

import "os"

func seenAbsent(*os.File, int64) bool { return false }

func mayAsk(Method, *os.File) error { return nil }
