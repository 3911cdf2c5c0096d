package pagecache

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// rooted turns an absolute path into a name for an fs.FS of the root directory.
func rooted(file string) string { return strings.TrimPrefix(file, "/") }

// readFile reads a file by its absolute path. The error names that path.
func readFile(root fs.FS, file string) (string, error) {
	b, err := fs.ReadFile(root, rooted(file))
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return string(b), nil
}
