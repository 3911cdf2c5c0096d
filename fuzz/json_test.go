package fuzz_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/warmlog/warmlog/internal/fastjson"
	"github.com/warmlog/warmlog/message"
	"github.com/warmlog/warmlog/progress"
)

// FuzzJSON gives any bytes as a table and its spare copy to every reader. What is read has
// the values that encoding/json finds in the same text, in their range; what is not read is
// an error of its class.
func FuzzJSON(f *testing.F) {
	tables := seedFiles(f, 8000, "*/config/*.json", "*/config/*.bak")
	for i, b := range tables {
		f.Add(b, tables[(i+1)%len(tables)], uint8(i))
		f.Add(b[:len(b)/2], b, uint8(i+4))
		f.Add([]byte{}, b, uint8(i+8))
	}
	for _, s := range []string{`{"offsetTable":{"T@g":{0:1,-1:2,1:-3}},"x":[{"a\"":"\\"}],"y":null}`, `{"offsetTable":{1:0,18:9223372036854775807},"dataVersion":{"counter":-1}}`,
		`{"topicConfigTable":{"T":{"perm":6,"readQueueNums":2147483647,"attributes":{"queue.type":"BatchCQ"},"z":{0:[]}}}}`,
		`{"subscriptionGroupTable":{"g":{"consumeEnable":false,"retryQueueNums":3,"brokerId":-9}},"forbiddenTable":{"g":{"T":4}}}`, `{"offsetTable":{}`, `null`, `{"offsetTable":null}`} {
		f.Add([]byte(s), []byte(s), uint8(len(s)))
	}
	dir, files := f.TempDir(), fileSet{}
	first, second, both := filepath.Join(dir, "first.json"), filepath.Join(dir, "second.json"), filepath.Join(dir, "both.json")
	f.Fuzz(func(t *testing.T, b, spare []byte, shape uint8) {
		checkStandard(t, b)
		load := loaders[int(shape)%len(loaders)]
		// Each alone, and then which of the two it takes.
		files.write(t, first, b)
		files.write(t, second, spare)
		one, two := load(first), load(second)
		checkTable(t, first, b, &one)
		checkTable(t, second, spare, &two)
		files.write(t, both+".bak", spare)
		if shape&jsonMissing != 0 {
			files.remove(t, both)
			one = loaded{err: fs.ErrNotExist}
		} else {
			files.write(t, both, b)
		}
		checkChoice(t, both, load(both), one, two)
	})
}

// jsonMissing is a bit of FuzzJSON's shape: only the spare copy is there. The two lowest
// bits choose the table.
const jsonMissing = 8

// loaded is what a reader made of a file.
type loaded struct {
	table  any // nil with an error
	origin progress.Origin
	err    error
}

var loaders = [4]func(path string) loaded{
	func(path string) loaded { return made1(progress.LoadOffsets(path)) },
	func(path string) loaded { return made1(progress.LoadTopics(path)) },
	func(path string) loaded { return made1(progress.LoadGroups(path)) },
	func(path string) loaded { return made1(progress.LoadDelayOffsets(path)) },
}

func made1[T any](table *T, origin progress.Origin, err error) loaded {
	if err != nil {
		return loaded{nil, origin, err}
	}
	return loaded{table, origin, nil}
}

// checkChoice checks which of a file and its spare copy was taken. first and second are
// what each is alone.
func checkChoice(t *testing.T, path string, got, first, second loaded) {
	t.Helper()
	switch {
	case first.err == nil:
		if got.err != nil || got.origin.Path != path || got.origin.Why != nil || !reflect.DeepEqual(got.table, first.table) {
			t.Fatalf("the file is good, but: %+v", got)
		}
	case second.err == nil:
		if got.err != nil || got.origin.Path != path+".bak" || got.origin.Why == nil || !reflect.DeepEqual(got.table, second.table) {
			t.Fatalf("the spare copy is good, the file is not (%v), but: %+v", first.err, got)
		}
	case !errors.Is(got.err, progress.ErrNoGoodCopy) || errors.Is(got.err, fs.ErrNotExist) || got.table != nil:
		t.Fatalf("neither copy is good (%v; %v), but: %+v", first.err, second.err, got)
	}
	_ = got.origin.String()
}

// checkStandard checks the text that is made of fastjson's.
func checkStandard(t *testing.T, b []byte) {
	t.Helper()
	before := bytes.Clone(b)
	std, err := fastjson.Standard([]byte("x"), b)
	var syntax *fastjson.SyntaxError
	var v json.RawMessage
	unmarshal := fastjson.Unmarshal(b, &v)
	switch {
	case !bytes.Equal(b, before):
		t.Fatal("the source was changed")
	case (err == nil) != (unmarshal == nil):
		t.Fatalf("Standard: %v, Unmarshal: %v", err, unmarshal)
	case err != nil:
		if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > int64(len(b)) || string(std) != "x" {
			t.Fatalf("%v, %q", err, std)
		}
		if json.Valid(b) {
			t.Fatalf("standard JSON is refused: %v", err)
		}
	case !json.Valid(std[1:]) || json.Valid(b) && !bytes.Equal(std[1:], b):
		t.Fatalf("%q became %q", b, std)
	case bytes.Count(std[1:], []byte{'"'})-bytes.Count(b, []byte{'"'}) != len(std)-1-len(b):
		t.Fatalf("more than quotes was added: %q became %q", b, std)
	}
}

// checkTable checks what a reader made of a file without a spare copy.
func checkTable(t *testing.T, path string, b []byte, got *loaded) {
	t.Helper()
	if got.err != nil {
		var damage *message.DamageError
		if !errors.As(got.err, &damage) || !errors.Is(got.err, message.ErrDamaged) || !errors.Is(got.err, progress.ErrNoGoodCopy) ||
			damage.File != path || damage.Offset < 0 || damage.Offset > int64(len(b)) || got.table != nil {
			t.Fatalf("%v", got.err)
		}
		return
	}
	if got.origin.Path != path || got.origin.Why != nil || got.origin.LeftOut < 0 || got.origin.LeftOutAt < 0 || got.origin.LeftOutAt >= int64(len(b)) {
		t.Fatalf("%+v of %d bytes", got.origin, len(b))
	}
	std, err := fastjson.Standard(nil, b)
	if err != nil {
		t.Fatalf("a table of what is not JSON: %v", err)
	}
	top := object(t, std)
	switch table := got.table.(type) {
	case *progress.Offsets:
		checkOffsets(t, table, got.origin.LeftOut, top)
		checkRest(t, table.Rest, top, "dataVersion", "offsetTable", "groupTopicMap")
		checkVersion(t, table.Version, top)
	case *progress.DelayOffsets:
		checkDelay(t, table, top)
		checkRest(t, table.Rest, top, "dataVersion", "offsetTable")
		checkVersion(t, table.Version, top)
	case *progress.Topics:
		checkTopics(t, table, top)
		checkRest(t, table.Rest, top, "dataVersion", "topicConfigTable")
		checkVersion(t, table.Version, top)
	case *progress.Groups:
		checkGroups(t, table, top)
		checkRest(t, table.Rest, top, "dataVersion", "subscriptionGroupTable", "forbiddenTable")
		checkVersion(t, table.Version, top)
	}
}

// pair is a member of an object.
type pair struct {
	name  string
	value json.RawMessage
}

// members takes an object apart, member by member, with encoding/json.
func members(t *testing.T, text []byte) (all []pair) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		t.Fatalf("a table of what is no object: %q, %v", text, err)
	}
	for dec.More() {
		name, err := dec.Token()
		m := pair{}
		if err == nil {
			m.name = name.(string)
			err = dec.Decode(&m.value)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// object takes an object apart of which no member may come twice.
func object(t *testing.T, text []byte) map[string]json.RawMessage {
	t.Helper()
	m := map[string]json.RawMessage{}
	for _, one := range members(t, text) {
		if m[one.name] != nil {
			t.Fatalf("a table of an object in which %q comes twice", one.name)
		}
		m[one.name] = one.value
	}
	return m
}

func isNull(text json.RawMessage) bool { return string(bytes.TrimSpace(text)) == "null" }

// same reports whether a text is a number or word as Go prints the value.
func same(text json.RawMessage, value any) bool {
	return string(bytes.TrimSpace(text)) == fmt.Sprint(value)
}

// member compares a member with its value, or with the default if it is absent.
func member(t *testing.T, m map[string]json.RawMessage, name string, value, absent any) {
	t.Helper()
	text, ok := m[name]
	if !ok || isNull(text) {
		if value != absent {
			t.Fatalf("%s is %v, by default %v", name, value, absent)
		}
		return
	}
	if s, isString := value.(string); isString {
		var want string
		if json.Unmarshal(text, &want) != nil || want != s {
			t.Fatalf("%s is %q, not %s", name, s, text)
		}
		return
	}
	if !same(text, value) {
		t.Fatalf("%s is %v, not %s", name, value, text)
	}
}

func checkVersion(t *testing.T, v progress.DataVersion, top map[string]json.RawMessage) {
	t.Helper()
	m := map[string]json.RawMessage{}
	if text, ok := top["dataVersion"]; ok && !isNull(text) {
		m = object(t, text)
	}
	member(t, m, "counter", v.Counter, int64(0))
	member(t, m, "stateVersion", v.StateVersion, int64(0))
	member(t, m, "timestamp", v.Timestamp, int64(0))
}

// checkRest checks that the members that are not known were kept, and no others.
func checkRest(t *testing.T, rest progress.Members, all map[string]json.RawMessage, known ...string) {
	t.Helper()
	kept := map[string]json.RawMessage{}
	if rest != nil {
		if kept = object(t, rest); len(kept) == 0 {
			t.Fatal("an empty object of unknown members")
		}
	}
	left := map[string]string{}
	for name, text := range all {
		if !isNull(text) {
			left[name] = string(bytes.TrimSpace(text))
		}
	}
	for _, name := range known {
		delete(left, name)
	}
	if len(kept) != len(left) {
		t.Fatalf("kept %q of %q", kept, left)
	}
	for name, text := range kept {
		if string(bytes.TrimSpace(text)) != left[name] {
			t.Fatalf("kept %q as %q of %q", name, text, left)
		}
	}
}

func checkOffsets(t *testing.T, table *progress.Offsets, leftOut int, top map[string]json.RawMessage) {
	t.Helper()
	all := object(t, top["offsetTable"])
	if len(all) != len(table.Table) {
		t.Fatalf("%d keys of %d", len(table.Table), len(all))
	}
	for key, queues := range table.Table {
		topic, group := key.Split()
		if progress.KeyOf(topic, group) != key || strings.Contains(topic, "@") {
			t.Fatalf("%q is split into %q and %q", key, topic, group)
		}
		text, ok := all[string(key)]
		if !ok {
			t.Fatalf("%q is not in the file", key)
		}
		// Of negative ones a name can come twice, which a map does not tell.
		entries := map[string]json.RawMessage{}
		for _, m := range members(t, text) {
			if strings.HasPrefix(m.name, "-") || strings.HasPrefix(string(m.value), "-") {
				leftOut--
				continue
			}
			if entries[m.name] != nil {
				t.Fatalf("%q: %s comes twice", key, m.name)
			}
			entries[m.name] = m.value
		}
		if len(queues) != len(entries) {
			t.Fatalf("%q: %d queues of %d", key, len(queues), len(entries))
		}
		for id, off := range queues {
			if id < 0 || off < 0 || !same(entries[fmt.Sprint(id)], off) {
				t.Fatalf("%q: queue %d at %d: %s", key, id, off, entries[fmt.Sprint(id)])
			}
		}
	}
	if leftOut != 0 {
		t.Fatalf("%d more were left out than are negative", leftOut)
	}
}

func checkDelay(t *testing.T, table *progress.DelayOffsets, top map[string]json.RawMessage) {
	t.Helper()
	all := object(t, top["offsetTable"])
	if len(all) != len(table.Table) {
		t.Fatalf("%d levels of %d", len(table.Table), len(all))
	}
	for level, off := range table.Table {
		if level < 1 || off < 0 || !same(all[fmt.Sprint(level)], off) {
			t.Fatalf("level %d at %d: %s", level, off, all[fmt.Sprint(level)])
		}
	}
}

func checkTopics(t *testing.T, table *progress.Topics, top map[string]json.RawMessage) {
	t.Helper()
	all := object(t, top["topicConfigTable"])
	if len(all) != len(table.Table) {
		t.Fatalf("%d topics of %d", len(table.Table), len(all))
	}
	for name, topic := range table.Table {
		m := object(t, all[name])
		if topic.Perm < 0 || topic.ReadQueues < 0 || topic.WriteQueues < 0 {
			t.Fatalf("%+v", topic)
		}
		member(t, m, "topicName", name, name)
		member(t, m, "perm", topic.Perm, int32(6))
		member(t, m, "readQueueNums", topic.ReadQueues, int32(16))
		member(t, m, "writeQueueNums", topic.WriteQueues, int32(16))
		member(t, m, "order", topic.Order, false)
		member(t, m, "topicFilterType", topic.FilterType, "SINGLE_TAG")
		member(t, m, "topicSysFlag", topic.SysFlag, int32(0))
		checkStrings(t, topic.Attributes, m["attributes"])
		checkRest(t, topic.Rest, m, "topicName", "perm", "readQueueNums", "writeQueueNums", "order", "topicFilterType", "topicSysFlag", "attributes")
		_ = topic.BatchQueue()
	}
}

func checkStrings(t *testing.T, got map[string]string, text json.RawMessage) {
	t.Helper()
	if text == nil || isNull(text) {
		if got != nil {
			t.Fatalf("%q of nothing", got)
		}
		return
	}
	want := map[string]string{}
	if err := json.Unmarshal(text, &want); err != nil || got == nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%q of %s, %v", got, text, err)
	}
}

func checkGroups(t *testing.T, table *progress.Groups, top map[string]json.RawMessage) {
	t.Helper()
	all := object(t, top["subscriptionGroupTable"])
	if len(all) != len(table.Table) {
		t.Fatalf("%d groups of %d", len(table.Table), len(all))
	}
	for name, g := range table.Table {
		m := object(t, all[name])
		if g.RetryQueues < 0 {
			t.Fatalf("%+v", g)
		}
		member(t, m, "groupName", name, name)
		member(t, m, "consumeEnable", g.ConsumeEnable, true)
		member(t, m, "consumeFromMinEnable", g.ConsumeFromMin, true)
		member(t, m, "consumeBroadcastEnable", g.ConsumeBroadcast, true)
		member(t, m, "consumeMessageOrderly", g.ConsumeOrderly, false)
		member(t, m, "notifyConsumerIdsChangedEnable", g.NotifyIDsChanged, true)
		member(t, m, "retryQueueNums", g.RetryQueues, int32(1))
		member(t, m, "retryMaxTimes", g.RetryMaxTimes, int32(16))
		member(t, m, "brokerId", g.BrokerID, int64(0))
		member(t, m, "whichBrokerWhenConsumeSlowly", g.WhichBrokerWhenSlow, int64(1))
		member(t, m, "groupSysFlag", g.SysFlag, int32(0))
		member(t, m, "consumeTimeoutMinute", g.ConsumeTimeoutMinutes, int32(15))
		checkStrings(t, g.Attributes, m["attributes"])
		checkRest(t, g.Rest, m, "groupName", "consumeEnable", "consumeFromMinEnable", "consumeBroadcastEnable", "consumeMessageOrderly", "notifyConsumerIdsChangedEnable",
			"retryQueueNums", "retryMaxTimes", "brokerId", "whichBrokerWhenConsumeSlowly", "groupSysFlag", "consumeTimeoutMinute", "attributes")
	}
	text, ok := top["forbiddenTable"]
	if !ok || isNull(text) {
		if table.Forbidden != nil {
			t.Fatalf("%v of nothing", table.Forbidden)
		}
		return
	}
	groups := object(t, text)
	if len(groups) != len(table.Forbidden) {
		t.Fatalf("%d forbidden groups of %d", len(table.Forbidden), len(groups))
	}
	for name, topics := range table.Forbidden {
		m := object(t, groups[name])
		if len(m) != len(topics) {
			t.Fatalf("%d forbidden topics of %d", len(topics), len(m))
		}
		for topic, bits := range topics {
			member(t, m, topic, bits, nil)
		}
	}
}
