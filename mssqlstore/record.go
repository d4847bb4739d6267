package mssqlstore

import (
	"context"
	"database/sql"
	"embed"
	"encoding/hex"
	"iter"
	"strings"
	"time"

	"github.com/microsoft/go-mssqldb"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/embedded"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/row"
)

// form is the version of the stored form.
const form = 1

//go:embed sql
var files embed.FS

var dir = embedded.Dir(files, "sql")

// texts are the statements for the tables, by the names of their files.
func texts(o *Options) map[string]string {
	all := map[string]string{}
	entries, err := files.ReadDir("sql")
	if err != nil {
		panic(err)
	}
	in := strings.NewReplacer("{locks}", o.quoted(&tables[0]), "{sessions}", o.quoted(&tables[1]))
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".sql")
		all[name] = in.Replace(embedded.Text(e.Name(), dir))
	}
	return all
}

// serverNow is the server's clock, read when a request begins. One that waits for a row is a little behind then.
const serverNow = "DATEDIFF_BIG(microsecond,CAST('1970-01-01T00:00:00' AS datetime2),SYSUTCDATETIME())"

// text is a statement as it is sent.
func (b *backend) text(name string) (string, []any) {
	now, args := serverNow, []any{sql.Named("form", int64(form))} // one argument, so that it goes by sp_executesql
	if b.clock != nil {
		now, args = "@clock", append(args, sql.Named("clock", b.clock()))
	}
	return strings.Replace(b.texts[name], "{now}", now, 1), args
}

// binary is an argument of any length, in hexadecimal, as a VARCHAR(MAX): that of a []byte has its length in its type, and so
// the server would compile the statement anew for each length.
func binary[S string | []byte](name string, b S) sql.NamedArg {
	return sql.Named(name, mssql.VarCharMax(hex.EncodeToString([]byte(b))))
}

// terminator is behind each name: a value is the same to SQL Server with more zero bytes behind it.
const terminator = "\x01"

// key is the argument for a name, or for what comes before all names.
func key(name string) sql.NamedArg {
	if name != "" {
		name += terminator //mutant:mssql-terminator
	}
	return binary("name", name)
}

// ask sends one request and reads the answer to its end, so that no row is believed whose statement failed behind it.
// The driver heeds a context only as far as its server confirms: so a call whose context ends leaves it to that.
func ask[T any](ctx context.Context, b *backend, statement string, args []any, scan func(*sql.Rows) (T, error)) ([]T, error) {
	type answer struct {
		rows []T
		err  error
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	done := make(chan answer, 1)
	b.sent.Go(func() {
		var a answer
		defer func() { done <- a }()
		rows, err := b.db.QueryContext(ctx, statement, args...)
		if err != nil {
			a.err = err
			return
		}
		defer rows.Close()
		for rows.Next() {
			one, err := scan(rows)
			if err != nil {
				a.err = err
				return
			}
			a.rows = append(a.rows, one)
		}
		a.err = rows.Err() //mutant:mssql-answer-is-read-to-its-end
	})
	select {
	case a := <-done:
		return a.rows, b.failed(a.err)
	case <-ctx.Done(): //mutant:mssql-context-is-heeded
		return nil, ctx.Err()
	}
}

// run sends a statement by its name, once the tables are there.
func run[T any](ctx context.Context, b *backend, name string, scan func(*sql.Rows) (T, error), args ...any) ([]T, error) {
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	statement, all := b.text(name)
	return ask(ctx, b, statement, append(all, args...), scan)
}

// numbers has a scan of so many numbers.
func numbers(n int) func(*sql.Rows) ([]int64, error) {
	return func(rows *sql.Rows) ([]int64, error) {
		all, to := make([]int64, n), make([]any, n)
		for i := range all {
			to[i] = &all[i]
		}
		return all, rows.Scan(to...)
	}
}

// tell sends a statement that answers with one row of numbers, or with none: then they are 0.
func (b *backend) tell(ctx context.Context, name string, n int, args ...any) ([]int64, error) {
	rows, err := run(ctx, b, name, numbers(n), args...)
	return append(rows, make([]int64, n))[0], err
}

// found reads a record with its name.
func found(rows *sql.Rows) (n row.Found, err error) {
	var now int64
	var name, data []byte
	var have, rev, taken sql.NullInt64
	var digits sql.NullString
	if err := rows.Scan(&now, &name, &have, &rev, &taken, &data, &digits); err != nil {
		return n, err
	}
	if rev.Valid {
		inbox, err := hex.DecodeString(digits.String)
		if err != nil {
			inbox = nil // which is none of ours
		}
		r := row.Row{Form: have.Int64, Version: row.Version{Rev: rev.Int64, Taken: taken.Int64}, Data: data, Inbox: inbox}
		n.Record, n.Err = r.Record(form)
	}
	n.Name, n.Now = strings.TrimSuffix(string(name), terminator), now
	return n, nil
}

// Traits implements [record.Backend]. A join is void by mark, as it depends on no row but that of its name.
func (b *backend) Traits() record.Traits {
	return record.Traits{Void: record.VoidByMark, Clock: true, MaxRecord: row.MaxRecord, Retention: b.retention}
}

// Load implements [record.Backend].
func (b *backend) Load(ctx context.Context, name string) (r record.Record, err error) {
	all, err := run(ctx, b, "load", found, key(name))
	if err != nil {
		return r, err
	}
	return all[0].Record, all[0].Err
}

// Swap implements [record.Backend]: one request, which is the swap and then, if that was refused, the join, each a statement
// on one row. All that each depends on is in that row.
func (b *backend) Swap(ctx context.Context, s *record.Swap) (out record.Outcome, err error) {
	c, idle, joins := row.NewChange(&s.Old), int64(0), int64(0)
	name, notes := "swap", []byte(nil)
	if c.First {
		name = "first"
	}
	if s.Idle {
		idle = 1
	}
	if s.Join != nil {
		joins, notes = 1, row.Pack(s.Join.Notes)
	}
	told, err := b.tell(ctx, name, 2, key(s.Name), binary("data", s.Data), binary("notes", notes), sql.Named("old", c.Old.Rev), sql.Named("rev", c.New.Rev),
		sql.Named("taken", c.New.Taken), sql.Named("cut", c.Cut), sql.Named("idle", idle), sql.Named("join", joins), sql.Named("room", int64(row.MaxInbox)), b.tick())
	switch {
	case is(err, deadlock, lockTimeout, updateConflict): //mutant:mssql-not-applied
		return out, nil
	case err != nil:
		return out, err
	case told[0] == 2:
		out = c.Done(told[1])
	default:
		out.Joined = told[0] == 1
	}
	return out, nil
}

// tick is the argument for the column written.
func (b *backend) tick() sql.NamedArg { return sql.Named("tick", row.Tick(b.retention)) }

// Listen implements [record.Backend]. Decision 50 says why nothing is told.
func (b *backend) Listen(context.Context, store.Process, func(record.Notification)) error {
	return store.ErrUnsupported
}

// List implements [record.Backend].
func (b *backend) List(ctx context.Context, unwritten time.Duration) iter.Seq2[record.Named, error] {
	return row.List(func(after string) ([]row.Found, error) {
		page := sql.Named("page", int64(row.Page))
		if unwritten > 0 {
			return run(ctx, b, "list_old", found, key(after), page, b.tick(), sql.Named("age", unwritten.Microseconds()))
		}
		return run(ctx, b, "list", found, key(after), page)
	})
}

// sweepInTime goes on with the sweeping if it is time to, beside the caller.
func (b *backend) sweepInTime() {
	if !b.sweeps.Due() {
		return
	}
	b.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
		defer cancel()
		_ = b.sweep(ctx) // it is tried again in a while, or by another process
	})
}

// sweep deletes the records that were idle for too long, with their inboxes, and the sessions that have ended. Each is
// deleted by a statement of its own: one that somebody has locked keeps no other locked.
func (b *backend) sweep(ctx context.Context) error {
	type old struct {
		key []byte
		rev int64
	}
	for _, of := range []struct {
		look, forget string
		key          func([]byte) sql.NamedArg
	}{
		{"idle", "forget", func(name []byte) sql.NamedArg { return binary("name", name) }},
		{"lapsed", "forget_session", func(id []byte) sql.NamedArg { return sql.Named("id", id) }},
	} {
		all, err := run(ctx, b, of.look, func(rows *sql.Rows) (o old, err error) {
			err = rows.Scan(&o.key, &o.rev)
			return o, err
		}, sql.Named("page", int64(row.Page)), b.tick(), sql.Named("age", b.retention.Microseconds()))
		for _, o := range all {
			if err == nil {
				_, err = b.tell(ctx, of.forget, 0, of.key(o.key), sql.Named("rev", o.rev))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
