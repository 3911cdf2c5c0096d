package commitlog

import (
	"bytes"
	"time"

	"github.com/warmlog/warmlog/internal/mapfile"
)

// storeLate stores bytes too late: a bug for tests, see package planted.
func storeLate(mapped *mapfile.File, at int64, b []byte) {
	b = bytes.Clone(b)
	mapped.Acquire()
	time.AfterFunc(20*time.Millisecond, func() {
		copy(mapped.Bytes()[at:], b)
		mapped.Release()
	})
}
