//go:build !unix

package only64

// The undefined name below is the message that the compiler prints.
const _ = warmlog_needs_a_unix_platform_linux_or_darwin
