package keyindex

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func covering(begin, end int64) File {
	return File{Header: Header{BeginOffset: begin, EndOffset: end, Count: 9}}
}

func TestUncovered(t *testing.T) {
	damaged := covering(20, 40)
	damaged.Err = errors.New("damaged")
	empty := File{Header: Header{BeginOffset: 40, EndOffset: 40}}
	for _, c := range []struct {
		name     string
		files    []File
		min, end int64
		want     []Range
	}{
		{"no file", nil, 5, 100, []Range{{5, 100}}},
		{"no log", nil, 5, 5, nil},
		{"from the log's begin", []File{covering(0, 40)}, 0, 100, []Range{{40, 100}}},
		{"its first record may have keys in a file before", []File{covering(10, 40)}, 0, 100, []Range{{0, 11}, {40, 100}}},
		{"minimum within", []File{covering(10, 40)}, 20, 100, []Range{{40, 100}}},
		{"minimum at the begin", []File{covering(10, 40)}, 10, 100, []Range{{10, 11}, {40, 100}}},
		{"end within", []File{covering(0, 40)}, 0, 30, nil},
		{"end at the last key", []File{covering(0, 40)}, 0, 40, nil},
		{"end above the last key", []File{covering(0, 40)}, 0, 41, []Range{{40, 41}}},
		{"log above", []File{covering(0, 40)}, 50, 60, []Range{{50, 60}}},
		{"log below", []File{covering(50, 90)}, 10, 20, []Range{{10, 20}}},
		{"two that meet", []File{covering(0, 40), covering(40, 90)}, 0, 90, nil},
		{"two with a gap", []File{covering(0, 40), covering(42, 90)}, 0, 90, []Range{{40, 43}}},
		{"one is gone", []File{covering(0, 20), covering(40, 90)}, 0, 90, []Range{{20, 41}}},
		{"one is damaged", []File{covering(0, 20), damaged, covering(40, 90)}, 0, 90, []Range{{20, 41}}},
		{"damaged between two that seem to meet", []File{covering(0, 40), damaged, covering(40, 90)}, 0, 90, []Range{{40, 41}}},
		{"two meet with a small one between", []File{covering(0, 40), covering(40, 40), covering(40, 90)}, 0, 90, nil},
		{"a last one without a key", []File{covering(0, 40), empty}, 0, 90, []Range{{40, 90}}},
		{"one record", []File{covering(0, 0)}, 0, 90, []Range{{0, 90}}},
		{"overlapping", []File{covering(0, 60), covering(30, 90)}, 0, 90, nil},
		{"one within the other", []File{covering(0, 90), covering(30, 60)}, 0, 90, nil},
		{"out of order", []File{covering(50, 90), covering(0, 40)}, 0, 90, []Range{{40, 51}}},
		{"first key not written through", []File{covering(40, 0)}, 0, 90, []Range{{0, 90}}},
	} {
		if got := uncovered(c.files, c.min, c.end); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// The ranges are what is left when every covered offset is struck out one by one.
func TestUncoveredRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.Int64Range(0, 40)
		var files []File
		for range rapid.IntRange(0, 6).Draw(t, "files") {
			f := covering(offset.Draw(t, "begin"), offset.Draw(t, "end"))
			if rapid.IntRange(0, 4).Draw(t, "damaged") == 0 {
				f.Err = errDistrusted
			}
			files = append(files, f)
		}
		logMin := offset.Draw(t, "min")
		logEnd := logMin + offset.Draw(t, "size")
		var want []Range
		for at := logMin; at < logEnd; at++ {
			covered := slices.ContainsFunc(files, func(f File) bool {
				h := f.Header
				return f.Err == nil && (at > h.BeginOffset && at < h.EndOffset || at == 0 && h.BeginOffset == 0 && h.EndOffset > 0)
			})
			for i, f := range files {
				// Two neighbours that meet; between them only files within the record.
				if f.Err != nil || f.Header.EndOffset != at || f.Header.BeginOffset >= at {
					continue
				}
				for _, g := range files[i+1:] {
					if g.Err != nil || g.Header.BeginOffset != at {
						break
					}
					if g.Header.EndOffset > at {
						covered = true
						break
					}
				}
			}
			switch {
			case covered:
			case len(want) > 0 && want[len(want)-1].To == at:
				want[len(want)-1].To++
			default:
				want = append(want, Range{at, at + 1})
			}
		}
		if got := uncovered(files, logMin, logEnd); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
