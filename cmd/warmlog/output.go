package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/warmlog/warmlog/message"
)

// messageJSON is a message as every command prints it.
type messageJSON struct {
	Topic          string            `json:"topic"`
	Queue          int32             `json:"queue"`
	QueueOffset    int64             `json:"queueOffset"`
	PhysicalOffset int64             `json:"physicalOffset"`
	Size           int32             `json:"size"`
	Flag           int32             `json:"flag"`
	SysFlag        int32             `json:"sysFlag"`
	BornTimestamp  int64             `json:"bornTimestamp"`
	StoreTimestamp int64             `json:"storeTimestamp"`
	BornHost       string            `json:"bornHost"`
	StoreHost      string            `json:"storeHost"`
	BodyCRC        uint32            `json:"bodyCRC"`
	BodyLen        int               `json:"bodyLen"`
	BodySHA256     string            `json:"bodySHA256"`
	Tags           *string           `json:"tags"`
	Keys           *string           `json:"keys"`
	MsgID          string            `json:"msgId"`
	Properties     map[string]string `json:"properties"`
	BodyBase64     *string           `json:"bodyBase64,omitempty"`
}

// messageLine makes a printable copy of a record. withBody adds the stored body.
func messageLine(v *message.View, withBody bool) *messageJSON {
	sum := sha256.Sum256(v.Body())
	m := &messageJSON{
		Topic: message.JavaString(v.Topic()), Queue: v.QueueID(), QueueOffset: v.QueueOffset(), PhysicalOffset: v.PhysicalOffset(),
		Size: v.Size(), Flag: v.Flag(), SysFlag: v.SysFlag(), BornTimestamp: v.BornTimestamp(), StoreTimestamp: v.StoreTimestamp(),
		BornHost: message.HostString(v.BornHost()), StoreHost: message.HostString(v.StoreHost()),
		BodyCRC: v.BodyCRC(), BodyLen: len(v.Body()), BodySHA256: hex.EncodeToString(sum[:]), MsgID: v.ID(), Properties: v.Properties().Map(),
	}
	m.Tags, m.Keys = optional(v.Property(message.PropTags)), optional(v.Property(message.PropKeys))
	if withBody {
		body := base64.StdEncoding.EncodeToString(v.Body())
		m.BodyBase64 = &body
	}
	return m
}

func optional(b []byte) *string {
	if b == nil {
		return nil
	}
	s := message.JavaString(b)
	return &s
}

// damageJSON is a damage as every command prints it.
type damageJSON struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Kind   string `json:"kind"`
	Text   string `json:"text"`
}

func damageLine(d *message.DamageError) damageJSON {
	return damageJSON{d.File, d.Offset, message.KindName(d), d.Err.Error()}
}

// writeJSON writes one object as a line.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// printf prints text for people; that the output is gone shows when it is flushed.
func printf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
