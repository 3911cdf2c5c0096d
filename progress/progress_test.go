package progress_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/warmlog/warmlog/message"
	"github.com/warmlog/warmlog/progress"
)

// kinds are the four files, each with its loader in a form that all share.
var kinds = map[string]func(path string) (any, progress.Origin, error){
	"consumerOffset.json":    func(p string) (any, progress.Origin, error) { return loaded(progress.LoadOffsets(p)) },
	"topics.json":            func(p string) (any, progress.Origin, error) { return loaded(progress.LoadTopics(p)) },
	"subscriptionGroup.json": func(p string) (any, progress.Origin, error) { return loaded(progress.LoadGroups(p)) },
	"delayOffset.json":       func(p string) (any, progress.Origin, error) { return loaded(progress.LoadDelayOffsets(p)) },
}

func loaded[T any](v *T, from progress.Origin, err error) (any, progress.Origin, error) {
	if v == nil {
		return nil, from, err
	}
	return v, from, err
}

// put writes files into a new directory and returns the path of the first name, which may
// itself not be among them.
func put(t testing.TB, name string, files map[string]string) string {
	dir := t.TempDir()
	for n, text := range files {
		if err := os.WriteFile(filepath.Join(dir, n), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, name)
}

// real returns the files of testdata that are of one kind.
func real(t testing.TB, kind string) []string {
	paths, err := filepath.Glob("testdata/*/" + kind)
	if err != nil || len(paths) < 4 {
		t.Fatal(paths, err)
	}
	return paths
}

func TestRealOffsets(t *testing.T) {
	type table = map[progress.Key]map[int32]int64
	for _, dir := range []string{"5.3.3-master", "5.3.3-slave"} {
		o, from, err := progress.LoadOffsets("testdata/" + dir + "/consumerOffset.json")
		if err != nil || from != (progress.Origin{Path: "testdata/" + dir + "/consumerOffset.json"}) {
			t.Fatal(from, err)
		}
		want := &progress.Offsets{
			Version: progress.DataVersion{Timestamp: 1796007529551},
			Table: table{
				"Batches@billing": {0: 0, 1: 0, 2: 0, 3: 10}, "RMQ_SYS_TRANS_OP_HALF_TOPIC@CID_RMQ_SYS_TRANS": {0: 1},
				"%RETRY%billing@billing": {0: 1}, "RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS": {0: 4},
				"Orders@billing": {0: 10, 1: 10, 2: 10, 3: 10}, "Payments@billing": {0: 1, 1: 0, 2: 1, 3: 0}, "Reminders@billing": {0: 1, 1: 2, 2: 2, 3: 1},
			},
		}
		if !reflect.DeepEqual(o, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", dir, o, want)
		}
	}
	// The same table written by three releases; only 5.x has versions, only 5.5 one more member.
	awkward := table{
		"TopicA@G1": {0: 10, 1: 20, 2: 3, 10: 5}, "TopicA@a@b\"\\{0:1}é\x01": {0: 1<<63 - 1, 1<<31 - 1: 1<<53 + 1}, "%RETRY%G1@G1": {0: 1}, "Empty@G1": {},
	}
	for dir, want := range map[string]progress.Offsets{
		"4.9.7-classes": {},
		"5.3.3-classes": {Version: progress.DataVersion{Timestamp: 1796013502207}},
		"5.5.0-classes": {Version: progress.DataVersion{Timestamp: 1796013508363}, Rest: progress.Members(`{"pullOffsetTable":{}}`)},
	} {
		want.Table = awkward
		path := "testdata/" + dir + "/consumerOffset.json"
		o, from, err := progress.LoadOffsets(path)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(o, &want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", dir, o, &want)
		}
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if from.Why != nil || from.LeftOut != 2 || !strings.HasPrefix(string(src[from.LeftOutAt:]), "-1:7") || !strings.Contains(from.String(), "2 entries") {
			t.Errorf("%s: %+v, %v", dir, from, from)
		}
	}
}

func TestKey(t *testing.T) {
	for key, want := range map[progress.Key][2]string{
		"T@g": {"T", "g"}, "%RETRY%g@g": {"%RETRY%g", "g"}, "T@a@b": {"T", "a@b"}, "@g": {"", "g"}, "T@": {"T", ""},
	} {
		topic, group := key.Split()
		if [2]string{topic, group} != want || progress.KeyOf(topic, group) != key {
			t.Errorf("%s: %q %q", key, topic, group)
		}
	}
	if progress.KeyOf("T@a", "b") != progress.KeyOf("T", "a@b") {
		t.Error("a key is more than its text")
	}
}

func TestRealTopics(t *testing.T) {
	for dir, counter := range map[string]int64{"5.3.3-master": 5, "5.3.3-slave": 35} {
		ts, _, err := progress.LoadTopics("testdata/" + dir + "/topics.json")
		if err != nil {
			t.Fatal(err)
		}
		names := slices.Sorted(maps.Keys(ts.Table))
		want := "[%RETRY%billing Batches BenchmarkTest OFFSET_MOVED_EVENT Orders Payments RMQ_SYS_TRANS_HALF_TOPIC RMQ_SYS_TRANS_OP_HALF_TOPIC " +
			"Reminders SCHEDULE_TOPIC_XXXX SELF_TEST_TOPIC TBW102 lab lab-a lab_REPLY_TOPIC rmq_sys_REVIVE_LOG_lab rmq_sys_SYNC_BROKER_MEMBER_lab-a]"
		if got := fmt.Sprint(names); got != want || ts.Version.Counter != counter || ts.Rest != nil {
			t.Errorf("%s: %s %+v %s\nwant %s", dir, got, ts.Version, ts.Rest, want)
		}
		for name, want := range map[string][3]int32{"SCHEDULE_TOPIC_XXXX": {6, 18, 18}, "lab": {7, 16, 16}, "BenchmarkTest": {6, 1024, 1024}, "rmq_sys_SYNC_BROKER_MEMBER_lab-a": {1, 1, 1}} {
			tp := ts.Table[name]
			if got := [3]int32{tp.Perm, tp.ReadQueues, tp.WriteQueues}; got != want || tp.FilterType != "SINGLE_TAG" || tp.Attributes == nil || tp.Rest != nil {
				t.Errorf("%s: %s: %+v", dir, name, tp)
			}
		}
	}
	for dir, attributes := range map[string]map[string]string{"4.9.7-classes": nil, "5.3.3-classes": {"queue.type": "BatchCQ"}, "5.5.0-classes": {"queue.type": "BatchCQ"}} {
		ts, _, err := progress.LoadTopics("testdata/" + dir + "/topics.json")
		if err != nil {
			t.Fatal(err)
		}
		a, o := ts.Table["TopicA"], ts.Table["Ordered"]
		want := progress.Topic{Perm: 6, ReadQueues: 16, WriteQueues: 16, Order: true, FilterType: "MULTI_TAG", SysFlag: 3, Attributes: attributes}
		if !reflect.DeepEqual(o, want) || len(ts.Table) != 2 || ts.Version.Timestamp == 0 {
			t.Errorf("%s: %+v", dir, ts)
		}
		if a.ReadQueues != 4 || a.WriteQueues != 8 || a.Order || a.BatchQueue() || o.BatchQueue() != (attributes != nil) {
			t.Errorf("%s: %+v %v", dir, a, o.BatchQueue())
		}
	}
}

func TestBatchQueue(t *testing.T) {
	for name, value := range map[string]string{"+queue.type": "BatchCQ", "-queue.type": "BatchCQ", "queue.type": "batchcq", "Queue.type": "BatchCQ"} {
		tp := progress.Topic{Attributes: map[string]string{name: value}}
		if tp.BatchQueue() {
			t.Errorf("%s = %s makes a batch queue, but not in RocketMQ", name, value)
		}
	}
}

func TestRealGroups(t *testing.T) {
	for dir, free := range map[string]bool{"5.3.3-master": false, "5.3.3-slave": true} {
		gs, _, err := progress.LoadGroups("testdata/" + dir + "/subscriptionGroup.json")
		if err != nil {
			t.Fatal(err)
		}
		want := progress.Group{
			ConsumeEnable: true, ConsumeFromMin: free, ConsumeBroadcast: free, NotifyIDsChanged: true, RetryQueues: 1, RetryMaxTimes: 16,
			WhichBrokerWhenSlow: 1, ConsumeTimeoutMinutes: 15, Attributes: map[string]string{},
			Rest: progress.Members("{\"groupRetryPolicy\":{\n\t\t\t\t\"type\":\"CUSTOMIZED\"\n\t\t\t}}"),
		}
		if got := gs.Table["billing"]; len(gs.Table) != 9 || !reflect.DeepEqual(got, want) || len(gs.Forbidden) != 0 || gs.Forbidden == nil {
			t.Errorf("%s:\ngot  %+v\nwant %+v", dir, got, want)
		}
	}
	for _, dir := range []string{"4.9.7-classes", "5.3.3-classes", "5.5.0-classes"} {
		gs, _, err := progress.LoadGroups("testdata/" + dir + "/subscriptionGroup.json")
		if err != nil {
			t.Fatal(err)
		}
		g := gs.Table["slow"]
		if !g.ConsumeEnable || g.RetryMaxTimes != -1 || g.WhichBrokerWhenSlow != 2 || g.ConsumeTimeoutMinutes != 15 {
			t.Errorf("%s: %+v", dir, g)
		}
		if old := strings.HasPrefix(dir, "4"); old != (gs.Forbidden == nil) || old != (g.Attributes == nil) || old != (g.Rest == nil) {
			t.Errorf("%s: %+v", dir, gs)
		} else if !old && (gs.Forbidden["slow"]["TopicA"] != 4 || g.Attributes["x"] != "y" || !strings.Contains(string(g.Rest), `"subscriptionDataSet":[`)) {
			t.Errorf("%s: %+v", dir, gs)
		}
	}
}

func TestRealDelayOffsets(t *testing.T) {
	pair := &progress.DelayOffsets{Version: progress.DataVersion{Timestamp: 1796007529708}, Table: map[int32]int64{1: 2, 2: 2, 3: 3}}
	for path, want := range map[string]*progress.DelayOffsets{
		"5.3.3-master/delayOffset.json":    pair,
		"5.3.3-slave/delayOffset.json":     pair,
		"5.3.3-slave/delayOffset.json.bak": pair, // the master's answer, on one line
		"4.9.7/delayOffset.json":           {Table: map[int32]int64{}},
		"5.5.0-classes/delayOffset.json":   {Version: progress.DataVersion{Timestamp: 1796013509266}, Table: map[int32]int64{1: 10, 18: 1<<53 + 1}},
	} {
		if d, _, err := progress.LoadDelayOffsets("testdata/" + path); err != nil || !reflect.DeepEqual(d, want) {
			t.Errorf("%s: %+v, %v", path, d, err)
		}
	}
}

// TestOldForms reads what 4.9 writes, on one line and with quoted keys, as another writer
// of JSON would.
func TestOldForms(t *testing.T) {
	for _, text := range []string{
		`{"offsetTable":{"T@g":{0:10,1:20}}}`, `{"offsetTable":{"T@g":{"0":10,"1":20}}}`, ` { "offsetTable" : { "T\u0040g" : { "0" : 10 , 1 : 20 } } } `,
		"{\n\t\"offsetTable\":{\n\t\t\"T@g\":{0:10,1:20\n\t\t}\n\t}\n}", `{"offsetTable":{"T@g":{1:20,0:10}},"dataVersion":null}`,
	} {
		o, from, err := progress.LoadOffsets(put(t, "x", map[string]string{"x": text}))
		want := &progress.Offsets{Table: map[progress.Key]map[int32]int64{"T@g": {0: 10, 1: 20}}}
		if err != nil || !reflect.DeepEqual(o, want) || from.LeftOut != 0 {
			t.Errorf("%s: %+v %+v %v", text, o, from, err)
		}
	}
	ts, _, err := progress.LoadTopics(put(t, "x", map[string]string{"x": `{"topicConfigTable":{"T":{"attributes":null,"new":{1:[2]},"perm":4,"newer":"}"}},"new":[{0:1}]}`}))
	if err != nil {
		t.Fatal(err)
	}
	want := progress.Topic{Perm: 4, ReadQueues: 16, WriteQueues: 16, FilterType: "SINGLE_TAG", Rest: progress.Members(`{"new":{"1":[2]},"newer":"}"}`)}
	if !reflect.DeepEqual(ts.Table["T"], want) || string(ts.Rest) != `{"new":[{"0":1}]}` {
		t.Errorf("%+v", ts)
	}
}

// TestBadContent gives each kind of file what it must refuse, with the byte at fault marked
// by a § that is taken out first.
func TestBadContent(t *testing.T) {
	for kind, texts := range map[string][]string{
		"consumerOffset.json": {
			// Numbers.
			`{"offsetTable":{"T@g":{0:§9223372036854775808}}}`, `{"offsetTable":{"T@g":{0:§-9223372036854775809}}}`, `{"offsetTable":{"T@g":{0:1,§9223372036854775808:1}}}`,
			`{"offsetTable":{"T@g":{0:1,1:2,§2147483648:1}}}`, `{"offsetTable":{"T@g":{§-2147483649:1}}}`, `{"offsetTable":{"T@g":{0:§1.5}}}`, `{"offsetTable":{"T@g":{0:§1.0}}}`,
			`{"offsetTable":{"T@g":{0:§1e3}}}`, `{"offsetTable":{"T@g":{0:§-0}}}`, `{"offsetTable":{"T@g":{§-0:1}}}`, `{"offsetTable":{"T@g":{§00:1}}}`, `{"offsetTable":{"T@g":{§"+1":1}}}`,
			`{"offsetTable":{"T@g":{§"":1}}}`, `{"offsetTable":{"T@g":{§"x":1}}}`, `{"offsetTable":{"T@g":{§" 1":1}}}`, `{"offsetTable":{"T@g":{0:§` + strings.Repeat("9", 1000) + `}}}`,
			// Types: nothing else may become an offset, least of all 0.
			`{"offsetTable":{"T@g":{0:§null}}}`, `{"offsetTable":{"T@g":{0:§"7"}}}`, `{"offsetTable":{"T@g":{0:§true}}}`, `{"offsetTable":{"T@g":{0:§{}}}}`, `{"offsetTable":{"T@g":{0:§[]}}}`,
			`{"offsetTable":{"T@g":§null}}`, `{"offsetTable":{"T@g":§7}}`, `{"offsetTable":{"T@g":§[1,2]}}`, `{"offsetTable":§[]}`, `{"offsetTable":§7}`,
			`§{"offsetTable":null}`, `§{}`, `§null`, `§7`, ` §[]`, `§{"OffsetTable":{}}`, `§{"dataVersion":{"counter":1}}`, `§"offsetTable"`,
			// Names.
			`{"offsetTable":{"T@g":{0:1},§"Tg":{0:1}}}`, `{"offsetTable":{§"":{}}}`, `{"offsetTable":{"T@g":{0:1},§"T@g":{0:2}}}`, `{"offsetTable":{"T@g":{},§"T\u0040g":{}}}`,
			`{"offsetTable":{"T@g":{0:1,1:1,§0:2}}}`, `{"offsetTable":{"T@g":{0:1,§"0":1}}}`, `{"offsetTable":{},§"offsetTable":{"T@g":{0:1}}}`, `{"x":1,"offsetTable":{},§"x":2}`,
			`{"offsetTable":{"A@g":{0:1},"B@g":{§"$ref":"$.offsetTable.A@g"}}}`, "{\"offsetTable\":{§\"T\xff@g\":{0:1}}}",
			// The version.
			`{"offsetTable":{},"dataVersion":§7}`, `{"offsetTable":{},"dataVersion":{"counter":§"1"}}`, `{"offsetTable":{},"dataVersion":{"counter":1,§"counter":1}}`,
			`{"offsetTable":{},"dataVersion":{"timestamp":§9223372036854775808}}`,
		},
		"topics.json": {
			`§{}`, `§{"topicConfigTable":null}`, `{"topicConfigTable":{"T":§null}}`, `{"topicConfigTable":{"T":§"x"}}`, `{"topicConfigTable":{"T":{},§"T":{}}}`,
			`{"topicConfigTable":{"T":{"perm":§-1}}}`, `{"topicConfigTable":{"T":{"perm":§2147483648}}}`, `{"topicConfigTable":{"T":{"perm":6,§"perm":6}}}`,
			`{"topicConfigTable":{"T":{"readQueueNums":§-4}}}`, `{"topicConfigTable":{"T":{"writeQueueNums":§4.5}}}`, `{"topicConfigTable":{"T":{"order":§0}}}`,
			`{"topicConfigTable":{"T":{"order":§"true"}}}`, `{"topicConfigTable":{"T":{"topicFilterType":§0}}}`, `{"topicConfigTable":{"T":{"topicName":§"U"}}}`,
			`{"topicConfigTable":{"T":{"topicSysFlag":§[]}}}`, `{"topicConfigTable":{"T":{"attributes":§[]}}}`, `{"topicConfigTable":{"T":{"attributes":{"a":§1}}}}`,
			`{"topicConfigTable":{"T":{"attributes":{"a":"b",§"a":"c"}}}}`, `{"topicConfigTable":{"T":{"attributes":{§"$ref":"$.topicConfigTable.U.attributes"}}}}`,
		},
		"subscriptionGroup.json": {
			`§{}`, `{"subscriptionGroupTable":§[]}`, `{"subscriptionGroupTable":{"g":{},§"g":{}}}`, `{"subscriptionGroupTable":{"g":{"groupName":§"h"}}}`,
			`{"subscriptionGroupTable":{"g":{"consumeEnable":§1}}}`, `{"subscriptionGroupTable":{"g":{"brokerId":§9223372036854775808}}}`,
			`{"subscriptionGroupTable":{"g":{"retryQueueNums":§-1}}}`, `{"subscriptionGroupTable":{},"forbiddenTable":{"g":§7}}`,
			`{"subscriptionGroupTable":{},"forbiddenTable":{"g":{"T":§"4"}}}`, `{"subscriptionGroupTable":{},"forbiddenTable":{"g":{"T":4,§"T":4}}}`,
			`{"subscriptionGroupTable":{},"forbiddenTable":{"g":{},§"g":{}}}`,
		},
		"delayOffset.json": {
			`§{}`, `{"offsetTable":{§0:1}}`, `{"offsetTable":{1:1,§-1:1}}`, `{"offsetTable":{1:5,§2:-1}}`, `{"offsetTable":{1:5,2:6,§1:5}}`, `{"offsetTable":{1:§null}}`,
			`{"offsetTable":{§9223372036854775808:1}}`, `{"offsetTable":{1:§9223372036854775808}}`,
		},
	} {
		for _, marked := range texts {
			at := strings.Index(marked, "§")
			text := strings.Replace(marked, "§", "", 1)
			path := put(t, kind, map[string]string{kind: text})
			v, _, err := kinds[kind](path)
			var damage *message.DamageError
			if v != nil || !errors.As(err, &damage) || !errors.Is(err, progress.ErrContent) || !errors.Is(err, progress.ErrNoGoodCopy) {
				t.Errorf("%s: %v, %v", text, v, err)
				continue
			}
			if damage.File != path || damage.Offset != int64(at) || len(err.Error()) > 600+2*len(path) {
				t.Errorf("%s: %v, want byte %d", marked, err, at)
			}
		}
	}
}

func TestWhichCopy(t *testing.T) {
	const good, older, bad = `{"offsetTable":{"T@g":{0:10,1:20}}}`, `{"offsetTable":{"T@g":{0:9}}}`, `{"offsetTable":{"T@g":{0:1`
	stale := `{"offsetTable":{}}` + good[len(`{"offsetTable":{}}`):] // shorter text over a longer one
	for _, c := range []struct {
		name        string
		main, spare string // "none" is no file
		offset      int64  // of queue 0; −1 for an error
		why         error  // why the spare was used, or what the error is
	}{
		{"good, good", good, older, 10, nil},
		{"good, bad", good, bad, 10, nil},
		{"good, none", good, "none", 10, nil},
		{"none, good", "none", older, 9, fs.ErrNotExist},
		{"empty, good", "", older, 9, progress.ErrEmpty},
		{"cut, good", bad, older, 9, progress.ErrNotJSON},
		{"spaces, good", " \n", older, 9, progress.ErrNotJSON},
		{"zeros, good", strings.Repeat("\x00", 4096), older, 9, progress.ErrNotJSON},
		{"zeros behind, good", good + "\x00\x00", older, 9, progress.ErrNotJSON},
		{"stale tail, good", stale, older, 9, progress.ErrNotJSON},
		{"other content, good", `{"topicConfigTable":{}}`, older, 9, progress.ErrContent},
		{"nothing in it, good", `{}`, older, 9, progress.ErrContent},
		{"null, good", `null`, older, 9, progress.ErrContent},
		{"bad, bad", bad, stale, -1, progress.ErrNoGoodCopy},
		{"empty, empty", "", "", -1, progress.ErrNoGoodCopy},
		{"empty, none", "", "none", -1, progress.ErrNoGoodCopy},
		{"none, empty", "none", "", -1, progress.ErrNoGoodCopy},
		{"none, bad", "none", bad, -1, progress.ErrNoGoodCopy},
		{"none, none", "none", "none", -1, fs.ErrNotExist},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{}
			if c.main != "none" {
				files["f.json"] = c.main
			}
			if c.spare != "none" {
				files["f.json.bak"] = c.spare
			}
			path := put(t, "f.json", files)
			o, from, err := progress.LoadOffsets(path)
			if c.offset < 0 {
				if o != nil || !errors.Is(err, c.why) || !strings.Contains(err.Error(), path+" ") && !strings.Contains(err.Error(), path+":") ||
					!strings.Contains(err.Error(), path+".bak") {
					t.Fatal(o, err)
				}
				// "There is nothing" and "there is nothing good" lead to opposite decisions.
				if errors.Is(err, fs.ErrNotExist) == errors.Is(err, progress.ErrNoGoodCopy) {
					t.Error("of two classes:", err)
				}
				return
			}
			if err != nil || o.Table["T@g"][0] != c.offset {
				t.Fatal(o, err)
			}
			want := path
			if c.why != nil {
				want += ".bak"
			}
			if from.Path != want || !errors.Is(from.Why, c.why) || !strings.HasPrefix(from.String(), want) ||
				c.why != nil && !strings.Contains(from.String(), from.Why.Error()) {
				t.Errorf("%+v", from)
			}
		})
	}
}

// TestUnknownIsNotBad keeps the older copy from being used when nobody knows what is in
// the file.
func TestUnknownIsNotBad(t *testing.T) {
	path := put(t, "f.json", map[string]string{"f.json.bak": `{"offsetTable":{}}`})
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	o, _, err := progress.LoadOffsets(path)
	if o != nil || err == nil || !strings.Contains(err.Error(), path+": not a regular file") || errors.Is(err, fs.ErrNotExist) || errors.Is(err, message.ErrDamaged) {
		t.Error(o, err)
	}
	if os.Getuid() != 0 { // root may read everything
		path := put(t, "f.json", map[string]string{"f.json": `{"offsetTable":{}}`, "f.json.bak": `{"offsetTable":{}}`})
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
		if o, _, err := progress.LoadOffsets(path); o != nil || !errors.Is(err, fs.ErrPermission) {
			t.Error(o, err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	path := put(t, "f.json", map[string]string{"f.json": `{"offsetTable":{}}`, "f.json.bak": `{"offsetTable":{"T@g":{0:9}}}`})
	if err := os.Truncate(path, progress.MaxFileSize+1); err != nil {
		t.Skip("no sparse file:", err)
	}
	o, from, err := progress.LoadOffsets(path)
	if err != nil || o.Table["T@g"][0] != 9 || !errors.Is(from.Why, progress.ErrTooLarge) || !strings.Contains(from.String(), "134217728") {
		t.Error(o, from, err)
	}
}

// TestCutAnywhere cuts every real file at every byte: a part is never taken for the whole,
// and the spare copy of a small one always is.
func TestCutAnywhere(t *testing.T) {
	for kind, load := range kinds {
		for _, path := range real(t, kind) {
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want, _, err := load(path)
			if err != nil {
				t.Fatal(err)
			}
			files := map[string]string{kind: string(whole)}
			small := len(whole) < 1000
			if small {
				files[kind+".bak"] = string(whole)
			}
			main := put(t, kind, files)
			for n := len(whole) - 1; n >= 0; n-- {
				if err := os.Truncate(main, int64(n)); err != nil {
					t.Fatal(err)
				}
				got, from, err := load(main)
				bad := err
				if small {
					if err != nil || from.Path != main+".bak" || !reflect.DeepEqual(got, want) {
						t.Fatalf("%s cut at %d: %v %v", path, n, from, err)
					}
					bad = from.Why
				} else if got != nil || !errors.Is(err, progress.ErrNoGoodCopy) {
					t.Fatalf("%s cut at %d: %v %v", path, n, got, err)
				}
				var damage *message.DamageError
				if !errors.As(bad, &damage) || damage.File != main || damage.Offset < 0 || damage.Offset > int64(n) {
					t.Fatalf("%s cut at %d: %v", path, n, bad)
				}
			}
		}
	}
}

// TestFlippedBytes changes single bytes of real files. Many changes cannot be seen (a digit
// of an offset); none may panic, and none may lose an entry in silence.
func TestFlippedBytes(t *testing.T) {
	const path = "testdata/4.9.7-classes/consumerOffset.json"
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	count := func(o *progress.Offsets, from progress.Origin) int {
		n := from.LeftOut
		for _, queues := range o.Table {
			n += 1 + len(queues)
		}
		return n
	}
	o, from, err := progress.LoadOffsets(path)
	if err != nil {
		t.Fatal(err)
	}
	want := count(o, from)
	refused := 0
	main := put(t, "f.json", map[string]string{"f.json": string(whole)})
	f, err := os.OpenFile(main, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range whole {
		for _, b := range []byte{0, ' ', '"', ',', ':', '{', '}', '-', '0', '9', 'n', '\\', whole[i] ^ 1, whole[i] ^ 0x80} {
			if _, err := f.WriteAt([]byte{b}, int64(i)); err != nil {
				t.Fatal(err)
			}
			o, from, err := progress.LoadOffsets(main)
			if err != nil {
				refused++
				continue
			}
			// "0:1,1:2" can become "0:1912": that is a whole number of one entry less.
			if n := count(o, from); n != want && !(n == want-1 && b >= '0' && b <= '9') {
				t.Errorf("byte %d as %q: %d entries instead of %d: %v", i, b, n, want, o.Table)
			}
		}
		if _, err := f.WriteAt(whole[i:i+1], int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}
