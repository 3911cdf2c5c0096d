// Package progress is what a broker knows beside its messages: how far each consumer group
// has got, which topics and groups there are, and how far delayed messages have been
// delivered.
//
// This half reads the files in which RocketMQ keeps it. It may touch the files that it is
// named and their spare copies, and only to read them. It logs nothing, keeps nothing and
// starts no goroutine; everything in it may be called concurrently.
//
// # The files
//
//	config/consumerOffset.json                       [LoadOffsets]
//	  dataVersion        {counter, stateVersion, timestamp}; not in 4.9
//	  groupTopicMap      group → topics; derived, not read; not in 4.9
//	  offsetTable        "topic@group" → queue id → next offset to consume
//	  pullOffsetTable    like offsetTable; 5.5, kept as it is
//
//	config/topics.json                               [LoadTopics]
//	  dataVersion
//	  topicConfigTable   topic → {attributes, order, perm, readQueueNums, topicFilterType,
//	                              topicName, topicSysFlag, writeQueueNums}; attributes not in 4.9
//
//	config/subscriptionGroup.json                    [LoadGroups]
//	  dataVersion
//	  forbiddenTable     group → topic → bits; not in 4.9
//	  subscriptionGroupTable  group → {groupName, consumeEnable, …}: see [Group]
//
//	config/delayOffset.json                          [LoadDelayOffsets]
//	  dataVersion        not in 4.9
//	  offsetTable        delay level, from 1 → next offset in queue level − 1
//
// All are JSON in fastjson's dialect, see internal/fastjson. The writers are
// ConsumerOffsetManager, TopicConfigManager, SubscriptionGroupManager and
// ScheduleMessageService of RocketMQ.
//
// # Which copy
//
// Every RocketMQ leaves moments in which X is missing, empty or half written, and keeps
// the text before in X.bak:
//
//	X      X.bak      result
//	good   any        X
//	bad    good       X.bak, and [Origin] says why
//	bad    bad, none  [ErrNoGoodCopy], both named
//	none   good       X.bak, and [Origin] says why
//	none   bad        [ErrNoGoodCopy], both named
//	none   none       [fs.ErrNotExist]: a new store, or the wrong directory
//
// Good is a file that was read to its end and means something in every entry. Nothing is
// taken from a file that is not, so half a table cannot pass for a whole one. A file that
// is there and cannot be read (permission, a failing disk) is not bad but unknown: X's
// error is returned and the older copy is not used behind the caller's back. RocketMQ
// differs: it takes X.bak then too; where X is bad and X.bak empty or missing, or X is {},
// it starts with nothing; and 5.5 deletes a bad X (ConfigManager).
//
// # What an entry may be
//
// Integers are written as Java writes them and fit the Java type; negative ones are refused
// where they mean nothing. A name that comes twice, a missing table, a value of another
// type: the file is bad, at a byte that the error tells. A null counts as an absent member,
// but is never an entry of a table. Members that are not known here are kept
// ([Members]). The one thing that is passed over is what a broker stores unchecked from its
// clients, see [Offsets].
package progress
