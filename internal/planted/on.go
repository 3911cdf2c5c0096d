//go:build planted

package planted

import "os"

// bug is the one that this process has: the environment says so.
var bug = os.Getenv("WARMLOG_PLANTED")

var (
	AckBeforeWrite   = bug == "ack-before-write"
	PublishEarly     = bug == "publish-early"
	PlainToucher     = bug == "plain-store-toucher"
	IgnoreSyncError  = bug == "ignore-sync-error"
	NoTailRewrite    = bug == "no-tail-rewrite"
	NoTailCut        = bug == "no-tail-cut"
	SyncAfterFailure = bug == "sync-after-failure"
	WaitWithoutLook  = bug == "wait-without-look"
)
