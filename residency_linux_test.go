package warmlog_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/internal/storetest"
	"github.com/warmlog/warmlog/message"
	"github.com/warmlog/warmlog/pagecache"
	"golang.org/x/sys/unix"
)

const (
	residencySegment   = 1 << 20
	residencyQueueFile = 20 << 14 // bytes
)

// eachMethod runs a test with each method as the only one, and with a prober that has the other
// one only.
func eachMethod(t *testing.T, do func(t *testing.T, m pagecache.Method, other *pagecache.Prober)) {
	for m, o := range map[pagecache.Method]pagecache.Method{pagecache.Cachestat: pagecache.Mincore, pagecache.Mincore: pagecache.Cachestat} {
		t.Run(m.String(), func(t *testing.T) {
			p := pagecache.NewProber(pagecache.ProberOptions{Dir: t.TempDir(), Methods: m, Unnamed: true})
			other := pagecache.NewProber(pagecache.ProberOptions{Dir: t.TempDir(), Methods: o})
			if p.Method() != m || other.Method() != o {
				t.Skip("not to be had here: ", p, "; ", other)
			}
			do(t, m, other)
		})
	}
}

// someStore makes a store with three segments in use, and one made in advance.
func someStore(t *testing.T) *storetest.Store {
	t.Helper()
	s := storetest.New(t, t.TempDir(), storetest.Options{SegmentSize: residencySegment, QueueFileSize: residencyQueueFile, Begin: 7 * residencySegment, Premake: true})
	s.StartQueue("late", 1, residencyQueueFile/20-20)
	for s.Pos() < 9*residencySegment+residencySegment/2 {
		s.Add("late", 1, 900)
	}
	s.Close()
	return s
}

// onlyWarm makes exactly these pages of a file, from and to, those that are in memory, and keeps
// them there.
func onlyWarm(t *testing.T, path string, p *pagecache.Prober, runs ...[2]int64) {
	t.Helper()
	page := int64(os.Getpagesize())
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	st, err := f.Stat()
	must(t, err)
	drop := func(from, to int64) {
		t.Helper()
		if stayed, err := p.Evict(f, nil, from*page, to*page-from*page, true); err != nil || !stayed.Known() || stayed.Resident > 0 {
			t.Skipf("pages cannot be evicted here: %+v, %v", stayed, err)
		}
	}
	all := (st.Size() + page - 1) / page
	drop(0, all)
	must(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM)) // page by page, and no more than is asked for
	for at := range all {
		_, err := f.ReadAt(make([]byte, 1), at*page)
		must(t, err)
	}
	drop(0, all/2) // a part, then the rest, of which something is read back
	drop(all/2, all)
	for _, r := range runs {
		for at := r[0]; at < r[1]; at++ {
			_, err := f.ReadAt(make([]byte, 1), at*page)
			must(t, err)
		}
		keep(t, f, r[0]*page, (r[1]-r[0])*page)
	}
}

// keep locks a part of a file in memory until the test ends: on a machine with little of it the
// kernel takes pages from under the test.
func keep(t *testing.T, f *os.File, off, n int64) {
	t.Helper()
	b, err := unix.Mmap(int(f.Fd()), off, int(n), unix.PROT_READ, unix.MAP_SHARED)
	must(t, err)
	t.Cleanup(func() { must(t, unix.Munmap(b)) })
	must(t, unix.Madvise(b, unix.MADV_RANDOM)) // nothing beside them, should they be gone already
	if err := unix.Mlock(b); err != nil {
		t.Skip("pages cannot be locked here: ", err)
	}
}

// runsOf is what a prober says is in memory of a file.
func runsOf(t *testing.T, p *pagecache.Prober, path string) [][2]int64 {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	st, err := f.Stat()
	must(t, err)
	runs, known, err := p.Runs(nil, f, nil, 0, st.Size())
	if err != nil || !known {
		t.Fatal(known, err)
	}
	return runs
}

func residency(t testing.TB, dir string, o warmlog.ResidencyOptions) *warmlog.ResidencyReport {
	t.Helper()
	r, err := warmlog.Residency(context.Background(), dir, o)
	must(t, err)
	return r
}

// bytesIn turns runs of pages into runs of bytes, counted from base.
func bytesIn(base int64, runs ...[2]int64) [][2]int64 {
	var all [][2]int64
	for _, r := range runs {
		all = append(all, [2]int64{base + r[0]*int64(os.Getpagesize()), base + r[1]*int64(os.Getpagesize())})
	}
	return all
}

// What is told is what was done to the pages, and looking changes nothing.
func TestResidencyIsWhatWasDone(t *testing.T) {
	eachMethod(t, func(t *testing.T, m pagecache.Method, other *pagecache.Prober) {
		s := someStore(t)
		page := int64(os.Getpagesize())
		warm := map[int64][][2]int64{
			7 * residencySegment:  {{0, 1}, {10, 12}},
			8 * residencySegment:  {},
			9 * residencySegment:  {{0, residencySegment / 2 / page}}, // up to where the log ends, at the least
			10 * residencySegment: {},
		}
		for base, runs := range warm {
			path, _ := s.Segment(base)
			onlyWarm(t, path, other, runs...)
		}
		queue, _ := s.QueueFile("late", 1, 0)
		onlyWarm(t, queue, other, [2]int64{2, 3})
		next, _ := s.QueueFile("late", 1, residencyQueueFile/20)
		onlyWarm(t, next, other, [2]int64{0, 2})

		look := func() *warmlog.ResidencyReport {
			return residency(t, s.Dir(), warmlog.ResidencyOptions{Methods: m, Memory: pagecache.ThresholdOptions{Bytes: residencySegment}, Tail: residencySegment / 4})
		}
		tree := list(t, s.Dir())
		r := look()
		if len(r.Segments) != len(warm) || len(r.Queues) != 2 || len(r.Probers) != 1 || r.Failed != 0 || len(r.Notes) != 0 {
			t.Fatalf("%d segments, %d queue files, %d probers, %q", len(r.Segments), len(r.Queues), len(r.Probers), r.Notes)
		}
		if p := r.Probers[0]; p.Prober.Method() != m || p.File != r.Segments[0].File {
			t.Errorf("asked was %v of %s", p.Prober, p.File)
		}
		check := func(f warmlog.FileResidency, base int64, want ...[2]int64) {
			t.Helper()
			resident := int64(0)
			for _, r := range want {
				resident += (r[1] - r[0]) * page
			}
			if list := bytesIn(base, want...); !f.Known || f.Why != "" || f.Resident != resident || !slices.Equal(f.Runs, list) {
				t.Errorf("%s: known %v, %q, %d bytes, %v; want %d bytes, %v", f.File, f.Known, f.Why, f.Resident, f.Runs, resident, list)
			}
		}
		for _, g := range r.Segments {
			if g.Bytes != residencySegment || g.To != g.From+residencySegment {
				t.Errorf("%+v", g)
			}
			check(g.FileResidency, g.From, warm[g.From]...)
		}
		per := int64(residencyQueueFile / 20)
		for i, q := range r.Queues {
			if q.Topic != "late" || q.ID != 1 || q.From != int64(i)*per || q.To != q.From+per || q.Bytes != residencyQueueFile {
				t.Errorf("%+v", q)
			}
		}
		check(r.Queues[0].FileResidency, 0, [2]int64{2, 3})
		check(r.Queues[1].FileResidency, 0, [2]int64{0, 2})

		logAndPulls(t, r, s)
		again := look()
		if !reflect.DeepEqual(again.Segments, r.Segments) || !reflect.DeepEqual(again.Queues, r.Queues) {
			t.Errorf("a second look: %+v, %+v; the first %+v, %+v", again.Segments, again.Queues, r.Segments, r.Queues)
		}
		for _, g := range r.Segments {
			if got := runsOf(t, other, g.File); !slices.Equal(got, bytesIn(0, warm[g.From]...)) {
				t.Errorf("%s: after two looks in memory are %v", g.File, got)
			}
		}
		if got := runsOf(t, other, queue); !slices.Equal(got, bytesIn(0, [2]int64{2, 3})) {
			t.Errorf("%s: after two looks in memory are %v", queue, got)
		}
		if now := list(t, s.Dir()); !slices.Equal(now, tree) {
			t.Errorf("the store was changed:\n%v\n%v", tree, now)
		}
	})
}

// logAndPulls checks what is said of the log that [TestResidencyIsWhatWasDone] made.
func logAndPulls(t *testing.T, r *warmlog.ResidencyReport, s *storetest.Store) {
	t.Helper()
	page := int64(os.Getpagesize())
	if r.Begin != 7*residencySegment || r.End < s.Pos() || r.End > s.Pos()+page {
		t.Skipf("the file system does not tell where the data end: log from %d to %d, the last record ends at %d", r.Begin, r.End, s.Pos())
	}
	last := int64(9 * residencySegment)
	warm := last + residencySegment/2
	if all := r.Range(last, warm); !all.All() || all.Bytes != residencySegment/2 {
		t.Errorf("the warm half: %+v", all)
	}
	if r.Threshold != residencySegment || r.Tail.From != r.End-residencySegment/4 || r.Tail.To != r.End || r.Within.From != r.End-residencySegment || !r.Tail.Known {
		t.Errorf("threshold %d, tail %+v, within %+v", r.Threshold, r.Tail, r.Within)
	}
	if warm < r.End { // the last record reaches a page that was not read back
		if r.WarmFrom != r.End || r.Tail.Resident != r.Tail.Bytes-(r.End-warm) {
			t.Errorf("warm from %d of %d, tail %+v", r.WarmFrom, r.End, r.Tail)
		}
	} else if r.WarmFrom != last || !r.Tail.All() {
		t.Errorf("warm from %d, want %d; tail %+v", r.WarmFrom, last, r.Tail)
	}
	if w := r.Within; w.Bytes > residencySegment || w.Resident != min(warm, r.End)-last {
		t.Errorf("within the threshold %+v", w)
	}
	for i, want := range []warmlog.PullOutlook{
		{From: "beginning", Diff: r.End - r.Begin, Batch: warmlog.LogResidency{From: r.Begin, Resident: 3 * page}, ByDistance: true, ByResidency: true},
		{From: "middle", Diff: r.End - (r.Begin + (r.End-r.Begin)/2), Batch: warmlog.LogResidency{From: r.Begin + (r.End-r.Begin)/2}, ByDistance: true, ByResidency: true},
		{From: "tail", Diff: 256 << 10, Batch: warmlog.LogResidency{From: r.End - 256<<10, Resident: min(warm, r.End) - (r.End - 256<<10)}, ByResidency: warm < r.End},
	} {
		want.Batch.To, want.Batch.Bytes, want.Batch.Known = want.Batch.From+256<<10, 256<<10, true
		if r.Pulls[i] != want {
			t.Errorf("pull %+v\nwant %+v", r.Pulls[i], want)
		}
	}
}

// list is a store's tree, with when each file and directory was changed.
func list(t *testing.T, dir string) (all []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		all = append(all, path+" "+info.ModTime().String())
		return err
	}))
	return all
}

// A store that somebody writes can be looked at beside him.
func TestResidencyOfAStoreInUse(t *testing.T) {
	dir := t.TempDir()
	s, err := warmlog.Open(dir, warmlog.Options{SegmentSize: residencySegment})
	must(t, err)
	defer s.Close()
	end := int64(0)
	for range 40 {
		r, err := s.Append(context.Background(), &message.Message{Topic: "orders", Body: make([]byte, 10000)})
		must(t, err)
		end = r.PhysicalOffset + int64(r.Size)
	}
	f, err := os.Open(filepath.Join(dir, "commitlog", "00000000000000000000"))
	must(t, err)
	defer f.Close()
	keep(t, f, 0, end)
	r := residency(t, dir, warmlog.ResidencyOptions{})
	if !r.Segments[0].Known {
		t.Skip(r.Segments[0].Why)
	}
	if got := r.Range(0, end); got.Bytes != end || !got.All() || r.End < end || r.Pulls[0].ByDistance || r.Failed != 0 {
		t.Errorf("of %d bytes just written %+v; the log ends at %d, %+v, %q", end, got, r.End, r.Pulls, r.Notes)
	}
}

// deleting is a context that deletes a file when it is asked whether it has ended.
type deleting struct {
	context.Context
	path string
}

func (d deleting) Err() error {
	_ = os.Remove(d.path)
	return d.Context.Err()
}

func TestResidencyOfOddFiles(t *testing.T) {
	s := someStore(t)
	log := s.Paths.CommitLog()
	in := func(name string) string { return filepath.Join(log, name) }
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	path, _ := s.Segment(8 * residencySegment)
	must(t, os.Rename(path, elsewhere))
	must(t, os.Symlink(elsewhere, path))
	must(t, os.Symlink("nothing", in("00000000000000000001")))
	must(t, os.Symlink("00000000000000000002", in("00000000000000000002")))
	must(t, os.Mkdir(in("00000000000000000003"), 0o755))
	must(t, unix.Mkfifo(in("00000000000000000004"), 0o600))
	must(t, os.WriteFile(in("09223372036854775807"), make([]byte, 10), 0o600))
	must(t, os.WriteFile(in("foreign"), nil, 0o600))
	must(t, os.Symlink("loop", filepath.Join(s.Paths.ConsumeQueue(), "loop")))
	must(t, os.WriteFile(filepath.Join(s.Paths.ConsumeQueue(), "late", "1", "00000000000000000007"), make([]byte, 20), 0o600))
	gone, _ := s.Segment(7 * residencySegment)
	r, err := warmlog.Residency(deleting{context.Background(), gone}, s.Dir(), warmlog.ResidencyOptions{})
	must(t, err)
	for _, want := range []string{
		gone + ": deleted while",
		path + ": a symbolic link; looked at is what it leads to, " + elsewhere,
		in("00000000000000000001") + ": a symbolic link that leads nowhere",
		in("00000000000000000002") + ": too many levels of symbolic links",
		in("00000000000000000003") + ": has a segment's name but is no file",
		in("00000000000000000004") + ": has a segment's name but is no file",
		in("09223372036854775807") + ": it would end beyond all offsets",
		in("foreign") + ": not a segment",
		filepath.Join(s.Paths.ConsumeQueue(), "loop") + ": too many levels",
		"00000000000000000007: its offset is no multiple of 20",
	} {
		if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, want) }) {
			t.Errorf("no note %q in\n%s", want, strings.Join(r.Notes, "\n"))
		}
	}
	if len(r.Notes) != 10 || r.Failed != 2 || len(r.Segments) != 3 || r.Segments[0].File != path || r.Segments[0].Bytes != residencySegment || len(r.Queues) != 2 {
		t.Errorf("%d failed, %+v, %+v\n%s", r.Failed, r.Segments, r.Queues, strings.Join(r.Notes, "\n"))
	}
}

// Who is told the truth of one file need not be of another's: each owner's are tried.
func TestResidencyOfTwoOwners(t *testing.T) {
	s := someStore(t)
	path, _ := s.Segment(8 * residencySegment)
	if err := os.Chown(path, 65534, 65534); errors.Is(err, fs.ErrPermission) {
		t.Skip("only root can give a file away")
	} else {
		must(t, err)
	}
	if r := residency(t, s.Dir(), warmlog.ResidencyOptions{}); len(r.Probers) != 2 || r.Probers[1].File != path {
		t.Errorf("%+v", r.Probers)
	}
}
