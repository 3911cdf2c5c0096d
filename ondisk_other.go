//go:build !linux

package warmlog

func onDisk(string, int64) bool { return false }
