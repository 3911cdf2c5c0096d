// Package poison makes use after release loud in a debug build (build tag warmlogdebug): memory
// that was released is protected, so that touching it faults, and remembered with the place of
// its release, so that who asks before touching it, or recovers from the fault, can tell.
//
// In other builds everything in it is empty and leaves nothing in the code that calls it.
//
// Lock: table.mu, a leaf.
package poison
