//go:build !planted

package planted

// The bugs, each off.
const (
	AckBeforeWrite   = false // a record is stored some time after its append was acknowledged
	PublishEarly     = false // the visible end moves before a record is whole
	PlainToucher     = false // pages are touched by a store of zeros
	IgnoreSyncError  = false // a sync that failed counts
	NoTailRewrite    = false // the tail is not written again after an unclean end
	NoTailCut        = false // bytes behind the end of the log stay
	SyncAfterFailure = false // a round begins after one that failed
	WaitWithoutLook  = false // who registers as a waiter does not look at the queue again
)
