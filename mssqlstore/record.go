package mssqlstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"iter"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/row"
)

// terminator follows each name, because SQL Server ignores zero bytes at the end of values when it compares them.
const terminator = "\x01"

// key returns the argument for a name; for "", one that sorts before all names.
func key(name string) sql.NamedArg {
	if name != "" {
		name += terminator //mutant:mssql-terminator
	}
	return binary("name", name)
}

func number(name string, n int64) sql.NamedArg { return sql.Named(name, n) }

// tick returns the argument for the column written.
func (b *backend) tick() sql.NamedArg { return number("tick", row.Tick(b.Retention)) }

// found scans a record and its name.
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
			inbox = nil // which is not a valid inbox
		}
		r := row.Row{Form: have.Int64, Version: row.Version{Rev: rev.Int64, Taken: taken.Int64}, Data: data, Inbox: inbox}
		n.Record, n.Err = r.Record(form)
	}
	n.Name, n.Now = strings.TrimSuffix(string(name), terminator), now
	return n, nil
}

// Load implements [record.Backend].
func (b *backend) Load(ctx context.Context, name string) (record.Record, error) {
	n, err := one(ask(ctx, b, "load", found, key(name)))
	if err == nil {
		err = n.Err
	}
	return n.Record, err
}

// Swap implements [record.Backend]. It sends one request: the swap and, if that is refused, the join, each a statement on
// one row. Everything that they depend on is in that row.
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
	did, err := one(ask(ctx, b, name, numbers(2), key(s.Name), binary("data", s.Data), binary("notes", notes), number("old", c.Old.Rev), number("rev", c.New.Rev),
		number("taken", c.New.Taken), number("cut", c.Cut), number("idle", idle), number("join", joins), number("room", row.MaxInbox), b.tick()))
	switch {
	case is(err, deadlock, lockTimeout, updateConflict): //mutant:mssql-not-applied
		return out, nil
	case err != nil:
		return out, err
	case did[0] == 2:
		return c.Done(did[1]), nil
	}
	out.Joined = did[0] == 1
	return out, nil
}

// List implements [record.Backend].
func (b *backend) List(ctx context.Context, unwritten time.Duration) iter.Seq2[record.Named, error] {
	return row.List(func(after string) ([]row.Found, error) {
		if unwritten > 0 {
			return ask(ctx, b, "list_old", found, key(after), number("page", row.Page), b.tick(), number("age", unwritten.Microseconds()))
		}
		return ask(ctx, b, "list", found, key(after), number("page", row.Page))
	})
}

// sweep deletes records that were idle for too long, with their inboxes, and sessions that have ended. Each has its own
// statement, so that a locked row does not keep others locked.
func (b *backend) sweep(ctx context.Context) error {
	type old struct {
		key []byte
		rev int64
	}
	for _, of := range [][2]string{{"idle", "forget"}, {"lapsed", "forget_session"}} {
		all, err := ask(ctx, b, of[0], func(rows *sql.Rows) (o old, err error) {
			err = rows.Scan(&o.key, &o.rev)
			return o, err
		}, number("page", row.Page), b.tick(), number("age", b.Retention.Microseconds()))
		for _, o := range all {
			if err == nil {
				err = b.write(ctx, of[1], binary("name", o.key), number("rev", o.rev))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
