package pagecache

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// helper, where there is one, is what this test binary does as a child of itself.
var helper func()

func TestMain(m *testing.M) {
	if helper != nil && os.Getenv(helperEnv) != "" {
		helper()
		return
	}
	goleak.VerifyTestMain(m)
}

const helperEnv = "WARMLOG_PAGECACHE_HELPER"
