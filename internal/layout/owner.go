package layout

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Owner is the process that writes a store, as it says itself in warmlog/owner: the kernel does
// not name who holds a lock of an open file description. It is for people to read. The lock
// alone decides, so that one who died without removing the file keeps nobody out.
type Owner struct {
	PID   int       `json:"pid"`  // in a container, that of there
	Host  string    `json:"host"` // a container's name, where it is one
	Since time.Time `json:"since"`
}

// String names the process, empty where it is not known.
func (o Owner) String() string {
	switch {
	case o.PID <= 0:
		return ""
	case o.Host == "":
		return fmt.Sprintf("process %d", o.PID)
	}
	return fmt.Sprintf("process %d on %s since %s", o.PID, o.Host, o.Since.Format(time.RFC3339))
}

// ReadOwner reads who says that he writes a store: the zero Owner where nobody does.
func ReadOwner(path string) (o Owner) {
	if b, err := os.ReadFile(path); err != nil || json.Unmarshal(b, &o) != nil {
		return Owner{}
	}
	return o
}

// writeOwner notes this process, or nobody where that cannot be: a full disk is no reason not
// to open a store.
func writeOwner(path string) {
	host, _ := os.Hostname() // it is there to be read only
	b, err := json.Marshal(Owner{os.Getpid(), host, time.Now().Truncate(time.Second)})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	next := path + ".new"
	if err == nil {
		err = os.WriteFile(next, b, 0o644)
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next)
		_ = os.Remove(path) // that of an earlier one
	}
}
