package mysqlstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/row"
)

// form is the version of the stored form. That of earlier versions, 1, had other columns.
const form = 2

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

// columns are what read reads.
func (b *backend) columns() string {
	return "SELECT " + b.now() + "," + fit + ",name,form,rev,taken,data,inbox"
}

// read reads rows, to the end, and gives each to f.
func (b *backend) read(ctx context.Context, query string, f func(row.Found)) error {
	rows, err := b.db.QueryContext(ctx, query)
	if err != nil {
		return b.failed(err)
	}
	defer rows.Close()
	for rows.Next() {
		var n row.Found
		var now, fits int64
		var name, data, inbox []byte
		var have, rev, taken sql.NullInt64
		if err := rows.Scan(&now, &fits, &name, &have, &rev, &taken, &data, &inbox); err != nil {
			return b.failed(err)
		}
		if err := b.unfit(fits); err != nil {
			return err
		}
		if rev.Valid {
			r := row.Row{Form: have.Int64, Version: row.Version{Rev: rev.Int64, Taken: taken.Int64}, Data: data, Inbox: inbox}
			n.Record, n.Err = r.Record(form)
		}
		n.Name, n.Now = string(name), now
		f(n)
	}
	return b.failed(rows.Err())
}

// Load implements [record.Backend].
func (b *backend) Load(ctx context.Context, name string) (record.Record, error) {
	if err := b.prepare(ctx); err != nil {
		return record.Record{}, err
	}
	var found row.Found
	err := b.read(ctx, b.columns()+" FROM (SELECT 1 AS one) AS o LEFT JOIN "+b.records+" ON name="+text(name), func(n row.Found) { found = n })
	return found.Record, first(err, found.Err)
}

// Swap implements [record.Backend]: one statement on one row, which is also the join. All that it depends on is in that
// row, which it reads as it is once it has locked it.
func (b *backend) Swap(ctx context.Context, s *record.Swap) (out record.Outcome, err error) {
	if err := b.prepare(ctx); err != nil {
		return out, err
	}
	c := row.NewChange(&s.Old)
	joins, room := "inbox", "0=1"
	if s.Join != nil {
		joins, room = "CONCAT(inbox,"+text(row.Pack(s.Join.Notes))+")", "form="+number(form)+" AND OCTET_LENGTH(inbox)<"+number(row.MaxInbox)
	}
	idle := "0"
	if s.Idle {
		idle = "1"
	}
	written := b.written(b.now(), 0)
	// It tells 1 where it has joined, and 2 and the length of the inbox where it is done.
	var statement string
	if c.First {
		statement = "INSERT INTO " + b.records + " (name,form,taken,idle,written,data,inbox,rev) SELECT " + text(s.Name) + "," + number(form) + ",0*LAST_INSERT_ID(2)," +
			idle + "," + written + "," + text(s.Data) + ",x'00'," + number(c.New.Rev) + " FROM DUAL WHERE 1=1" + commits +
			" ON DUPLICATE KEY UPDATE taken=taken+0*LAST_INSERT_ID(IF(" + room + ",1,0)),inbox=IF(" + room + "," + joins + ",inbox)" //mutant:mysql-insert-tells
	} else {
		// Each assignment reads only columns that it or a later one assigns to: so it is the same whether the server makes
		// them one after another or, as a sql_mode has it, all at once.
		is := "rev=" + number(c.Old.Rev) //mutant:mysql-swap-depends
		set := func(column, then, or string) string { return "," + column + "=IF(" + is + "," + then + "," + or + ")" }
		statement = "UPDATE " + b.records + " SET taken=IF(" + is + "," + number(c.New.Taken) + ",taken)+0*LAST_INSERT_ID(IF(" + is + ",2+OCTET_LENGTH(inbox)-" + number(c.Cut) + ",1))" +
			set("idle", idle, "idle") + set("written", written, "written") + set("data", text(s.Data), "data") +
			set("inbox", "INSERT(inbox,1,"+number(c.Cut)+",x'00')", joins) + //mutant:mysql-notes-go
			set("rev", number(c.New.Rev), "rev") +
			" WHERE name=" + text(s.Name) + " AND (" + is + " OR " + room + ")" + commits
	}
	told, _, err := b.tell(ctx, statement)
	switch {
	case is(err, deadlock, lockWaitTimeout, recordChanged): //mutant:mysql-not-applied
		return out, nil
	case err != nil:
		return out, err
	case told >= 2:
		out = c.Done(told - 2)
	default:
		out.Joined = told == 1
	}
	return out, nil
}

// written is an instant in SQL, less some time, as the column written has it.
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
		err = b.read(ctx, b.columns()+where+" ORDER BY name LIMIT "+number(row.Page), func(n row.Found) { all = append(all, n) })
		return all, err
	})
}

// sweepMost is how many rows of each table a sweep deletes.
const sweepMost = 500

// sweep deletes the records that were idle for too long, with their inboxes, and the sessions that have ended. Each is
// deleted by a statement of its own: one that somebody has locked keeps no other locked.
func (b *backend) sweep(ctx context.Context) error {
	old := b.written(b.now(), b.Retention)
	for _, of := range []struct{ rows, remove string }{
		{"SELECT HEX(name),rev FROM " + b.records + " WHERE " +
			"idle=1" + //mutant:mysql-sweep-idle
			" AND " +
			"written<" + old, //mutant:mysql-sweep-old
			"DELETE FROM " + b.records + " WHERE name=x'%s' AND " +
				"rev=%d"}, //mutant:mysql-sweep-unwritten
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
