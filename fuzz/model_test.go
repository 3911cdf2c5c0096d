package fuzz_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/message"
	"github.com/warmlog/warmlog/pagecache"
)

var seedHost = netip.MustParseAddrPort("10.0.0.2:10911")

// made is a record of a made log.
type made struct {
	topic  string
	queue  int32
	off    int64 // queue offset
	pos    int64 // physical offset
	store  int64 // ms
	keys   []string
	queued bool
	raw    []byte
}

func (m *made) size() int64 { return int64(len(m.raw)) }

func (m *made) entry() consumequeue.Entry {
	v, err := message.Decode(m.raw)
	if err != nil {
		panic(err)
	}
	return consumequeue.EntryOf(&v, m.pos)
}

// queueName names a queue of a made log.
type queueName struct {
	topic string
	id    int32
}

// madeLog is a commit log in memory: what it holds, and nothing else, is true.
type madeLog struct {
	segment  int64 // bytes of one
	base     int64 // of the first one
	segments [][]byte
	end      int64 // behind the last record
	records  []made
	queues   map[queueName][]*made // by offset
	next     map[queueName]int64   // queue offset to be given next
}

func newLog(base, segment int64) *madeLog {
	return &madeLog{segment: segment, base: base, end: base, next: map[queueName]int64{}}
}

// add appends a message. Its queue offset is the next one of its queue, or 0 if it has no
// queue entry. Nothing is stored in the records' keys but what the message asks for.
func (l *madeLog) add(m message.Message, store int64) {
	if m.BornHost == (netip.AddrPort{}) {
		m.BornHost = netip.MustParseAddrPort("10.0.0.1:50000")
	}
	raw := message.AppendRecord(nil, &m, seedHost, false)
	used := l.end - l.base - l.segment*int64(len(l.segments)-1)
	if len(l.segments) == 0 || used+int64(len(raw))+8 > l.segment {
		if len(l.segments) > 0 {
			left := l.segment - used
			message.PutBlank(l.segments[len(l.segments)-1][used:], int32(left))
			l.end += left
		}
		l.segments = append(l.segments, make([]byte, l.segment))
		used = 0
	}
	rec := made{topic: m.Topic, queue: m.QueueID, pos: l.end, store: store, raw: raw}
	transaction := m.SysFlag & message.SysFlagTransactionMask
	rec.queued = transaction == 0 || transaction == message.SysFlagCommit
	if name := (queueName{m.Topic, m.QueueID}); rec.queued {
		rec.off = l.next[name]
		l.next[name]++
	}
	message.Stamp(raw, rec.off, rec.pos, store, false)
	v, err := message.Decode(raw)
	if err != nil {
		panic(err)
	}
	if transaction != message.SysFlagRollback {
		rec.keys = twinKeys(v.Properties())
	}
	copy(l.segments[len(l.segments)-1][used:], raw)
	l.end += int64(len(raw))
	l.records = append(l.records, rec)
}

// done lists the queues.
func (l *madeLog) done() *madeLog {
	l.queues = map[queueName][]*made{}
	for i := range l.records {
		if m := &l.records[i]; m.queued {
			name := queueName{m.topic, m.queue}
			l.queues[name] = append(l.queues[name], m)
		}
	}
	return l
}

func (l *madeLog) names() []queueName {
	var all []queueName
	for name := range l.queues {
		all = append(all, name)
	}
	slices.SortFunc(all, func(a, b queueName) int { return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.id, b.id)) })
	return all
}

// at returns the bytes of the log at a physical offset.
func (l *madeLog) at(pos, n int64) []byte {
	i := (pos - l.base) / l.segment
	from := (pos - l.base) % l.segment
	return l.segments[i][from : from+n]
}

// write writes the segments below a store's directory.
func (l *madeLog) write(t testing.TB, fs fileSet, dir string) {
	for i, b := range l.segments {
		fs.write(t, filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", l.base+int64(i)*l.segment)), b)
	}
}

// queueFiles returns the right files of a queue with per entries each, by their name: the
// head of the first one is filled up as RocketMQ does.
func (l *madeLog) queueFiles(name queueName, per int64) map[string][]byte {
	files := map[string][]byte{}
	messages := l.queues[name]
	if len(messages) == 0 {
		return files
	}
	for off := messages[0].off - messages[0].off%per; off <= messages[len(messages)-1].off; off++ {
		file := fmt.Sprintf("%020d", (off-off%per)*20)
		if files[file] == nil {
			files[file] = make([]byte, per*20)
		}
		e := consumequeue.Filler
		if off >= messages[0].off {
			e = messages[off-messages[0].off].entry()
		}
		e.AppendTo(files[file][:off%per*20])
	}
	return files
}

func queueDir(dir string, name queueName) string {
	return filepath.Join(dir, "consumequeue", name.topic, fmt.Sprint(name.id))
}

// writeQueues writes right files of all queues but one.
func (l *madeLog) writeQueues(t testing.TB, fs fileSet, dir string, per int64, but queueName) {
	for name := range l.queues {
		if name != but {
			for file, b := range l.queueFiles(name, per) {
				fs.write(t, filepath.Join(queueDir(dir, name), file), b)
			}
		}
	}
}

// fileSet writes files again and again, and only what is another than before: nobody else
// writes them. It keeps them open.
type fileSet map[string]*keptFile

type keptFile struct {
	file    *os.File
	content []byte
}

// write makes the file one with that content.
func (fs fileSet) write(t testing.TB, path string, b []byte) {
	t.Helper()
	k := fs[path]
	if k == nil {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
		if os.IsNotExist(err) {
			if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
				f, err = os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		k = &keptFile{file: f}
		fs[path] = k
	}
	if bytes.Equal(k.content, b) {
		return
	}
	_, err := k.file.WriteAt(b, 0)
	if err == nil && len(b) < len(k.content) {
		err = k.file.Truncate(int64(len(b)))
	}
	if err != nil {
		t.Fatal(err)
	}
	k.content = append(k.content[:0], b...)
}

// remove makes the file one that is not there.
func (fs fileSet) remove(t testing.TB, path string) {
	t.Helper()
	k := fs[path]
	if k == nil {
		return
	}
	delete(fs, path)
	k.file.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// removeBut removes the files below a directory but those, and directories that are empty
// then.
func (fs fileSet) removeBut(t testing.TB, dir string, keep map[string]bool) {
	t.Helper()
	for path := range fs {
		if strings.HasPrefix(path, dir+string(filepath.Separator)) && !keep[path] {
			fs.remove(t, path)
			for up := filepath.Dir(path); up != dir && os.Remove(up) == nil; {
				up = filepath.Dir(up)
			}
		}
	}
}

// openStore opens a store whose threshold costs no look at the memory's limits.
func openStore(dir string, o warmlog.Options) (*warmlog.Store, error) {
	o.ReadOnly = true
	o.Memory = pagecache.ThresholdOptions{Bytes: 1 << 30}
	return warmlog.Open(dir, o)
}

// smallLog makes the log that most targets use: 3 segments of 1 KiB, some 20 records of 4
// queues, all kinds of keys, records without a queue entry. With a base it is one whose
// head was deleted: the queues begin at an offset above 0.
func smallLog(base, first int64) *madeLog {
	l := newLog(base, 1024)
	l.next = map[queueName]int64{{"T", 0}: first, {"T", 1}: 2 * first, {"U", 0}: 0, {"T", 7}: first / 2}
	const began = 1700000000000
	at := int64(began)
	for i := range 21 {
		at += int64(i%4) * 700
		if i == 13 {
			at -= 2500 // the clock was set back
		}
		m := message.Message{Topic: "T", Body: []byte(fmt.Sprint("body ", i))}
		switch i % 7 {
		case 0, 2, 5:
			m.Keys = "k"
		case 1:
			m.QueueID, m.Tags, m.Keys = 1, "tag", "Aa BB"
		case 3:
			m.Properties = []message.Property{{Name: "UNIQ_KEY", Value: fmt.Sprint("u", i)}, {Name: "KEYS", Value: "k  Aa"}}
		case 4:
			m.Topic, m.Keys = "U", "k"
		case 6:
			m.SysFlag = []int32{message.SysFlagPrepared, message.SysFlagRollback, message.SysFlagCommit}[i/7]
			m.Keys = "k t"
		}
		if i == 15 {
			m.QueueID = 7
		}
		l.add(m, at)
	}
	return l.done()
}

// isDamage reports whether an error says that stored bytes are wrong, and where.
func isDamage(err error) bool {
	var damage *message.DamageError
	return errors.As(err, &damage) && errors.Is(err, message.ErrDamaged) && damage.File != "" && damage.Offset >= 0
}

// hangs is how long one execution may take: a thousand times as long as it should, since
// the machine may be busy.
const hangs = 2 * time.Minute

// watch ends the process when something takes far too long, so that the input is kept.
func watch(d time.Duration) (stop func()) {
	timer := time.AfterFunc(d, func() { panic("it hangs") })
	return func() { timer.Stop() }
}
