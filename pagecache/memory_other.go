//go:build !linux && !darwin

package pagecache

import "errors"

const ramSource = ""

func hostRAM() (int64, error) { return 0, errors.ErrUnsupported }

func (m *Memory) read(MemoryOptions) {}
