// Command warmlog looks into a store: it shows its messages, answers pulls and queries as
// a broker would, and checks it. It appends messages to one, too, and shows in a demo what
// the engine does.
//
// Standard output carries the answer, one JSON object a line where the answer is messages.
// Standard error carries what went wrong, and a progress bar where it is a terminal. The
// exit code is 0 where all is good, 1 where damage was found or something failed, 2 where
// the command was misused.
//
// One file a command. A command may open stores by the root package; it knows no format.
package main
