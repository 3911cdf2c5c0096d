package keyindex

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// filled makes a file with keys of two hashes per record; the first record is at offset first.
func filled(l Layout, keys int, first int64) *Builder {
	b := NewBuilder(l, nil)
	for i := range int64(keys) {
		b.Add(int32(7919*(i+1)), first+100*(i/2), 1_700_000_000_000+300*i)
	}
	return b
}

func layoutOf(image []byte, slots int32) (Layout, error) {
	h := ParseHeader(image)
	return findLayout(bytes.NewReader(image), int64(len(image)), &h, slots)
}

func TestFindLayout(t *testing.T) {
	for _, l := range []Layout{{1, 4}, {10, 40}, {10, 19}, {31, 100}, {1, 3}, {500, 2}, {1000, 10}, {3, 30000}, {40000, 50}} {
		for _, first := range []int64{0, 5, 1 << 40} {
			for _, keys := range []int{1, 2, 5, int(l.Entries) - 1} {
				image := filled(l, keys, first).Bytes()
				if got, err := layoutOf(image, 0); err != nil || got != l {
					t.Errorf("%+v with %d keys from %d: %+v, %v", l, keys, first, got, err)
				}
				if got, err := layoutOf(image, l.Slots); err != nil || got != l {
					t.Errorf("%+v, told: %+v, %v", l, got, err)
				}
			}
		}
		// Without a key there is nothing to find, and nothing to read.
		if got, err := layoutOf(NewBuilder(l, nil).Bytes(), 0); err != nil || got != (Layout{}) && got != (Layout{got.Slots, 4 * got.Slots}) {
			t.Errorf("%+v without a key: %+v, %v", l, got, err)
		}
	}
	image := filled(Layout{10, 19}, 10, 0).Bytes()
	for _, slots := range []int32{9, 11, 1000} {
		if got, err := layoutOf(image, slots); !errors.Is(err, ErrLayout) {
			t.Errorf("%d slots in %d bytes: %+v, %v", slots, len(image), got, err)
		}
	}
	for _, size := range []int{40, 44, 63, 65, 101} {
		if got, err := layoutOf(append(image[:40:40], make([]byte, size-40)...), 0); !errors.Is(err, ErrLayout) {
			t.Errorf("%d bytes: %+v, %v", size, got, err)
		}
	}
	for _, size := range []int64{1 << 31, 40 + 84<<30} {
		h := ParseHeader(image)
		if got, err := findLayout(bytes.NewReader(image), size, &h, 0); !errors.Is(err, ErrLayout) {
			t.Errorf("%d bytes: %+v, %v", size, got, err)
		}
	}
	// Noise is read without a fault; what is found in it has its size.
	rapid.Check(t, func(t *rapid.T) {
		noise := rapid.SliceOfN(rapid.Byte(), 40, 2000).Draw(t, "noise")
		if l, err := layoutOf(noise, 0); err == nil && l != (Layout{}) && l.Size() != int64(len(noise)) {
			t.Fatalf("%+v found in %d bytes", l, len(noise))
		}
	})
}

// A layout that is only guessed, while there is no key, is looked for again with the first.
func TestLayoutAfterFirstKey(t *testing.T) {
	l := Layout{Slots: 10, Entries: 19} // a size that five slots would also explain
	if guess, ok := withSlots(l.Size(), 5); !ok || guess.Entries != 20 {
		t.Fatalf("%+v", guess)
	}
	image := NewBuilder(l, nil).Bytes()
	if got, err := layoutOf(image, 0); err != nil || got.Slots != 5 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := layoutOf(filled(l, 3, 0).Bytes(), 0); err != nil || got != l {
		t.Errorf("%+v, %v", got, err)
	}
}
