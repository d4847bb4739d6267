package mysqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/row"
)

// A version of a record is the random number of its last swap, and the notes that were taken in and whose rows may still
// exist. The number alone shows whether the record has been written since.
type version struct {
	rev   int64
	taken []int64
}

// nothing begins each list of notes, because some modes read an empty string as NULL.
const nothing = "0"

func (v version) list() string {
	list := nothing
	for _, id := range v.taken {
		list += "," + number(id)
	}
	return list
}

// String returns the version as a record has it.
func (v version) String() string { return number(v.rev) + "-" + v.list() }

// parseVersion is the inverse of String; it returns the zero version for "".
func parseVersion(text string) (v version) {
	rev, list, _ := strings.Cut(text, "-")
	v.rev, _ = strconv.ParseInt(rev, 10, 64)
	v.taken, _ = parseList(list)
	return v
}

// parseList reads a list of notes, and reports whether it is valid.
func parseList(list string) (taken []int64, ok bool) {
	ids := strings.Split(list, ",")
	for _, text := range ids[1:] {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, false
		}
		taken = append(taken, id)
	}
	return taken, ids[0] == nothing
}

var errTakenIn = errors.New("a note was taken in meanwhile")

// takenIn returns the notes that are taken in after a swap of version old that takes in the notes of the inbox. A note
// has the number of the record that it was read with. As long as that number is current, the note was not taken in.
func takenIn(old version, inbox []record.Note) ([]int64, error) {
	taken := slices.Clone(old.taken)
	for i := range inbox {
		note := row.Parse(inbox[i].Version)
		if note.Rev != old.rev { //mutant:mysql-note-is-there
			return nil, errTakenIn
		}
		taken = append(taken, note.Taken)
	}
	return taken, nil
}

// A read is a row of a record or of one of its notes.
type read struct {
	row.Found
	version
	note int64 // its number; 0 if it is a record
}

// columns is the SELECT for the columns that read scans.
func (b *backend) columns() string {
	return "SELECT " + b.now() + "," + fit + ",name,form,rev,taken,data"
}

// read runs a query, reads all rows, and calls f with each.
func (b *backend) read(ctx context.Context, query string, f func(*read)) error {
	rows, err := b.db.QueryContext(ctx, query)
	if err != nil {
		return b.failed(err)
	}
	defer rows.Close()
	for rows.Next() {
		var r read
		var fits int64
		var name, taken []byte
		var have, rev sql.NullInt64
		if err := rows.Scan(&r.Now, &fits, &name, &have, &rev, &taken, &r.Data); err != nil {
			return b.failed(err)
		}
		if err := b.unfit(fits); err != nil {
			return err
		}
		switch r.Name = string(name); {
		case have.Valid:
			var ok bool
			r.rev = rev.Int64
			r.taken, ok = parseList(string(taken))
			r.Err, r.Version = row.CheckForm(have.Int64, form, ok), r.version.String()
		case rev.Valid:
			r.note = rev.Int64
		}
		f(&r)
	}
	return b.failed(rows.Err())
}

// mostNotes is how many notes are read at a time.
const mostNotes = 1024

// Load implements [record.Backend]. It is one statement, so it reads both tables at the same instant. The clock is a row
// of its own, because a missing record has no row. Joining the record to it takes a server twice as long.
func (b *backend) Load(ctx context.Context, name string) (record.Record, error) {
	if err := b.prepare(ctx); err != nil {
		return record.Record{}, err
	}
	var r read
	var notes []*read
	err := b.read(ctx, "SELECT "+b.now()+","+fit+",NULL,NULL,NULL,NULL,NULL UNION ALL SELECT 0,1,name,form,rev,taken,data FROM "+b.records+" WHERE name="+text(name)+
		" UNION ALL (SELECT 0,1,NULL,NULL,id,NULL,data FROM "+b.notes+" WHERE name="+text(name)+" ORDER BY id LIMIT "+number(mostNotes)+")", func(one *read) {
		switch now := r.Now; {
		case one.note > 0:
			notes = append(notes, one)
		case one.Now == 0:
			r = *one
			r.Now = now
		default:
			r.Now = one.Now
		}
	})
	if err = first(err, r.Err); err != nil {
		return r.Record, err
	}
	slices.SortFunc(notes, func(a, b *read) int { return cmp.Compare(a.note, b.note) })
	r.More = len(notes) >= mostNotes
	there := map[int64]bool{}
	for _, one := range notes {
		if there[one.note] = true; slices.Contains(r.taken, one.note) { //mutant:mysql-taken-in-counts-for-nothing
			continue
		}
		kept, err := row.Unpack(0, append([]byte{0}, one.Data...))
		if err != nil {
			return r.Record, row.CheckForm(form, form, false)
		}
		for i := range kept {
			kept[i].Version = row.Version{Rev: r.rev, Taken: one.note}.String()
		}
		r.Inbox = append(r.Inbox, kept...)
	}
	if r.version.rev != 0 {
		// A deleted note never comes back.
		r.taken = slices.DeleteFunc(r.taken, func(id int64) bool { return !there[id] && !r.More })
		r.Version = r.version.String()
	}
	return r.Record, nil
}
