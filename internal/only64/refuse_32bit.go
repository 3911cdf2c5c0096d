//go:build 386 || arm || mips || mipsle || wasm

package only64

// The undefined name below is the message that the compiler prints.
const _ = warmlog_needs_a_64_bit_platform
