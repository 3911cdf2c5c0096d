package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/message"
)

// ackJSON is an acknowledgement as append prints it.
type ackJSON struct {
	Topic          string `json:"topic"`
	Queue          int32  `json:"queue"`
	QueueOffset    int64  `json:"queueOffset"`
	PhysicalOffset int64  `json:"physicalOffset"`
	Size           int32  `json:"size"`
	MsgID          string `json:"msgId"`
}

// refusedJSON is a line that was refused, as append prints it with --json.
type refusedJSON struct {
	Line  int64  `json:"line"`
	Error string `json:"error"`
}

// refused is the error of a line that is no message. The rest goes on.
type refused struct{ error }

// ack is what became of a line.
type ack struct {
	line  int64 // from 1
	topic string
	queue int32
	bytes int // of the body
	at    warmlog.Appended
	err   error
}

// How much is in flight at the most.
const (
	mostInFlight      = 4096     // messages
	mostBytesInFlight = 64 << 20 // of their bodies, but for the last one
)

// acks prints acknowledgements in the order in which the store gives them, which is that of
// the input. One goroutine expects them, one prints.
type acks struct {
	app  *app
	stop func() // ends the reading
	came chan ack
	quit chan struct{} // closed when all are printed

	messages, bytes atomic.Int64  // in flight
	room            chan struct{} // there may be fewer now

	// Of the printing goroutine, and of anybody when it has ended.
	id      *msgIDs
	good    int64
	refused int64
	last    ack   // the last good one
	failed  error // why no more is read; what is in flight may still be acknowledged

	note string // of the other goroutine: to be said at the end
}

func newAcks(a *app, stop func()) *acks {
	k := &acks{app: a, stop: stop, came: make(chan ack, mostInFlight), quit: make(chan struct{}), room: make(chan struct{}, 1), id: newMsgIDs()}
	go k.run()
	return k
}

// expect waits until there is room for one more in flight.
func (k *acks) expect(one *ack) {
	for k.messages.Load() >= mostInFlight || k.bytes.Load() >= mostBytesInFlight {
		<-k.room
	}
	k.messages.Add(1)
	k.bytes.Add(int64(one.bytes))
}

// done takes what became of a line that was expected. It never blocks.
func (k *acks) done(one ack, at warmlog.Appended, err error) {
	one.at, one.err = at, err
	k.came <- one
}

// noteAtEnd keeps something to say when all acknowledgements are out.
func (k *acks) noteAtEnd(text string) { k.note = text }

// finish returns when everything that was expected is printed.
func (k *acks) finish() {
	for k.messages.Load() > 0 {
		<-k.room
	}
	close(k.came)
	<-k.quit
	if k.note != "" && k.failed == nil {
		k.app.note(k.note)
	}
}

// run prints until finish. What is printed goes out as soon as nothing else is there to be
// printed with it.
func (k *acks) run() {
	defer close(k.quit)
	out := json.NewEncoder(k.app.out)
	out.SetEscapeHTML(false)
	for {
		var one ack
		var open bool
		select {
		case one, open = <-k.came:
		default:
			k.fail(k.app.out.Flush())
			one, open = <-k.came
		}
		if !open {
			return
		}
		k.print(out, &one)
		k.messages.Add(-1)
		k.bytes.Add(-int64(one.bytes))
		select {
		case k.room <- struct{}{}:
		default:
		}
	}
}

func (k *acks) print(out *json.Encoder, one *ack) {
	var wrong refused
	switch {
	case one.err == nil:
		k.good++
		k.last = *one
		at := &one.at
		k.fail(out.Encode(ackJSON{one.topic, one.queue, at.QueueOffset, at.PhysicalOffset, at.Size, k.id.of(at.PhysicalOffset)}))
	case errors.Is(one.err, warmlog.ErrInvalid) || errors.As(one.err, &wrong):
		k.refused++
		if k.app.json {
			_ = writeJSON(k.app.err, refusedJSON{one.line, one.err.Error()}) // nowhere else to say it
			return
		}
		printf(k.app.err, "line %d: %v\n", one.line, one.err)
	default:
		k.fail(fmt.Errorf("line %d: %w", one.line, one.err))
	}
}

// fail ends the reading where there is an error. The first one stays.
func (k *acks) fail(err error) {
	if err != nil && k.failed == nil {
		k.failed = err
		k.stop()
	}
}

// result says what went wrong among the lines that were read, after finish.
func (k *acks) result(read int64) error {
	switch {
	case k.failed != nil && k.good == 0:
		return fmt.Errorf("%w; nothing was acknowledged", k.failed)
	case k.failed != nil:
		return fmt.Errorf("%w; acknowledged: %d of %d messages, the last one line %d, %s/%d at offset %d, physical offset %d",
			k.failed, k.good, read, k.last.line, k.last.topic, k.last.queue, k.last.at.QueueOffset, k.last.at.PhysicalOffset)
	case k.refused > 0:
		return fmt.Errorf("%d of %d lines were refused", k.refused, read)
	}
	return nil
}

// msgIDs makes the ids of messages, without reading them back: of a record that differs in
// its place alone.
type msgIDs struct{ record []byte }

func newMsgIDs() *msgIDs {
	return &msgIDs{message.AppendRecord(nil, &message.Message{BornHost: storeHost}, storeHost, false)}
}

func (i *msgIDs) of(physical int64) string {
	message.Stamp(i.record, 0, physical, 0, false)
	v := message.ViewOf(i.record)
	return v.ID()
}
