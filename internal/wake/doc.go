// Package wake lets goroutines wait for something that others change all the time. While
// nobody waits, a change costs one load of a flag: appends go on at full speed, and whoever
// works behind them sleeps only when he has caught up.
//
// Two sides, each in this order, so that no change is missed:
//
//	who changes: the change, then Changed, which looks at the flag
//	who waits:   the flag, then a look at what changed
package wake
