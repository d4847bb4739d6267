// Package row is shared by the backends of package record whose server keeps a name in one row of a table, and a
// session in one row of another: the version of a record and its inbox, the end of a session, the sweeping, and
// the findings for operators. It is for the stores of this project, and unstable: it may change in any release.
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
	// MaxRecord is how many bytes a record may have, which is some 10,000 entries.
	MaxRecord = 1 << 20
	// MaxInbox is how many bytes an inbox has when it takes no more notes.
	MaxInbox = 1 << 20
	// Page is how many rows are listed at a time.
	Page = 500
)

// A Version of a record is a number that each swap draws at random, and how many bytes of notes swaps had taken in by
// then. That of a note is where it begins and ends among all that the name ever had.
type Version struct {
	Rev   int64 // drawn by the swap; of a note where it begins
	Taken int64 // bytes of notes; of a note where it ends
}

// String is what a record has as its version.
func (v Version) String() string {
	return strconv.FormatInt(v.Rev, 10) + "-" + strconv.FormatInt(v.Taken, 10)
}

// Parse is the opposite of String; the zero Version is that of "".
func Parse(text string) (v Version) {
	_, _ = fmt.Sscanf(text, "%d-%d", &v.Rev, &v.Taken)
	return v
}

// A Row is what a table has of a name.
type Row struct {
	Form int64 // of the stored form
	Version
	Data  []byte // of the record
	Inbox []byte // the notes that no swap has taken in
}

// Record is the row as a record, if it is of the form, which is the newest that there is. Now is left out.
func (r *Row) Record(form int64) (record.Record, error) {
	notes, err := Unpack(r.Taken, r.Inbox)
	return record.Record{Data: r.Data, Version: r.Version.String(), Inbox: notes}, CheckForm(r.Form, form, err == nil)
}

// CheckForm is the error of a row of another form than the newest. It is damaged unless whole.
func CheckForm(have, form int64, whole bool) error {
	switch {
	case have > form:
		return store.NewerFormError("its row", int(have), int(form))
	case !whole || have != form:
		return fmt.Errorf("%w: its row was not written by holdfast, or is damaged: it was not changed; delete it, and its notes, if nothing else uses it", store.ErrCorrupt)
	}
	return nil
}

// The inbox is a zero, so that it is never empty, and then the notes that were not taken in: key and data of each, behind
// their lengths.

// Empty is an inbox without notes.
var Empty = []byte{0}

// Pack is what a join adds to the end of an inbox.
func Pack(notes []record.Note) (out []byte) {
	for i := range notes {
		out = binary.AppendUvarint(out, uint64(len(notes[i].Key)))
		out = append(out, notes[i].Key...)
		out = binary.AppendUvarint(out, uint64(len(notes[i].Data)))
		out = append(out, notes[i].Data...)
	}
	return out
}

// Unpack is the notes of an inbox, before which swaps had taken in so many bytes.
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

// A Change is what a swap makes of a row. Joins only add to an inbox, and swaps take away from its beginning: so
// if the old version is current, the notes to take in exist, and no others are removed.
type Change struct {
	First bool    // nothing may be there
	Old   Version // or this version has to be there; no row has -1
	New   Version // the version that it has then
	Cut   int64   // bytes of the inbox that become Empty: one, and the notes that are taken in
}

// NewChange draws the new version.
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

// Done is how a swap came out that was done, after which the inbox had so many bytes, Empty not counted.
func (c *Change) Done(left int64) record.Outcome {
	out := record.Outcome{Done: true, Current: true, Inbox: left == 0} //mutant:row-inbox-is-empty
	out.Now.Version = c.New.String()
	return out
}

// Tick is how often the time of the last write ticks, in microseconds: 24 times in the retention, seldom, as there is an
// index on it.
func Tick(retention time.Duration) int64 { return max(retention.Microseconds()/24, 1) }
