//go:build !linux

package warmlog

import "github.com/warmlog/warmlog/internal/layout"

func syncPaths(_ layout.Store, paths []string) error { return syncEach(paths) }
