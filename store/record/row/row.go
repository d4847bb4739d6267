// Package row is shared by the backends of package record whose server keeps a name in one row of a table, and a
// session in one row of another: the version of a record and its inbox, the end of a session, sweeps, and the
// findings for operators. It is for the stores of this project, and unstable: it may change in any release.
package row

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

const (
	// MaxRecord is the largest size of a record in bytes, enough for some 10,000 entries.
	MaxRecord = 1 << 20
	// MaxInbox is the size in bytes at which an inbox takes no more notes.
	MaxInbox = 1 << 20
	// Page is how many rows one request lists.
	Page = 500
)

// The Version of a record is a number that each swap draws at random, and how many bytes of notes swaps had taken in
// by then. The Version of a note is where it begins and ends among all notes that the name ever had.
type Version struct {
	Rev   int64 // drawn by the swap; of a note where it begins
	Taken int64 // bytes of notes; of a note where it ends
}

// String returns the version as text, for a record or a note.
func (v Version) String() string {
	return strconv.FormatInt(v.Rev, 10) + "-" + strconv.FormatInt(v.Taken, 10)
}

// Parse is the inverse of String. It returns the zero Version for "".
func Parse(text string) (v Version) {
	_, _ = fmt.Sscanf(text, "%d-%d", &v.Rev, &v.Taken)
	return v
}

// A Row is the row of a name.
type Row struct {
	Form int64 // of the stored form
	Version
	Data  []byte // of the record
	Inbox []byte // the notes that no swap has taken in
}

// Record returns the row as a record. It is an error if the row's form is not form, the newest. Now is left out.
func (r *Row) Record(form int64) (record.Record, error) {
	notes, err := Unpack(r.Taken, r.Inbox)
	return record.Record{Data: r.Data, Version: r.Version.String(), Inbox: notes}, CheckForm(r.Form, form, err == nil)
}

// CheckForm returns an error for a row of another form than the newest, or one that is damaged (not whole).
func CheckForm(have, form int64, whole bool) error {
	switch {
	case have > form:
		return store.NewerFormError("its row", int(have), int(form))
	case !whole || have != form:
		return fmt.Errorf("%w: its row was not written by holdfast, or is damaged: it was not changed; delete it, and its notes, if nothing else uses it", store.ErrCorrupt)
	}
	return nil
}

// The inbox is a zero byte, so that it is never empty, and then the notes that were not taken in: key and data of
// each, preceded by their lengths.

// Empty is an inbox without notes.
var Empty = []byte{0}

// Pack returns what a join appends to an inbox.
func Pack(notes []record.Note) (out []byte) {
	for i := range notes {
		out = binary.AppendUvarint(out, uint64(len(notes[i].Key)))
		out = append(out, notes[i].Key...)
		out = binary.AppendUvarint(out, uint64(len(notes[i].Data)))
		out = append(out, notes[i].Data...)
	}
	return out
}

// Unpack returns the notes of an inbox. taken is how many bytes swaps had taken in before.
func Unpack(taken int64, inbox []byte) (notes []record.Note, err error) {
	if len(inbox) == 0 {
		return nil, store.ErrCorrupt
	}
	rest := inbox[1:]
	for len(rest) > 0 {
		from := taken + int64(len(inbox)-1-len(rest))
		var parts [2][]byte
		for i := range parts {
			n, used := binary.Uvarint(rest)
			if used <= 0 || n > uint64(len(rest)-used) {
				return nil, store.ErrCorrupt
			}
			parts[i], rest = rest[used:used+int(n)], rest[used+int(n):]
		}
		to := taken + int64(len(inbox)-1-len(rest))
		notes = append(notes, record.Note{Key: string(parts[0]), Data: parts[1], Version: Version{from, to}.String()})
	}
	return notes, nil
}

// A Change is what a swap makes of a row. Joins only append to an inbox, and swaps only remove from its beginning.
// So if the old version is current, the notes to take in exist, and no others are removed.
type Change struct {
	First bool    // no record may exist
	Old   Version // otherwise this version must be current; no row has -1
	New   Version // the version after the swap
	Cut   int64   // bytes of the inbox to replace by Empty: the zero byte and the notes taken in
}

// NewChange returns the change of a swap, and draws the new version.
func NewChange(old *record.Record) Change {
	c := Change{First: old.Version == "", Old: Parse(old.Version), New: Version{Rev: rand.Int64()>>1 | 1}}
	c.New.Taken = c.Old.Taken
	for i := range old.Inbox {
		note := Parse(old.Inbox[i].Version)
		if note.Rev != c.New.Taken { //mutant:row-note-is-there
			c.First, c.Old.Rev = false, -1
		}
		c.New.Taken = note.Taken
	}
	c.Cut = 1 + c.New.Taken - c.Old.Taken
	return c
}

// Done returns the outcome of a done swap. left is the size of the inbox after it, in bytes, without Empty.
func (c *Change) Done(left int64) record.Outcome {
	out := record.Outcome{Done: true, Current: true, Inbox: left == 0} //mutant:row-inbox-is-empty
	out.Now.Version = c.New.String()
	return out
}

// Tick is the resolution of the time of the last write, in microseconds: a 24th of the retention. It is coarse
// because there is an index on that time.
func Tick(retention time.Duration) int64 { return max(retention.Microseconds()/24, 1) }
