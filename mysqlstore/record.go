package mysqlstore

import (
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/row"
)

// form is the version of the stored format. The earlier ones, 1 and 2, had other columns.
const form = 3

// Statements have no parameters: a driver that prepares statements would need more round trips, and one that does not
// would depend on sql_mode and the character set. Numbers are written as they are, bytes in hexadecimal.

func number(n int64) string { return strconv.FormatInt(n, 10) }

func text[S string | []byte](s S) string { return "x'" + hex.EncodeToString([]byte(s)) + "'" }

// commits is a condition of every write: without autocommit, others would not see the write.
const commits = " AND @@autocommit=1" //mutant:mysql-commits

// fit is 1 on a connection whose statements see what was committed before and nothing else. The part for each server is a
// comment for the other.
const fit = "@@autocommit/*!80001 +2*(@@transaction_isolation='READ-UNCOMMITTED')*//*M! +2*(@@tx_isolation='READ-UNCOMMITTED')*/" //mutant:mysql-fit

// unfit returns why a connection with this value of fit cannot be used, or nil.
func (b *backend) unfit(fit int64) error {
	switch fit {
	case 1:
		return nil
	case 3:
		return fmt.Errorf("%w: the connection has the isolation level READ UNCOMMITTED: what it reads may never be committed; set another for the connections that locks use", store.ErrUnsupported)
	}
	return fmt.Errorf("%w: the connection has autocommit=0: what is written would not be there for others; set autocommit=1 for the connections that locks use", store.ErrUnsupported)
}

// now returns the server's clock, in SQL: the time at which the statement began. After a wait for a row it is a little
// behind.
func (b *backend) now() string {
	if b.clock != nil {
		return number(b.clock())
	}
	return "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))"
}

// tell runs a statement that writes. It returns the LAST_INSERT_ID and the number of rows changed.
func (b *backend) tell(ctx context.Context, statement string) (returned, changed int64, err error) {
	result, err := b.db.ExecContext(ctx, statement)
	if err != nil {
		return 0, 0, b.failed(err)
	}
	returned, _ = result.LastInsertId() // they never fail
	changed, _ = result.RowsAffected()
	return returned, changed, nil
}

// hurries makes a statement not wait for locks on MariaDB: the server then reports that it did not apply the statement.
// MySQL ignores this comment; free does the same for MySQL.
const hurries = "/*M! SET STATEMENT innodb_lock_wait_timeout=0 FOR */ " //mutant:mysql-waits-for-no-row

// free returns the row of a name, as r. On MySQL, an update finds the row by a second read, which skips it if it is
// locked. isFree is the condition on the name. With the name itself as the condition, MySQL would lock the row first.
// MariaDB ignores these comments.
func (b *backend) free(name string) string {
	return "/*!80001 (SELECT name AS unlocked FROM " + b.records + " WHERE name=" + text(name) + " LIMIT 1 FOR UPDATE SKIP LOCKED) AS f STRAIGHT_JOIN */ " +
		b.records + " AS r /*!80001 FORCE INDEX (PRIMARY) */"
}

// skipsLocked ends a read that takes shared locks, which others can take at the same time, and that skips rows that are
// being written.
const skipsLocked = "/*!80001 FOR SHARE SKIP LOCKED *//*M! LOCK IN SHARE MODE SKIP LOCKED */" //mutant:mysql-counts-shared

const isFree = "r.name/*!80001 =unlocked AND CONCAT(unlocked)*/=" //mutant:mysql-locks-what-is-free

// What a swap returns by LAST_INSERT_ID. 0 means that the row does not exist or is locked.
const (
	refusedOurs = 1
	refusedForm = 2 // the row has another format
	doneIdle    = 3 // notes were not counted
	doneEmpty   = 4 // plus one for each note that was not taken in
)

// Swap implements [record.Backend]. It is one statement that writes one row and, if that is refused, another that adds
// notes. The first does not wait for a lock on the row: the version decides which of many may write, so one that would
// have to wait has lost. The second does not wait either, because it touches no existing row.
func (b *backend) Swap(ctx context.Context, s *record.Swap) (out record.Outcome, err error) {
	if err := b.prepare(ctx); err != nil {
		return out, err
	}
	returned := int64(0)
	old, next := parseVersion(s.Old.Version), version{rev: rand.Int64()>>1 | 1}
	if next.taken, err = takenIn(old, s.Old.Inbox); err == nil && (s.Join == nil || !s.Lost) { //mutant:mysql-lost-is-tried
		returned, _, err = b.tell(ctx, b.swap(s, old, next))
	}
	switch {
	case err == errTakenIn, is(err, deadlock, lockWaitTimeout, recordChanged): //mutant:mysql-not-applied
		err = nil
	case err != nil:
		return out, err
	case returned >= doneIdle:
		out = record.Outcome{Done: true, Current: true, Inbox: returned == doneEmpty} //mutant:mysql-inbox-is-empty
		next.taken = b.discard(ctx, next.taken)
		out.Now.Version = next.String()
		return out, nil
	}
	if s.Join != nil && returned != refusedForm { //mutant:mysql-joins-its-form
		out.Joined, err = b.join(ctx, s.Name, s.Join.Notes)
	}
	return out, err
}

// swap returns the statement of a swap.
func (b *backend) swap(s *record.Swap, old, next version) string {
	idle := "0"
	if s.Idle {
		idle = "1"
	}
	written := b.written(b.now(), 0)
	// Notes are counted with the row locked. The count skips a note whose transaction has not ended: it is counted later.
	// The lock on the notes is shared, so that a first write, which has no row to lock, hides no note from another count.
	// The release of a name without waiters need not count: the next claim counts.
	tells := func(of string) string {
		if s.Idle { //mutant:mysql-idle-counts
			return number(next.rev) + "+0*LAST_INSERT_ID(" + number(doneIdle) + ")"
		}
		return number(next.rev) + "+0*LAST_INSERT_ID(" + number(doneEmpty) + "+(SELECT COUNT(*) FROM " + b.notes + " AS n WHERE n.name=" + of +
			" AND n.id NOT IN (" + next.list() + ") " + skipsLocked + "))"
	}
	returns := "LAST_INSERT_ID(IF(form=" + number(form) + "," + number(refusedOurs) + "," + number(refusedForm) + "))"
	if s.Old.Version == "" {
		return hurries + "INSERT INTO " + b.records + " (name,form,idle,written,taken,data,rev) SELECT " + text(s.Name) + "," + number(form) + "," +
			idle + "," + written + "," + text(next.list()) + "," + text(s.Data) + "," + tells(text(s.Name)) + " FROM DUAL WHERE 1=1" + commits +
			" ON DUPLICATE KEY UPDATE rev=rev+0*" + returns //mutant:mysql-insert-tells
	}
	return hurries + "UPDATE " + b.free(s.Name) + " SET idle=" + idle + ",written=" + written +
		",taken=" + text(next.list()) + //mutant:mysql-notes-go
		",data=" + text(s.Data) + ",rev=" + tells("r.name") +
		" WHERE " + isFree + text(s.Name) +
		" AND rev+0*" + returns + "=" + number(old.rev) + //mutant:mysql-swap-depends
		commits
}

// join adds notes. A swap that counts them can delay it for a moment. If the server says that it did not apply the
// statement, join sends it again, twice at most. The notes are inserted by VALUES, not by SELECT, so that their numbers
// are consecutive: then a replica that runs statements gets the same numbers, and the server locks no counter.
func (b *backend) join(ctx context.Context, name string, notes []record.Note) (bool, error) {
	var rows []string
	for i := range notes {
		rows = append(rows, "(IF(@@autocommit=1,"+text(name)+",NULL),"+text(row.Pack(notes[i:i+1]))+")") //mutant:mysql-joins-commit
	}
	for tried := 1; ; tried++ {
		_, n, err := b.tell(ctx, "INSERT INTO "+b.notes+" (name,data) VALUES "+strings.Join(rows, ","))
		switch undone := is(err, deadlock, lockWaitTimeout); {
		case is(err, badNull):
			return false, b.unfit(0)
		case !undone:
			return err == nil && n > 0, err
		case tried == 3:
			return false, nil
		}
	}
}

// discardFrom is from how many taken-in notes on a swap discards them.
const discardFrom = 16

// discard removes the name from notes that were taken in, once there are many, and returns those that are left. A sweep
// deletes them. If discard fails, the next swap tries again.
func (b *backend) discard(ctx context.Context, taken []int64) []int64 {
	if len(taken) < discardFrom {
		return taken
	}
	_, _, err := b.tell(ctx, hurries+"UPDATE "+b.notes+" SET name=LEFT(name,0) WHERE id IN ("+version{taken: taken}.list()+")"+commits)
	if err != nil {
		return taken
	}
	return nil
}

// written returns a time minus less, in SQL and as the column written has it.
func (b *backend) written(instant string, less time.Duration) string {
	unit := number(row.Tick(b.Retention))
	return "((" + instant + "-" + number(less.Microseconds()) + ") DIV " + unit + "*" + unit + ")"
}

// List implements [record.Backend].
func (b *backend) List(ctx context.Context, unwritten time.Duration) iter.Seq2[record.Named, error] {
	return row.List(func(after string) (all []row.Found, err error) {
		if err := b.prepare(ctx); err != nil {
			return nil, err
		}
		where := " FROM " + b.records + " WHERE idle=0"
		if after != "" {
			where += " AND name>" + text(after)
		}
		if unwritten > 0 {
			where += " AND written<=" + b.written(b.now(), unwritten) //mutant:mysql-young-listed
		}
		err = b.read(ctx, b.columns()+where+" ORDER BY name LIMIT "+number(row.Page), func(r *read) { all = append(all, r.Found) })
		return all, err
	})
}

// sweepMost is how many rows of a table a sweep deletes at most, and notesMost how many notes.
const (
	sweepMost = 500
	notesMost = 10 * sweepMost
)

// sweep deletes records that were idle for too long, with their notes, ended sessions, and discarded notes. Each record
// and session has its own statement, so that a locked row does not keep others locked. For discarded notes that does not
// matter.
func (b *backend) sweep(ctx context.Context) error {
	old := b.written(b.now(), b.Retention)
	for _, of := range []struct{ rows, remove string }{
		{"SELECT HEX(name),rev FROM " + b.records + " WHERE " +
			"idle=1" + //mutant:mysql-sweep-idle
			" AND " +
			"written<" + old, //mutant:mysql-sweep-old
			"DELETE r,n FROM " + b.records + " AS r LEFT JOIN " + b.notes + " AS n ON n.name=r.name WHERE r.name=x'%s' AND " +
				"r.rev=%d"}, //mutant:mysql-sweep-unwritten
		{"SELECT HEX(id),0 FROM " + b.sessions + " WHERE expires<=" + b.now(),
			"DELETE FROM " + b.sessions + " WHERE id=x'%s' AND expires<=" + b.now() + "+%d"},
		{"SELECT id,0 FROM " + b.notes + " WHERE name<x'00'", ""},
	} {
		var all, notes []string
		most := sweepMost
		if of.remove == "" {
			most = notesMost
		}
		rows, err := b.db.QueryContext(ctx, of.rows+" LIMIT "+number(int64(most)))
		if err != nil {
			return b.failed(err)
		}
		for rows.Next() {
			var key string
			var rev int64
			if err = rows.Scan(&key, &rev); err != nil {
				break
			}
			if of.remove == "" {
				notes = append(notes, key)
				continue
			}
			all = append(all, fmt.Sprintf(of.remove, key, rev))
		}
		rows.Close()
		err = first(err, rows.Err())
		if len(notes) > 0 {
			all = append(all, "DELETE FROM "+b.notes+" WHERE id IN ("+strings.Join(notes, ",")+")")
		}
		for _, statement := range all { //mutant:mysql-swept-one-by-one
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
