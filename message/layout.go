package message

import _ "github.com/warmlog/warmlog/internal/only64" // offsets index slices

// Magic numbers, the second 4-byte field of a record and of a blank.
const (
	MagicV1    uint32 = 0xDAA320A7 // topic length in 1 byte
	MagicV2    uint32 = 0xDAA320AB // topic length in 2 bytes
	MagicBlank uint32 = 0xCBD43194 // end of a full segment
)

// SysFlag bits. Source: MessageSysFlag and CompressionType.
const (
	SysFlagCompressed      int32 = 0x1
	SysFlagMultiTags       int32 = 0x2
	SysFlagTransactionMask int32 = 0xC
	SysFlagPrepared        int32 = 0x4
	SysFlagCommit          int32 = 0x8
	SysFlagRollback        int32 = 0xC
	SysFlagBornHostV6      int32 = 0x10
	SysFlagStoreHostV6     int32 = 0x20
	SysFlagNeedUnwrap      int32 = 0x40
	SysFlagInnerBatch      int32 = 0x80
	SysFlagCompressionMask int32 = 0x700 // 0 and 0x300 zlib, 0x100 LZ4 frame, 0x200 Zstandard
	SysFlagLZ4             int32 = 0x100
	SysFlagZstd            int32 = 0x200
	SysFlagZlib            int32 = 0x300
)

// Sizes and limits of the format, in bytes.
const (
	// BlankSize is the header of a blank. A record leaves at least this much of its
	// segment free, so that a blank always fits.
	BlankSize = 8

	// MinSize is the smallest record: V1, IPv4 hosts, no body, topic of no byte.
	MinSize = minHeader + 1 + 2

	// MaxProperties is the most that the properties of a record may take.
	MaxProperties = 32767

	// MaxTopicV1 is the longest topic of a version 1 record: its length is a signed byte.
	MaxTopicV1 = 127

	// MaxTopic is the longest topic that is accepted for storing: a queue lies in a
	// directory of the topic's name, and 255 bytes is what a directory's name may have.
	MaxTopic = 255
)

// Offsets of the fields that lie before the first host, and what the variable part adds.
const (
	atMagic         = 4
	atBodyCRC       = 8
	atQueueID       = 12
	atFlag          = 16
	atQueueOffset   = 20
	atPhysical      = 28
	atSysFlag       = 36
	atBornTimestamp = 40
	atBornHost      = 48

	hostV4 = 8
	hostV6 = 20

	// minHeader is the offset of the body of a record with two IPv4 hosts.
	minHeader = 72 + 2*hostV4

	// HeaderSize is the most that lies before the body: two IPv6 hosts.
	HeaderSize = 72 + 2*hostV6
)

// bodyAt returns the offset of the body (the byte after its length).
func bodyAt(sysFlag int32) int {
	at := minHeader
	if sysFlag&SysFlagBornHostV6 != 0 {
		at += hostV6 - hostV4
	}
	if sysFlag&SysFlagStoreHostV6 != 0 {
		at += hostV6 - hostV4
	}
	return at
}

// bornHostSize returns the bytes that the born host takes.
func bornHostSize(sysFlag int32) int {
	if sysFlag&SysFlagBornHostV6 != 0 {
		return hostV6
	}
	return hostV4
}
