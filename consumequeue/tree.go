package consumequeue

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/warmlog/warmlog/internal/layout"
)

// Named is a queue of which there is a directory.
type Named struct {
	Topic string
	ID    int32
}

// List returns the queues that have a directory below dir: dir/TOPIC/ID. Other names are
// ignored. A dir that is not there has none.
func List(dir string) ([]Named, error) {
	topics, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	var all []Named
	for _, topic := range topics {
		ids, err := os.ReadDir(filepath.Join(dir, topic.Name()))
		if err != nil {
			continue // a file, or deleted meanwhile
		}
		for _, id := range ids {
			n, err := strconv.ParseInt(id.Name(), 10, 32)
			if err != nil || n < 0 || strconv.FormatInt(n, 10) != id.Name() {
				continue
			}
			all = append(all, Named{topic.Name(), int32(n)})
		}
	}
	return all, nil
}

// AnyFile reports whether one of the queues below dir has a file.
func AnyFile(dir string, queues []Named) bool {
	for _, q := range queues {
		if files, err := os.ReadDir(Dir(dir, q.Topic, q.ID)); err == nil && len(files) > 0 {
			return true
		}
	}
	return false
}

// Dir returns the directory of a queue; a name that cannot exist where the topic is no name
// for a directory, as one from a damaged record may be.
func Dir(dir, topic string, id int32) string {
	if topic == "" || topic == "." || topic == ".." || strings.ContainsAny(topic, "/\x00") {
		return filepath.Join(dir, "\x00")
	}
	return filepath.Join(dir, topic, strconv.Itoa(int(id)))
}

// FindFileSize finds the size of a store's queue files: the one that most files have among
// the first queues that have any. 0 if there is none.
func FindFileSize(dir string, queues []Named) int64 {
	const sample = 64
	votes := map[int64]int{}
	files := 0
	for _, q := range queues {
		entries, err := os.ReadDir(Dir(dir, q.Topic, q.ID))
		if err != nil {
			continue
		}
		for _, e := range entries {
			base, ok := layout.ParseFileName(e.Name())
			st, err := os.Stat(filepath.Join(Dir(dir, q.Topic, q.ID), e.Name()))
			if !ok || err != nil || !st.Mode().IsRegular() || st.Size() <= 0 || st.Size()%EntrySize != 0 || base%st.Size() != 0 {
				continue
			}
			votes[st.Size()]++
			files++
		}
		if files >= sample {
			break
		}
	}
	best := int64(0)
	for size, n := range votes {
		if n > votes[best] || n == votes[best] && size > best {
			best = size
		}
	}
	return best
}
