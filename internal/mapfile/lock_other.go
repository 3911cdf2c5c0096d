//go:build !linux

package mapfile

import "errors"

// Lock is not supported here.
func (m *File) Lock(from, to int64) error { return errors.ErrUnsupported }

// Unlock takes back what Lock did.
func (m *File) Unlock(from, to int64) {}
