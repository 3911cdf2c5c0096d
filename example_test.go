package warmlog_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/consumequeue"
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/internal/fixtures"
)

// exampleStore returns the directory of a store that a real RocketMQ wrote.
func exampleStore() (dir string, remove func()) {
	tmp, err := os.MkdirTemp("", "warmlog-example")
	if err != nil {
		log.Fatal(err)
	}
	if err := fixtures.UnpackTo(tmp, "5.3.3-pair"); err != nil {
		log.Fatal(err)
	}
	return filepath.Join(tmp, "rocketmq-5.3.3-pair", "master"), func() { os.RemoveAll(tmp) }
}

// A consumer pulls from a store that RocketMQ wrote.
func Example() {
	dir, remove := exampleStore()
	defer remove()

	store, err := warmlog.Open(dir, warmlog.Options{ReadOnly: true})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	ctx := context.Background()
	var batch getmessage.Batch // used again for each pull
	for offset := int64(7); ; offset = batch.NextOffset {
		err := store.Get(ctx, &getmessage.Request{Group: "g", Topic: "Orders", QueueID: 0, Offset: offset, MaxMessages: 32}, &batch)
		if err != nil {
			log.Fatal(err)
		}
		if batch.Status != getmessage.Found {
			fmt.Println(batch.Status, "next", batch.NextOffset)
			break
		}
		for _, rec := range batch.Records() {
			fmt.Printf("%d at %d: %d bytes, tag %s\n", rec.QueueOffset(), rec.PhysicalOffset(), len(rec.Body()), rec.Property("TAGS"))
		}
	}
	batch.Release()
	// Output:
	// 7 at 7809: 8 bytes, tag paid
	// 8 at 8819: 8 bytes, tag paid
	// 9 at 9829: 8 bytes, tag paid
	// OFFSET_OVERFLOW_ONE next 10
}

// Who starts somewhere in time asks for the offset first.
func ExampleStore_OffsetByTime() {
	dir, remove := exampleStore()
	defer remove()
	store, err := warmlog.Open(dir, warmlog.Options{ReadOnly: true})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	first, err := store.OffsetByTime(context.Background(), "Orders", 0, 0, consumequeue.Lower)
	fmt.Println(first, err)
	// Output: 0 <nil>
}

// A message is found by its key; each answer was compared with the record itself.
func ExampleStore_FindByKey() {
	dir, remove := exampleStore()
	defer remove()
	store, err := warmlog.Open(dir, warmlog.Options{ReadOnly: true})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	found, err := store.FindByKey(context.Background(), warmlog.KeyQuery{Topic: "Orders", Key: "k3"})
	if err != nil {
		log.Fatal(err)
	}
	for _, off := range found.Offsets {
		rec, _, err := store.Record(off, nil)
		fmt.Println(off, string(rec.Property("KEYS")), err)
	}
	// Output: 753 k3 <nil>
}
