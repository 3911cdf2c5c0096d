// Package message is the record of the commit log: how one message lies in it, byte for
// byte as Apache RocketMQ 4.9 to 5.5 writes it, how it is read without a copy, checked,
// and built.
//
// The package does arithmetic on bytes that it is given. It opens no file, maps nothing,
// holds no lock and starts no goroutine; everything in it may be called concurrently.
//
// # The record
//
// All integers are big-endian two's complement. B and S are 8 for an IPv4 born and store
// host and 20 for an IPv6 one, each on its own; L, T and P are the lengths of body, topic
// and properties; K is 1 in version 1 and 2 in version 2.
//
//	offset          bytes  field
//	0               4      total size, this field included
//	4               4      magic: 0xDAA320A7 (V1) or 0xDAA320AB (V2)
//	8               4      CRC-32 (IEEE) of the stored body, top bit cleared
//	12              4      queue id
//	16              4      flag, the user's own
//	20              8      queue offset (0 for prepared and rollback records)
//	28              8      physical offset: where the record itself begins
//	36              4      sysFlag: see the SysFlag constants
//	40              8      born timestamp, ms
//	48              B      born host: address, then port as 4 bytes
//	48+B            8      store timestamp, ms
//	56+B            S      store host
//	56+B+S          4      reconsume times
//	60+B+S          8      prepared transaction offset
//	68+B+S          4+L    body
//	72+B+S+L        K+T    topic
//	72+B+S+L+K+T    2+P    properties: name 0x01 value 0x02, repeated
//
// A segment that is full ends with a blank instead: the bytes left as 4 bytes, then
// 0xCBD43194. What follows those eight bytes is undefined.
//
// Source of the layout: MessageExtEncoder, CommitLog and MessageDecoder of RocketMQ.
//
// # Views
//
// [View] is a record over somebody else's bytes, such as a mapped file: decoding copies
// and allocates nothing. What an accessor returns aliases those bytes and lives exactly as
// long as they do. Bytes of a file can change underneath; accessors check what they read
// and return nothing rather than panic.
package message
