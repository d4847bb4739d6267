package mysqlstore

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

// form is the version of the stored form. That of earlier versions, 1, had other columns.
const form = 2

const (
	maxRecord = 1 << 20 // bytes, which is some 10,000 entries; a statement has two characters for each
	maxInbox  = 1 << 20
	page      = 500 // rows are listed at a time
)

// Statements have no parameters: a driver that prepares those would need more round trips, and one that does not
// would depend on sql_mode and character set. Numbers are written as such and bytes in hexadecimal.

func number(n int64) string { return strconv.FormatInt(n, 10) }

func text[S string | []byte](s S) string { return "x'" + hex.EncodeToString([]byte(s)) + "'" }

// commits is a condition of every write: without autocommit it would not be there for others.
const commits = " AND @@autocommit=1" //mutant:mysql-commits

// fit is 1 where a statement sees what was committed before, and nothing else. For each server the part of the other
// is a comment.
const fit = "@@autocommit/*!80001 +2*(@@transaction_isolation='READ-UNCOMMITTED')*//*M! +2*(@@tx_isolation='READ-UNCOMMITTED')*/" //mutant:mysql-fit

// unfit is why a connection cannot be used, which told that of fit; or nil.
func (b *backend) unfit(fit int64) error {
	switch fit {
	case 1:
		return nil
	case 3:
		return fmt.Errorf("%w: the connection has the isolation level READ UNCOMMITTED: what it reads may never be committed; set another for the connections that locks use", store.ErrUnsupported)
	}
	return fmt.Errorf("%w: the connection has autocommit=0: what is written would not be there for others; set autocommit=1 for the connections that locks use", store.ErrUnsupported)
}

// now is the server's clock, in SQL: the instant at which the statement began. One that waited for a row is a little
// behind then.
func (b *backend) now() string {
	if b.clock != nil {
		return number(b.clock())
	}
	return "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))"
}

// tell does a statement that writes, and returns what it has told by LAST_INSERT_ID and how many rows it has changed.
func (b *backend) tell(ctx context.Context, statement string) (told, changed int64, err error) {
	result, err := b.db.ExecContext(ctx, statement)
	if err != nil {
		return 0, 0, b.failed(err)
	}
	told, _ = result.LastInsertId() // they never fail
	changed, _ = result.RowsAffected()
	return told, changed, nil
}

// Traits implements [record.Backend]. A join is void by mark, as it depends on no row but that of its name.
func (b *backend) Traits() record.Traits {
	return record.Traits{Void: record.VoidByMark, Clock: true, MaxRecord: maxRecord, Retention: b.retention}
}

// columns are what read reads.
func (b *backend) columns() string {
	return "SELECT " + b.now() + "," + fit + ",name,form,rev,taken,data,inbox"
}

// read reads rows, and gives each to f. If one is not ours f is given why. It reads to the end, unless f has an error.
func (b *backend) read(ctx context.Context, query string, f func(record.Named, error) error) error {
	rows, err := b.db.QueryContext(ctx, query)
	if err != nil {
		return b.failed(err)
	}
	defer rows.Close()
	for rows.Next() {
		var n record.Named
		var fits int64
		var name, inbox []byte
		var have, rev, taken sql.NullInt64
		if err := rows.Scan(&n.Now, &fits, &name, &have, &rev, &taken, &n.Data, &inbox); err != nil {
			return b.failed(err)
		}
		if err := b.unfit(fits); err != nil {
			return err
		}
		n.Name, err = string(name), nil
		if rev.Valid {
			n.Version = version{rev.Int64, taken.Int64}.String()
			if n.Inbox, err = unpack(taken.Int64, inbox); have.Int64 > form {
				err = store.NewerFormError("its row", int(have.Int64), form)
			} else if err != nil || have.Int64 != form {
				err = fmt.Errorf("%w: its row is not of holdfast, or is damaged: it was left alone; delete it if nobody needs it", store.ErrCorrupt)
			}
		}
		if err := f(n, err); err != nil {
			return err
		}
	}
	return b.failed(rows.Err())
}

// Load implements [record.Backend].
func (b *backend) Load(ctx context.Context, name string) (r record.Record, err error) {
	if err := b.prepare(ctx); err != nil {
		return r, err
	}
	err = b.read(ctx, b.columns()+" FROM (SELECT 1 AS one) AS o LEFT JOIN "+b.records+" ON name="+text(name), func(n record.Named, err error) error {
		r = n.Record
		return err
	})
	return r, err
}

// A version of a record: a number that is drawn at random by each swap, and how many bytes of notes had been taken in.
type version struct{ rev, taken int64 }

func (v version) String() string { return number(v.rev) + "-" + number(v.taken) }

func parseVersion(text string) (v version) {
	_, _ = fmt.Sscanf(text, "%d-%d", &v.rev, &v.taken)
	return v
}

// The inbox is a zero, so that it is never empty, and then the notes that were not taken in: key and data of each, behind
// their lengths. The version of a note is where it begins and ends among all that the name ever had.

func pack(notes []record.Note) (out []byte) {
	for i := range notes {
		out = binary.AppendUvarint(out, uint64(len(notes[i].Key)))
		out = append(out, notes[i].Key...)
		out = binary.AppendUvarint(out, uint64(len(notes[i].Data)))
		out = append(out, notes[i].Data...)
	}
	return out
}

func unpack(taken int64, inbox []byte) (notes []record.Note, err error) {
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
		notes = append(notes, record.Note{Key: string(parts[0]), Data: parts[1], Version: version{from, to}.String()})
	}
	return notes, nil
}

// Swap implements [record.Backend]: one statement on one row, which is also the join. All that it depends on is in that
// row, which it reads as it is once it has locked it. Joins only add to the inbox, and swaps take away from its beginning: so
// the notes that are taken in are there, and no others go.
func (b *backend) Swap(ctx context.Context, s *record.Swap) (out record.Outcome, err error) {
	if err := b.prepare(ctx); err != nil {
		return out, err
	}
	old, next, k := parseVersion(s.Old.Version), version{rand.Int64()>>1 | 1, 0}, int64(1)
	next.taken = old.taken
	for i := range s.Old.Inbox {
		note := parseVersion(s.Old.Inbox[i].Version)
		if note.rev != next.taken { //mutant:mysql-note-is-there
			old.rev = -1 // refused
		}
		next.taken = note.taken
	}
	k += next.taken - old.taken
	joins, room := "inbox", "0=1"
	if s.Join != nil {
		joins, room = "CONCAT(inbox,"+text(pack(s.Join.Notes))+")", "form="+number(form)+" AND OCTET_LENGTH(inbox)<"+number(maxInbox)
	}
	idle := "0"
	if s.Idle {
		idle = "1"
	}
	written := b.written(b.now(), 0)
	// It tells 1 where it has joined, and 2 and the length of the inbox where it is done.
	var statement string
	if s.Old.Version == "" && old.rev == 0 {
		statement = "INSERT INTO " + b.records + " (name,form,taken,idle,written,data,inbox,rev) SELECT " + text(s.Name) + "," + number(form) + ",0*LAST_INSERT_ID(2)," +
			idle + "," + written + "," + text(s.Data) + ",x'00'," + number(next.rev) + " FROM DUAL WHERE 1=1" + commits +
			" ON DUPLICATE KEY UPDATE taken=taken+0*LAST_INSERT_ID(IF(" + room + ",1,0)),inbox=IF(" + room + "," + joins + ",inbox)" //mutant:mysql-insert-tells
	} else {
		// Each assignment reads only columns that it or a later one assigns to: so it is the same whether the server makes
		// them one after another or, as a sql_mode has it, all at once.
		is := "rev=" + number(old.rev) //mutant:mysql-swap-depends
		set := func(column, then, or string) string { return "," + column + "=IF(" + is + "," + then + "," + or + ")" }
		statement = "UPDATE " + b.records + " SET taken=IF(" + is + "," + number(next.taken) + ",taken)+0*LAST_INSERT_ID(IF(" + is + ",2+OCTET_LENGTH(inbox)-" + number(k) + ",1))" +
			set("idle", idle, "idle") + set("written", written, "written") + set("data", text(s.Data), "data") +
			set("inbox", "INSERT(inbox,1,"+number(k)+",x'00')", joins) + //mutant:mysql-notes-go
			set("rev", number(next.rev), "rev") +
			" WHERE name=" + text(s.Name) + " AND (" + is + " OR " + room + ")" + commits
	}
	told, _, err := b.tell(ctx, statement)
	switch {
	case is(err, deadlock, lockWaitTimeout, recordChanged): //mutant:mysql-not-applied
		return out, nil
	case err != nil:
		return out, err
	case told >= 2:
		out = record.Outcome{Done: true, Told: true, Inbox: told == 2} //mutant:mysql-inbox-is-empty
		out.Now.Version = next.String()
	default:
		out.Joined = told == 1
	}
	return out, nil
}

// units is how many times the clock of column written ticks in the retention: seldom, as it has an index.
const units = 24

// written is an instant in SQL, less some time, as the column written has it.
func (b *backend) written(instant string, less time.Duration) string {
	unit := number(max(b.retention.Microseconds()/units, 1))
	return "((" + instant + "-" + number(less.Microseconds()) + ") DIV " + unit + "*" + unit + ")"
}

// Listen implements [record.Backend]. Decision 21 says why nothing is told.
func (b *backend) Listen(context.Context, store.Process, func(record.Notification)) error {
	return store.ErrUnsupported
}

// List implements [record.Backend].
func (b *backend) List(ctx context.Context, unwritten time.Duration) iter.Seq2[record.Named, error] {
	return func(yield func(record.Named, error) bool) {
		if err := b.prepare(ctx); err != nil {
			yield(record.Named{}, err)
			return
		}
		where := " FROM " + b.records + " WHERE idle=0"
		if unwritten > 0 {
			where += " AND written<=" + b.written(b.now(), unwritten) //mutant:mysql-young-listed
		}
		for after := ""; ; {
			var all []record.Named
			var errs []error
			// Read to the end before anything is yielded: the caller may want the connection for something else.
			err := b.read(ctx, b.columns()+where+after+" ORDER BY name LIMIT "+number(page), func(n record.Named, err error) error {
				all, errs = append(all, n), append(errs, err)
				return nil
			})
			if err != nil {
				yield(record.Named{}, err)
				return
			}
			for i := range all {
				if !yield(all[i], errs[i]) {
					return
				}
			}
			if len(all) < page {
				return
			}
			after = " AND name>" + text(all[len(all)-1].Name)
		}
	}
}

const (
	sweepEvery = time.Minute
	sweepOdds  = 8   // of a process that has just come one in so many sweeps; it may not live for a minute
	sweepMost  = 500 // rows of each table at a time
	sweepLimit = 10 * time.Second
)

// sweepInTime goes on with the sweeping if it is time to, beside the caller.
func (b *backend) sweepInTime() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := store.Now()
	first := b.sweepAt == 0
	if now < b.sweepAt {
		return
	}
	if b.sweepAt = now.Add(sweepEvery); first && rand.N(sweepOdds) != 0 {
		return
	}
	b.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(b.ctx, sweepLimit)
		defer cancel()
		_ = b.sweep(ctx) // it is tried again in a while, or by another process
	})
}

// sweep deletes the records that were idle for too long, with their inboxes, and the sessions that have ended. Each is
// deleted by a statement of its own: one that somebody has locked keeps no other locked.
func (b *backend) sweep(ctx context.Context) error {
	old := b.written(b.now(), b.retention)
	for _, of := range []struct{ rows, remove string }{
		{"SELECT HEX(name),rev FROM " + b.records + " WHERE idle=1 AND written<" + old, //mutant:mysql-sweep-old
			"DELETE FROM " + b.records + " WHERE name=x'%s' AND rev=%d"}, //mutant:mysql-sweep-unwritten
		{"SELECT HEX(id),0 FROM " + b.sessions + " WHERE expires<=" + b.now(),
			"DELETE FROM " + b.sessions + " WHERE id=x'%s' AND expires<=" + b.now() + "+%d"},
	} {
		var all []string
		rows, err := b.db.QueryContext(ctx, of.rows+" LIMIT "+number(sweepMost))
		if err != nil {
			return b.failed(err)
		}
		for rows.Next() {
			var key string
			var rev int64
			if err = rows.Scan(&key, &rev); err != nil {
				break
			}
			all = append(all, fmt.Sprintf(of.remove, key, rev))
		}
		rows.Close()
		err = first(err, rows.Err())
		for _, statement := range all {
			if err == nil {
				_, _, err = b.tell(ctx, statement+commits)
			}
		}
		if err != nil {
			return b.failed(err)
		}
	}
	return nil
}
