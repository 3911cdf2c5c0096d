//go:build !linux

package warmlog

func syncPaths(_ string, paths []string) error { return syncEach(paths) }
