package mapfile

import "golang.org/x/sys/unix"

// adviseRandom makes a stray fault read one page: with the default advice a single cold
// fault can read the device's whole read-ahead (8 MiB, measured) and stall for that long.
// Sequential readers do not fault; they read by system call.
func adviseRandom(b []byte) { _ = unix.Madvise(b, unix.MADV_RANDOM) }
