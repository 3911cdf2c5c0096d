package pagecache

import (
	"strconv"
	"strings"
)

// size writes bytes for people: "512 MiB", "23.5 GiB", "1000 B".
func size(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v := float64(n) / 1024
	u := 0
	for v >= 1023.95 && u < len(units)-1 { // would be written as 1024.0
		v /= 1024
		u++
	}
	s := strconv.FormatFloat(v, 'f', 1, 64)
	return strings.TrimSuffix(s, ".0") + " " + units[u:u+1] + "iB"
}
