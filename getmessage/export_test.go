package getmessage

import "github.com/warmlog/warmlog/message"

// Fill makes a batch what a Get does that found records, whose memory held keeps.
func (b *Batch) Fill(records []message.View, held Ref) {
	b.reset()
	b.Status = Found
	b.refs = append(b.refs, held)
	b.records = append(b.records, records...)
	for i := range records {
		b.Bytes += int64(records[i].Size())
	}
}
