package message

import (
	"bytes"
	"iter"
)

// IndexKeys yields the keys under which the record can be found: UNIQ_KEY, then each
// non-empty piece of KEYS between single spaces. A key can come twice. Rollback records
// have none. Source: IndexService.buildIndex; the additional tag keys of 5.4 and later are
// not among them.
func (v *View) IndexKeys() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if v.Transaction() == SysFlagRollback {
			return
		}
		var unique, keys []byte
		for name, value := range v.Properties().All() {
			switch string(name) {
			case PropUniqueKey:
				unique = value
			case PropKeys:
				keys = value
			}
		}
		if len(unique) > 0 && !yield(unique) {
			return
		}
		for len(keys) > 0 {
			var key []byte
			key, keys, _ = bytes.Cut(keys, []byte{' '})
			if len(key) > 0 && !yield(key) {
				return
			}
		}
	}
}
