package keyindex

import (
	"fmt"
	"time"
)

// FileName returns the name of an index file that is created at t: 17 digits of local
// time, as UtilAll.timeMillisToHumanString makes them.
func FileName(t time.Time) string {
	return t.Format("20060102150405") + fmt.Sprintf("%03d", t.Nanosecond()/int(time.Millisecond))
}

// IsFileName reports whether name has the form of an index file's.
func IsFileName(name string) bool {
	if len(name) != 17 {
		return false
	}
	for i := range len(name) {
		if name[i] < '0' || name[i] > '9' {
			return false
		}
	}
	return true
}
