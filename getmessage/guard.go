package getmessage

import "github.com/warmlog/warmlog/internal/mapfile"

// Guard runs read, which touches a batch's records, and returns an error where a fault
// would have ended the process: somebody shortened the file under the mapping, or the disk
// cannot be read. The error is a *message.DamageError with file and offset. Any other panic
// passes through, and so does a fault on what read has released before: release a batch when
// Guard has returned. It costs a few ns and allocates nothing.
func Guard(read func()) error { return mapfile.Guard(read) }
