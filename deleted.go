package warmlog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/message"
)

// Deletion says that a queue was deleted: its records below a position are nobody's.
type Deletion struct {
	Topic    string `json:"topic"`
	QueueID  int32  `json:"queue"`
	Position int64  `json:"position"` // physical offset
}

// deletions are the deleted queues of a store, as warmlog/deleted has them:
//
//	{"version":1,"deleted":[{"topic":"orders","queue":0,"position":4711}],"xxhash64":"…"}
//
// The hash is that of the JSON of the list, in hexadecimal. The log keeps the records; this
// file is why they do not come back when queues are made from it.
type deletions struct {
	at atomic.Pointer[map[Deletion]int64] // position by queue, Position 0 in the key; immutable
}

type deletedFile struct {
	Version int             `json:"version"`
	Deleted json.RawMessage `json:"deleted"`
	Hash    string          `json:"xxhash64"`
}

// errDeleted is the damage of the file.
var errDeleted = message.NewKind("bad-deleted", "the list of deleted queues cannot be read")

// covers reports whether a record at a physical offset is of a life of its queue that was
// ended.
func (d *deletions) covers(topic []byte, id int32, pos int64) bool {
	all := d.at.Load()
	if all == nil || len(*all) == 0 {
		return false
	}
	return pos < (*all)[Deletion{Topic: string(topic), QueueID: id}]
}

// load reads the file. A store without one has deleted nothing.
func (d *deletions) load(path string) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var f deletedFile
	var list []Deletion
	err = json.Unmarshal(b, &f)
	if err == nil && f.Version != 1 {
		return fmt.Errorf("%s: version %d: %w", path, f.Version, ErrUnsupported)
	}
	if err == nil && strconv.FormatUint(xxhash.Sum64(f.Deleted), 16) != f.Hash {
		err = errors.New("its checksum is another")
	}
	if err == nil {
		err = json.Unmarshal(f.Deleted, &list)
	}
	if err != nil {
		return &message.DamageError{File: path, Err: fmt.Errorf("%w: %w", errDeleted, err)}
	}
	all := map[Deletion]int64{}
	for _, one := range list {
		all[one.queue()] = one.Position
	}
	d.at.Store(&all)
	return nil
}

// add notes deletions, on disk when it returns, and forgets those of which the log has no
// record left.
func (d *deletions) add(path, temp string, list []Deletion, logMin int64) error {
	all := map[Deletion]int64{}
	for _, one := range d.list() {
		if one.Position > logMin {
			all[one.queue()] = one.Position
		}
	}
	for _, one := range list {
		all[one.queue()] = one.Position
	}
	return d.save(path, temp, all)
}

// cut takes back to where the log was cut what was deleted above: records that come there now
// are of other lives.
func (d *deletions) cut(path, temp string, off int64) error {
	all := map[Deletion]int64{}
	above := false
	for _, one := range d.list() {
		above = above || one.Position > off
		all[one.queue()] = min(one.Position, off)
	}
	if !above {
		return nil
	}
	return d.save(path, temp, all)
}

// queue returns the queue alone.
func (d Deletion) queue() Deletion { return Deletion{Topic: d.Topic, QueueID: d.QueueID} }

// list returns the deletions, by position.
func (d *deletions) list() []Deletion {
	known := d.at.Load()
	if known == nil {
		return nil
	}
	list := make([]Deletion, 0, len(*known))
	for one, pos := range *known {
		one.Position = pos
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Deletion) int {
		return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.QueueID, b.QueueID))
	})
	return list
}

// save makes other deletions those of the store.
func (d *deletions) save(path, temp string, all map[Deletion]int64) error {
	next := deletions{}
	next.at.Store(&all)
	raw, err := json.Marshal(next.list())
	if err != nil {
		return err
	}
	b, err := json.Marshal(deletedFile{1, raw, strconv.FormatUint(xxhash.Sum64(raw), 16)})
	if err != nil {
		return err
	}
	if err := replaceFile(path, temp, bytesOnly(b)); err != nil {
		return err
	}
	d.at.Store(&all)
	return nil
}

// Deletions returns which queues were deleted, by position: those of which the log may still
// have records.
func (s *Store) Deletions() []Deletion { return s.deleted.list() }

// DeleteTopic deletes all queues of a topic: their messages are gone, and a message that is
// appended to one of them begins its numbering with 0. The log keeps the records until
// retention takes them; what is deleted stays deleted when queues are made from the log
// again. It returns when everything is on disk. Slices that somebody holds stay valid. A store
// that takes no appends any more ([ErrFailed]) deletes nothing.
func (s *Store) DeleteTopic(ctx context.Context, topic string) error {
	var queues []*consumequeue.Queue
	for _, q := range s.queues.All() {
		if q.Topic() == topic && q.Exists() {
			queues = append(queues, q)
		}
	}
	return s.deleteQueues(ctx, queues, topic)
}

// DeleteQueue is [Store.DeleteTopic] for one queue.
func (s *Store) DeleteQueue(ctx context.Context, topic string, id int32) error {
	var queues []*consumequeue.Queue
	if q := s.queues.Get(topic, id); q != nil && q.Exists() {
		queues = append(queues, q)
	}
	return s.deleteQueues(ctx, queues, fmt.Sprintf("%s/%d", topic, id))
}

// deleteQueues deletes queues; what is what they are for the user.
func (s *Store) deleteQueues(ctx context.Context, queues []*consumequeue.Queue, what string) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.w.using.RUnlock()
	if err := s.w.appender.Failed(); err != nil {
		return err // else it would be done, and told that it was not
	}
	if len(queues) == 0 {
		return fmt.Errorf("%w: %s", ErrUnknownQueue, what)
	}
	for _, q := range queues {
		if _, err := s.writable(ctx, q.Topic(), q.ID()); err != nil {
			return err
		}
	}
	if s.Role() != getmessage.Master {
		return fmt.Errorf("delete %s: %w: it is a slave, whose master deletes", what, ErrRole)
	}
	list, pos, err := s.endLives(queues)
	if err != nil {
		return err
	}
	for _, one := range list {
		s.options.Deleted(one)
	}
	// In the order of the log: what was appended before is delivered first.
	if err := s.w.appender.Commit(ctx, pos); err != nil {
		return err
	}
	return s.w.dispatch.waitDeleted(ctx, pos)
}

// endLives ends the numbering of queues, at one position of the log for all.
func (s *Store) endLives(queues []*consumequeue.Queue) (list []Deletion, pos int64, err error) {
	s.w.appender.Lock()
	defer s.w.appender.Unlock()
	pos = s.w.appender.End()
	for _, q := range queues {
		list = append(list, Deletion{q.Topic(), q.ID(), pos})
	}
	if err := s.deleted.add(s.paths.Deleted(), s.paths.Temp(), list, s.log.Min()); err != nil {
		return nil, 0, fmt.Errorf("delete queues: %w", err)
	}
	for _, q := range queues {
		*q.Next() = 0
	}
	s.w.dispatch.clearAt(pos, queues)
	return list, pos, nil
}

// purge removes what a deletion that was cut short left of the queue files.
func (s *Store) purge() error {
	all := s.deleted.at.Load()
	if all == nil {
		return nil
	}
	for key, pos := range *all {
		if err := consumequeue.Purge(consumequeue.Dir(s.paths.ConsumeQueue(), key.Topic, key.QueueID), s.queueSize, pos); err != nil {
			return err
		}
	}
	return nil
}
