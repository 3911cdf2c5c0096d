package commitlog

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/warmlog/warmlog/internal/layout"
	"github.com/warmlog/warmlog/message"
)

// found is a file of the directory that has a segment's name.
type found struct {
	base int64
	size int64
	path string
}

// list returns the files that have a segment's name, by offset, and a note for each thing
// that was passed over. A directory that is not there is an empty log.
func list(dir string) (files []found, notes []string, err error) {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list commit log: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		base, ok := layout.ParseFileName(e.Name())
		if !ok {
			notes = append(notes, path+": not a segment, ignored")
			continue
		}
		st, err := os.Stat(path) // follows a link: segments may lie on another disk
		switch {
		case err != nil && !e.Type().IsRegular() || err == nil && !st.Mode().IsRegular():
			notes = append(notes, path+": has a segment's name but is no file, ignored")
			continue
		case os.IsNotExist(err):
			continue // deleted since it was listed
		case err != nil:
			return nil, nil, fmt.Errorf("list commit log: %w", err)
		}
		files = append(files, found{base, st.Size(), path})
	}
	slices.SortFunc(files, func(a, b found) int { return cmp.Compare(a.base, b.base) })
	if last := len(files) - 1; last >= 0 && files[last].size == 0 {
		notes = append(notes, files[last].path+": empty last segment, ignored")
		files = files[:last]
	}
	return files, notes, nil
}

// segmentSize finds the size that the segments of a log have: the one that most files
// have, of those of which every file's offset is a multiple if there are such. want is what the caller says
// it is, 0 if he does not.
func segmentSize(files []found, want int64) (int64, error) {
	if len(files) == 0 {
		return want, nil
	}
	votes := map[int64]int{}
	for _, f := range files {
		votes[f.size]++
	}
	size, sizeFits := int64(0), false
	for s := range votes {
		if s <= 0 {
			continue
		}
		fits := !slices.ContainsFunc(files, func(f found) bool { return f.base%s != 0 })
		switch {
		case sizeFits && !fits:
		case fits && !sizeFits, votes[s] > votes[size], votes[s] == votes[size] && s > size:
			size, sizeFits = s, fits
		}
	}
	if want != 0 && size != 0 && size != want && votes[size] > 1 {
		return 0, fmt.Errorf("%s: segments of %d bytes, not of the %d asked for: %w", filepath.Dir(files[0].path), size, want, layout.ErrFileSize)
	}
	if want != 0 {
		return want, nil
	}
	if size == 0 {
		f := files[0]
		return 0, &message.DamageError{File: f.path, Offset: f.size, Err: layout.ErrFileSize}
	}
	return size, nil
}

// arrange checks the sizes of the files and finds the holes between them. It returns the
// files of the run above the last hole that has data above it, and a note for what is
// left out.
func arrange(files []found, size int64, refuseHoles bool) (run []found, notes []string, err error) {
	for i, f := range files {
		last := i == len(files)-1
		switch {
		case f.size == size:
		case last && f.size < size:
			notes = append(notes, fmt.Sprintf("%s: last segment has %d of %d bytes, used up to its end", f.path, f.size, size))
		default:
			return nil, nil, fmt.Errorf("%w: %d bytes, expected %d", &message.DamageError{File: f.path, Offset: min(f.size, size), Err: layout.ErrFileSize}, f.size, size)
		}
		if f.base%size != 0 {
			return nil, nil, fmt.Errorf("%w: its offset is no multiple of %d bytes", &message.DamageError{File: f.path, Err: layout.ErrFileSize}, size)
		}
	}
	if err := refuseSeveralPaths(files, size); err != nil {
		return nil, nil, err
	}
	run = files
	for i := len(files) - 1; i > 0; i-- {
		missing := files[i-1].base + size
		if files[i].base == missing {
			continue
		}
		hole := &message.DamageError{File: filepath.Join(filepath.Dir(files[i].path), layout.FileName(missing)), Err: layout.ErrHole}
		if refuseHoles {
			return nil, nil, hole
		}
		if !anyStarts(files[i:]) {
			// Made in advance and never written: the data is below the hole.
			notes = append(notes, fmt.Sprintf("%v; nothing is written above it, %s and later ignored", hole, files[i].path))
			run = files[:i]
			continue
		}
		notes = append(notes, fmt.Sprintf("%v; the log begins above it, at %d", hole, files[i].base))
		run = run[i:]
		break
	}
	return run, notes, nil
}

// refuseSeveralPaths recognises one of several directories over which RocketMQ spreads a
// log: every n-th segment is here, at an even pace.
func refuseSeveralPaths(files []found, size int64) error {
	if len(files) < 3 {
		return nil
	}
	pace := files[1].base - files[0].base
	for i := 1; i < len(files); i++ {
		if files[i].base-files[i-1].base != pace {
			return nil
		}
	}
	if pace == size {
		return nil
	}
	return fmt.Errorf("%s: every segment is followed by one %d segments on: a log over several paths: %w",
		filepath.Dir(files[0].path), pace/size, layout.ErrUnsupported)
}

// anyStarts reports whether one of the files begins with a record or cannot be read, which
// must not be taken for empty.
func anyStarts(files []found) bool {
	for _, f := range files {
		b, err := readHead(f.path, f.size)
		if err != nil || len(b) >= message.BlankSize && slices.ContainsFunc(b[:message.BlankSize], func(c byte) bool { return c != 0 }) {
			return true
		}
	}
	return false
}

func readHead(path string, size int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, min(size, message.BlankSize))
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	return b, nil
}
