//go:build !warmlogdebug

package poison

// Check panics if b is memory that was released.
func Check([]byte) {}

// CheckAddr is Check of an address.
func CheckAddr(uintptr) {}
