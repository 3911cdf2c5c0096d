package warmlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/message"
)

// deletion says that a queue was deleted: its records below a position are nobody's.
type deletion struct {
	Topic    string `json:"topic"`
	Queue    int32  `json:"queue"`
	Position int64  `json:"position"` // physical offset
}

// deletions are the deleted queues of a store, as warmlog/deleted has them:
//
//	{"version":1,"deleted":[{"topic":"orders","queue":0,"position":4711}],"xxhash64":"…"}
//
// The hash is that of the JSON of the list, in hexadecimal. The log keeps the records; this
// file is why they do not come back when queues are made from it.
type deletions struct {
	at atomic.Pointer[map[deletion]int64] // position by queue, Position 0 in the key; immutable
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
	return pos < (*all)[deletion{Topic: string(topic), Queue: id}]
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
	var list []deletion
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
	all := map[deletion]int64{}
	for _, one := range list {
		all[deletion{Topic: one.Topic, Queue: one.Queue}] = one.Position
	}
	d.at.Store(&all)
	return nil
}

// add notes deletions, on disk when it returns, and forgets those of which the log has no
// record left.
func (d *deletions) add(path, temp string, list []deletion, logMin int64) error {
	all := map[deletion]int64{}
	if known := d.at.Load(); known != nil {
		for key, pos := range *known {
			if pos > logMin {
				all[key] = pos
			}
		}
	}
	for _, one := range list {
		all[deletion{Topic: one.Topic, Queue: one.Queue}] = one.Position
	}
	list = list[:0:0]
	for key, pos := range all {
		key.Position = pos
		list = append(list, key)
	}
	raw, err := json.Marshal(list)
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

// DeleteTopic deletes all queues of a topic: their messages are gone, and a message that is
// appended to one of them begins its numbering with 0. The log keeps the records until
// retention takes them; what is deleted stays deleted when queues are made from the log
// again. It returns when everything is on disk. Slices that somebody holds stay valid.
func (s *Store) DeleteTopic(ctx context.Context, topic string) error {
	var queues []*consumequeue.Queue
	for _, q := range s.queues.All() {
		if q.Topic() == topic {
			queues = append(queues, q)
		}
	}
	return s.deleteQueues(ctx, queues, topic)
}

// DeleteQueue is [Store.DeleteTopic] for one queue.
func (s *Store) DeleteQueue(ctx context.Context, topic string, id int32) error {
	q := s.queues.Get(topic, id)
	if q == nil {
		return fmt.Errorf("%w: %s/%d", ErrUnknownQueue, topic, id)
	}
	return s.deleteQueues(ctx, []*consumequeue.Queue{q}, topic)
}

func (s *Store) deleteQueues(ctx context.Context, queues []*consumequeue.Queue, topic string) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.w.using.RUnlock()
	if len(queues) == 0 {
		return fmt.Errorf("%w: %s", ErrUnknownQueue, topic)
	}
	for _, q := range queues {
		if _, err := s.writable(ctx, q.Topic(), q.ID()); err != nil {
			return err
		}
	}
	pos, err := s.endLives(queues)
	if err != nil {
		return err
	}
	// In the order of the log: what was appended before is delivered first.
	if err := s.w.appender.Commit(ctx, pos); err != nil {
		return err
	}
	return s.w.dispatch.waitDeleted(ctx)
}

// endLives ends the numbering of queues, at one position of the log for all.
func (s *Store) endLives(queues []*consumequeue.Queue) (pos int64, err error) {
	s.w.appender.Lock()
	defer s.w.appender.Unlock()
	pos = s.w.appender.End()
	list := make([]deletion, 0, len(queues))
	for _, q := range queues {
		list = append(list, deletion{q.Topic(), q.ID(), pos})
	}
	if err := s.deleted.add(s.paths.Deleted(), s.paths.Temp(), list, s.log.Min()); err != nil {
		return 0, fmt.Errorf("delete queues: %w", err)
	}
	for _, q := range queues {
		*q.Next() = 0
	}
	s.w.dispatch.clearAt(pos, queues)
	return pos, nil
}

// purge removes what a deletion that was cut short left of the queue files.
func (s *Store) purge() error {
	all := s.deleted.at.Load()
	if all == nil {
		return nil
	}
	for key, pos := range *all {
		if err := consumequeue.Purge(consumequeue.Dir(s.paths.ConsumeQueue(), key.Topic, key.Queue), s.queueSize, pos); err != nil {
			return err
		}
	}
	return nil
}
