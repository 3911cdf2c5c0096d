package fuzz_test

import (
	"testing"

	"github.com/warmlog/warmlog/commitlog"
	"github.com/warmlog/warmlog/message"
)

// FuzzRaw gives any bytes as a part of another log. What is taken is whole records and blanks
// that lie where they say, one behind the other; what is not whole is never taken.
func FuzzRaw(f *testing.F) {
	l := smallLog(0, 0)
	for i, segment := range l.segments {
		f.Add(segment, int64(i)*1024, int64(1024))
		f.Add(segment[:len(segment)/2], int64(i)*1024, int64(1024))
	}
	for i, rec := range seedRecords(f) {
		if i%9 == 0 {
			f.Add(rec, int64(0), int64(1<<20))
		}
	}
	blank := make([]byte, 100)
	message.PutBlank(blank, 100)
	f.Add(blank, int64(924), int64(1024))
	f.Fuzz(func(t *testing.T, b []byte, off, size int64) {
		if size < message.MinSize+message.BlankSize || size > 1<<31-1 {
			return
		}
		if off >= 0 && off+int64(len(b)) > off {
			repair(b, off)
			if whole := commitlog.WholeRaw(off, b, size); whole > len(b) || whole < 0 {
				t.Fatalf("%d of %d bytes are whole", whole, len(b))
			}
		}
		if _, err := commitlog.CheckRaw(off, b, size); err != nil {
			return
		}
		if whole := commitlog.WholeRaw(off, b, size); whole != len(b) {
			t.Fatalf("%d of %d bytes are whole, and all were taken", whole, len(b))
		}
		for pos := off; len(b) > 0; {
			left := size - pos%size
			n, magic := message.Size(b)
			if magic == message.MagicBlank {
				if int64(n) != left {
					t.Fatalf("a blank of %d bytes was taken where %d are left", n, left)
				}
			} else {
				v, err := message.Decode(b)
				if err != nil || v.CheckAt(pos) != nil || int64(v.Size())+message.BlankSize > left {
					t.Fatalf("at %d: taken: %v, %v", pos, err, v.CheckAt(pos))
				}
			}
			pos, b = pos+int64(n), b[n:]
		}
	})
}
