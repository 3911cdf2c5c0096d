package warmlog_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/internal/fixtures"
	"github.com/warmlog/warmlog/keyindex"
	"github.com/warmlog/warmlog/message"
)

func verify(t testing.TB, dir string) (*warmlog.Verification, []*message.DamageError) {
	t.Helper()
	store, err := warmlog.Open(dir, warmlog.Options{ReadOnly: true})
	if err != nil {
		var damage *message.DamageError
		if errors.As(err, &damage) {
			return &warmlog.Verification{Damage: 1}, []*message.DamageError{damage}
		}
		t.Fatal(err)
	}
	defer store.Close()
	var all []*message.DamageError
	v, err := store.Verify(context.Background(), func(d *message.DamageError) { all = append(all, d) })
	if err != nil {
		t.Fatal(err)
	}
	return v, all
}

func TestVerifyRealStores(t *testing.T) {
	corpora(t, func(t *testing.T, dir string) {
		v, damage := verify(t, filepath.Join(dir, "store"))
		s := shapeOf(t, dir)
		_, unclean := os.Stat(filepath.Join(dir, "store", "abort"))
		if s.Kind == "torn" && unclean != nil {
			return // what queues point to is lost, not a tail; what they do not, nobody knows of
		}
		if s.Kind == "behind" && strings.Contains(s.Note, "in the middle") {
			if len(damage) == 0 {
				t.Errorf("no damage found: %s", s.Note)
			}
			return
		}
		for _, d := range damage {
			t.Error(d)
		}
		t.Logf("%+v", v)
	})
}

// files returns the files below a store's directories that have data, with what of them is
// in use.
func filesBelow(t testing.TB, store, dir string) []string {
	var all []string
	err := filepath.WalkDir(filepath.Join(store, dir), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func flip(t testing.TB, path string, at int64, bit int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 << bit
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// unprotected reports whether nothing in the formats covers a byte of a record without a
// whole-record checksum: the user's flag, sysFlag but for the bits that shape the record,
// times, hosts, counters, and properties other than tags and keys.
func unprotected(v *message.View, at int64) bool {
	raw := v.Raw()
	body := int64(len(raw)) - int64(len(v.Properties())) - 2 - int64(len(v.Topic())) - int64(v.Version()) - int64(len(v.Body()))
	switch {
	case at >= 16 && at < 20, at >= 36 && at < body-4:
		return true
	case !v.Queued() && (at >= 12 && at < 16 || at >= body+int64(len(v.Body()))):
		return true
	case at >= int64(len(raw))-int64(len(v.Properties())):
		return true
	}
	return false
}

// A flipped bit anywhere in the log is found and named, where the formats cover it.
func TestVerifyFindsFlippedBitsInTheLog(t *testing.T) {
	for _, name := range []string{"5.3.3-propcrc", "5.3.3-rich", "4.9.7-rich", "5.3.3-killed", "5.5.0-clean"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(fixtures.Unpack(t, name), "store")
			type span struct {
				from int64
				v    message.View
			}
			var spans []span
			store := open(t, dir, warmlog.Options{})
			for v, err := range store.Records(context.Background(), 0) {
				if err != nil {
					t.Fatal(err)
				}
				copied, _ := message.Decode(append([]byte(nil), v.Raw()...))
				spans = append(spans, span{v.PhysicalOffset(), copied})
			}
			size := store.Segments()[0].Size
			min, _ := store.Bounds()
			store.Close()
			rng := rand.New(rand.NewPCG(1, uint64(len(name))))
			missed := 0
			for range 250 {
				s := spans[rng.IntN(len(spans))]
				at, bit := rng.Int64N(int64(s.v.Size())), rng.IntN(8)
				if rng.IntN(2) == 0 {
					at = rng.Int64N(120) % int64(s.v.Size()) // heads are small and matter most
				}
				path := filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", (s.from)/size*size))
				flip(t, path, (s.from+at)%size, bit)
				_, damage := verify(t, dir)
				flip(t, path, (s.from+at)%size, bit)
				lastSegment := s.from/size == spans[len(spans)-1].from/size
				switch {
				case name != "5.3.3-propcrc" && unprotected(&s.v, at):
				case name == "5.3.3-killed" && lastSegment:
					// Above the durable position: a torn tail, which recovery cuts.
				case len(damage) == 0:
					missed++
					t.Errorf("byte %d of the record at %d (%d bytes, queued %v), bit %d: not found", at, s.from, s.v.Size(), s.v.Queued(), bit)
				default:
					found := false
					for _, d := range damage {
						found = found || d.File == path && d.Offset == s.from%size ||
							// Of a key only the index knows: it names the record.
							strings.Contains(d.Error(), fmt.Sprintf("record at %d", s.from))
					}
					if !found {
						t.Errorf("byte %d of the record at %d, bit %d: named elsewhere: %v", at, s.from, bit, damage)
					}
				}
			}
			_ = min
		})
	}
}

func TestVerifyFindsFlippedBitsInQueues(t *testing.T) {
	for _, name := range []string{"5.3.3-rich", "4.9.7-clean", "5.3.3-headless"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(fixtures.Unpack(t, name), "store")
			files := filesBelow(t, dir, "consumequeue")
			rng := rand.New(rand.NewPCG(2, uint64(len(name))))
			store := open(t, dir, warmlog.Options{})
			logMin, _ := store.Bounds()
			store.Close()
			for range 250 {
				path := files[rng.IntN(len(files))]
				st, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				at, bit := rng.Int64N(st.Size()), rng.IntN(8)
				content, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if e := consumequeue.Decode(content[at-at%20:]); e.Real() && e.Offset < logMin {
					continue // its record is gone: nothing to compare with
				}
				flip(t, path, at, bit)
				_, damage := verify(t, dir)
				flip(t, path, at, bit)
				found := false
				for _, d := range damage {
					found = found || d.File == path && d.Offset == at-at%20
				}
				if !found {
					t.Errorf("%s byte %d bit %d: %v", strings.TrimPrefix(path, dir), at, bit, damage)
				}
			}
		})
	}
}

func TestVerifyFindsFlippedBitsInTheIndex(t *testing.T) {
	for _, name := range []string{"5.3.3-rich", "4.9.7-rich", "5.5.0-clean"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(fixtures.Unpack(t, name), "store")
			files := filesBelow(t, dir, "index")
			rng := rand.New(rand.NewPCG(3, uint64(len(name))))
			for range 250 {
				path := files[rng.IntN(len(files))]
				content, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				h := keyindex.ParseHeader(content)
				slots := (len(content) - 40) / 84
				used := int64(40 + 4*slots + 20*int(h.Count))
				at, bit := rng.Int64N(used), rng.IntN(8)
				if at >= int64(40+4*slots) && at < int64(40+4*slots+20) {
					continue // entry 0 is never used
				}
				flip(t, path, at, bit)
				_, damage := verify(t, dir)
				flip(t, path, at, bit)
				found := false
				for _, d := range damage {
					found = found || d.File == path
				}
				if !found {
					t.Errorf("%s byte %d bit %d of %+v: %v", strings.TrimPrefix(path, dir), at, bit, h, damage)
				}
			}
		})
	}
}
