package message

import (
	"bytes"
	"fmt"
	"hash/crc32"
)

// PropCRCSize is what the whole-record checksum takes at the end of the properties: the
// name, 0x01, ten digits, 0x02.
const PropCRCSize = len(PropCRC) + 1 + propCRCDigits + 1

const propCRCDigits = 10

// BodyCRC returns the checksum that a record stores of its body: CRC-32 (IEEE) with the
// top bit cleared. Source: UtilAll.crc32.
func BodyCRC(body []byte) uint32 { return crc32.ChecksumIEEE(body) & 0x7FFFFFFF }

// Check compares the body with its checksum and, where the properties end with one, the
// whole record with the checksum there. It reads every byte of the body. The error is
// [ErrBodyCRC] or [ErrPropCRC].
func (v *View) Check() error {
	// RocketMQ writes 0 for no body, which is also the CRC-32 of nothing.
	if BodyCRC(v.Body()) != v.BodyCRC() {
		return ErrBodyCRC
	}
	if sum, ok := v.propCRC(); ok {
		if crc32.ChecksumIEEE(v.raw[:len(v.raw)-PropCRCSize])&0x7FFFFFFF != sum {
			return ErrPropCRC
		}
	}
	return nil
}

// CheckAt is [View.Check] and that the record lies where it says: pos is its position in
// the commit log. A record left over from another place has the right checksum but the
// wrong offset: the error is [ErrMisplaced].
func (v *View) CheckAt(pos int64) error {
	if err := v.At(pos); err != nil {
		return err
	}
	return v.Check()
}

// Torn reports whether the record may be one of which not every byte was written: it has
// zero bytes in its topic or properties, where no checksum covers them. What another engine
// wrote may have some there too.
func (v *View) Torn() bool {
	if _, ok := v.propCRC(); ok {
		return false // covered: see Check
	}
	return bytes.IndexByte(v.Topic(), 0) >= 0 || bytes.IndexByte(v.Properties(), 0) >= 0
}

// At compares the physical offset in the record with where it lies. The error is an
// [ErrMisplaced] that names both.
func (v *View) At(pos int64) error {
	if found := v.PhysicalOffset(); found != pos {
		return &misplacedError{found, pos}
	}
	return nil
}

// misplacedError is not made by fmt.Errorf: a search for sound records meets many.
type misplacedError struct{ found, want int64 }

func (e *misplacedError) Error() string {
	return fmt.Sprintf("%v: %d, expected %d", ErrMisplaced, e.found, e.want)
}

func (e *misplacedError) Unwrap() error { return ErrMisplaced }

// propCRC reads the checksum at the end of the properties: decimal digits, the least
// significant first, padded with zeros. Source: CommitLog.appendMessage (enabledAppendPropCRC).
//
// Nothing else says whether a record has one, so that a tail which is one but for a byte or
// two is taken for one that is damaged: ok, and a sum that no record has.
func (v *View) propCRC() (sum uint32, ok bool) {
	const none, damaged, most = 0, 0xFFFFFFFF, 0x7FFFFFFF
	p := v.Properties()
	if len(p) < PropCRCSize {
		return none, false
	}
	p = p[len(p)-PropCRCSize:]
	wrong := 0
	for i, c := range []byte(PropCRC + "\x01") {
		if p[i] != c {
			wrong++
		}
	}
	if p[PropCRCSize-1] != valueEnd {
		wrong++
	}
	n := uint64(0)
	digits := p[len(PropCRC)+1 : PropCRCSize-1]
	for i := len(digits) - 1; i >= 0; i-- {
		if digits[i] < '0' || digits[i] > '9' {
			wrong++
		}
		n = n*10 + uint64(digits[i]-'0')
	}
	switch {
	case wrong > 2:
		return none, false
	case wrong > 0 || n > most:
		return damaged, true
	}
	return uint32(n), true
}

// putPropCRC fills the reserved tail of a finished record. The record ends with
// PropCRCSize bytes of properties that belong to the checksum.
func putPropCRC(rec []byte) {
	body := rec[:len(rec)-PropCRCSize]
	tail := rec[len(body):]
	sum := crc32.ChecksumIEEE(body) & 0x7FFFFFFF
	n := copy(tail, PropCRC)
	tail[n] = nameEnd
	for i := range propCRCDigits {
		tail[n+1+i] = byte('0' + sum%10)
		sum /= 10
	}
	tail[PropCRCSize-1] = valueEnd
}
