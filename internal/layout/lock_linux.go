package layout

import "golang.org/x/sys/unix"

// getLock asks about locks of processes (Java's) and of open file descriptions (ours), and
// closing the descriptor afterwards drops none of this process.
const getLock = unix.F_OFD_GETLK

// setLock takes one that belongs to the descriptor, so that two stores of one process exclude
// each other too.
const setLock = unix.F_OFD_SETLK
