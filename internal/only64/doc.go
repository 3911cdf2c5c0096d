// Package only64 stops the build where int has 32 bits.
//
// Offsets of a log are int64 from end to end, but slices of a mapping are indexed with
// int, and a 1 GiB segment with its neighbours does not fit a 32-bit address space. A
// compile error that says so is kinder than an overflow at 2 GiB. Every package at the
// bottom of the house imports this one for its side effect; it may touch nothing.
package only64
