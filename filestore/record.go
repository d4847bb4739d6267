package filestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// A state file has two slots, each for one record. The valid record with the higher
// sequence number is the state; the next record is written over the other one. So a
// process killed while it writes leaves either the old state or the new one.
//
// The beginnings of both slots share the first page of the file, and an idle name has
// only this page. The rest of a long record is far behind it.
const (
	slots   = 2
	page    = 4096 // the smallest unit that file systems allocate
	near    = page / slots
	longest = 1 << 20 // the limit for all records

	// A record is a head and a body. The head is the magic, the CRC-32C of everything after
	// the CRC, the version of the format, the length of the body, and the sequence number.
	// The head is the same in all versions, so an error can name a newer version.
	magic    = "holdfast"
	version  = 2
	headSize = len(magic) + 4 + 4 + 4 + 8

	// The body of version 2 is the name and the boot id (each after its length in two bytes),
	// the newest token, the number of entries, and the entries. All numbers are
	// little-endian. Version 1 was never released.
	entryFixed = 16 + 5*4 + 1 + 6*8 + 2 + 2 + 2
)

// mostFor returns the maximum length of a record with so many entries. Owners and reasons
// count with their maximum length, so renewals and breaks never exceed it.
func mostFor(name, boot string, entries int) int {
	return headSize + 2 + len(name) + 2 + len(boot) + 8 + 4 + entries*(entryFixed+store.MaxOwner+queue.MaxBroken+store.MaxReason) //mutant:file-room-of-entries
}

// roomFor returns how much space to reserve in each slot for a record with so many entries:
// the slot's part of the first page, plus whole pages.
func roomFor(name, boot string, entries int) int {
	more := (max(mostFor(name, boot, entries)-near, 0) + page - 1) / page * page
	return min(near+more, longest)
}

// place returns the offset in the file of byte i of a slot, and how many bytes of the slot
// are contiguous from there.
func place(slot, i int) (at int64, follow int) {
	if i < near {
		return int64(slot*near + i), near - i
	}
	return int64((slot+1)*longest + i - near), longest - i
}

// The flags of an entry.
const (
	flagGranted = 1 << iota
	flagShown
	noFlag // the first one unknown to version 2
)

// castagnoli makes the table on first use, because that takes longer than everything else
// that runs before main.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// errBadRecord means that bytes are not a record, or are a torn one.
var errBadRecord = errors.New("not a valid record")

// A versionError means that the record is valid but in a newer format.
type versionError int

func (v versionError) Error() string { return fmt.Sprintf("form %d", int(v)) }

// A head is the beginning of a record.
type head struct {
	crc     uint32
	version uint32
	length  int // of the body
	seq     uint64
}

// parseHead reads the head of a record. The body need not be complete.
func parseHead(b []byte) (h head, ok bool) {
	if len(b) < headSize || string(b[:len(magic)]) != magic {
		return h, false
	}
	b = b[len(magic):]
	h.crc = binary.LittleEndian.Uint32(b)
	h.version = binary.LittleEndian.Uint32(b[4:])
	length := binary.LittleEndian.Uint32(b[8:])
	h.seq = binary.LittleEndian.Uint64(b[12:])
	h.length = int(length)
	return h, length <= longest-uint32(headSize)
}

// appendRecord appends the record of a queue to b.
func appendRecord(b []byte, seq uint64, name, boot string, q *queue.Queue) []byte {
	start := len(b)
	le := binary.LittleEndian
	b = append(b, magic...)
	b = le.AppendUint32(b, 0) // the CRC
	b = le.AppendUint32(b, version)
	b = le.AppendUint32(b, 0) // the length
	b = le.AppendUint64(b, seq)
	b = appendString(b, name)
	b = appendString(b, boot)
	b = le.AppendUint64(b, uint64(q.Last))
	b = le.AppendUint32(b, uint32(len(q.Entries)))
	for i := range q.Entries {
		e := &q.Entries[i]
		b = append(b, e.ID[:]...)
		for _, n := range [...]uint32{uint32(e.Limit), uint32(e.Weight), uint32(e.Want), uint32(e.Turn), uint32(e.N)} {
			b = le.AppendUint32(b, n)
		}
		var flags byte
		if e.Granted {
			flags |= flagGranted
		}
		if e.Shown {
			flags |= flagShown
		}
		b = append(b, flags)
		for _, n := range [...]int64{e.Token, e.UpgradeToken, e.Since, e.Expires, e.MinHold, e.LockDelay} {
			b = le.AppendUint64(b, uint64(n))
		}
		b = appendString(b, e.Stored())
		b = appendString(b, e.Owner)
		b = appendString(b, e.Asks())
	}
	rec := b[start:]
	le.PutUint32(rec[len(magic)+8:], uint32(len(rec)-headSize))
	le.PutUint32(rec[len(magic):], crc32.Checksum(rec[len(magic)+4:], castagnoli()))
	return b
}

// appendString appends a string that is known to be shorter than 64 KiB.
func appendString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

// parseRecord parses a complete record into q, and may overwrite q.Entries. It validates
// everything: if there is no error, the result is safe to use.
func parseRecord(b []byte, q *queue.Queue) (name, boot []byte, err error) {
	h, ok := parseHead(b)
	if !ok || len(b) < headSize+h.length {
		return nil, nil, errBadRecord
	}
	b = b[:headSize+h.length]
	if crc32.Checksum(b[len(magic)+4:], castagnoli()) != h.crc {
		return nil, nil, errBadRecord
	}
	if h.version > version {
		return nil, nil, versionError(h.version)
	}
	if h.version < version {
		return nil, nil, errBadRecord
	}
	r := reader{b: b[headSize:]}
	name, boot = r.string(), r.string()
	q.Last = int64(r.u64())
	count := int(r.u32())
	if r.bad || count > len(r.b)/entryFixed || q.Last < 0 {
		return nil, nil, errBadRecord
	}
	if cap(q.Entries) < count {
		q.Entries = make([]queue.Entry, 0, count+1)
	}
	q.Entries = q.Entries[:0]
	for range count {
		var e queue.Entry
		r.entry(&e)
		if e.Weight < 1 || e.Limit < e.Weight || e.Limit > store.Full || e.Granted && e.Token < 1 {
			return nil, nil, errBadRecord
		}
		q.Entries = append(q.Entries, e)
	}
	if r.bad || len(r.b) > 0 {
		return nil, nil, errBadRecord
	}
	return name, boot, nil
}

// A reader takes fields off the front of b. If bytes are missing, it becomes bad and
// returns zero fields.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return make([]byte, n)
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) u16() uint16    { return binary.LittleEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32    { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64    { return binary.LittleEndian.Uint64(r.take(8)) }
func (r *reader) string() []byte { return r.take(int(r.u16())) }

func (r *reader) entry(e *queue.Entry) {
	e.ID = store.ID(r.take(len(e.ID)))
	for _, n := range [...]*int32{&e.Limit, &e.Weight, &e.Want, &e.Turn} {
		*n = int32(r.u32())
	}
	n := r.u32()
	r.bad = r.bad || n > math.MaxUint16
	e.N = uint16(n)
	flags := r.take(1)[0]
	r.bad = r.bad || flags >= noFlag
	e.Granted, e.Shown = flags&flagGranted != 0, flags&flagShown != 0
	for _, n := range [...]*int64{&e.Token, &e.UpgradeToken, &e.Since, &e.Expires, &e.MinHold, &e.LockDelay} {
		*n = int64(r.u64())
	}
	if reason := string(r.string()); reason != "" {
		e.Broken = &reason
	}
	e.Owner = string(r.string())
	if reason := string(r.string()); reason != "" {
		e.GiveUp = &reason
	}
}
