package mssqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/store/embedded"
)

// columns are the columns that the tables must have, in the form that checkTables reads.
var columns = [2]map[string]string{
	{"name": "varbinary of 513 bytes, key", "form": "smallint of 2 bytes", "rev": "bigint of 8 bytes", "taken": "bigint of 8 bytes", "idle": "tinyint of 1 bytes",
		"written": "bigint of 8 bytes", "data": "varbinary of -1 bytes", "inbox": "varchar of -1 bytes"},
	{"id": "varbinary of 8 bytes, key", "expires": "bigint of 8 bytes", "ttl": "bigint of 8 bytes", "calls": "bigint of 8 bytes"},
}

// Schema returns the statements that create the tables if they do not exist, for users that may not create them. The
// error matches store.ErrInvalid.
func Schema(o *Options) (string, error) {
	all, err := o.filled()
	return all.schema(), err
}

func (o *Options) schema() string {
	return strings.NewReplacer("{locks}", o.locks(), "{sessions}", o.sessions()).Replace(embedded.Text("schema.sql", dir))
}

// named returns the arguments for the names of the tables.
func (o *Options) named() []any {
	return []any{sql.Named("locks", o.locks()), sql.Named("sessions", o.sessions())}
}

// prepare makes sure, once, that the tables exist and are holdfast's.
func (b *backend) prepare(ctx context.Context) error {
	return b.Prepare(ctx, func() (bool, error) { return b.checkTables(ctx) }, func() error {
		statement, args := b.text("head")
		for made := 0; ; made++ {
			_, err := send(ctx, b, statement+b.o.schema(), args, numbers(0))
			if !is(err, alreadyThere) || made == len(columns) { //mutant:mssql-made-by-another
				return err
			} // another process has created one of them, and the rest was not run
		}
	})
}

// checkTables reads the tables' columns and writes nothing. It reports whether both tables exist for this user.
func (b *backend) checkTables(ctx context.Context) (bool, error) {
	type column struct {
		table      int
		name, kind string
	}
	statement, args := b.text("columns")
	all, err := send(ctx, b, statement, append(args, b.o.named()...), func(rows *sql.Rows) (c column, err error) {
		var length, key int64
		var null bool
		err = rows.Scan(&c.table, &c.name, &c.kind, &length, &null, &key)
		c.kind += fmt.Sprintf(" of %d bytes", length)
		if null {
			c.kind += " or NULL"
		}
		if key > 0 {
			c.kind += ", key"
		}
		return c, err
	})
	if err != nil {
		return false, err
	}
	have := [2]map[string]string{{}, {}}
	for _, c := range all {
		have[c.table][c.name] = c.kind
	}
	for i, table := range []string{b.o.locks(), b.o.sessions()} {
		for name, want := range columns[i] {
			if len(have[i]) > 0 && have[i][name] != want { //mutant:mssql-not-ours
				return true, b.NotOurs(table, "its column %s is %q, not %q", name, have[i][name], want)
			}
		}
		for name, kind := range have[i] {
			if columns[i][name] == "" && strings.HasSuffix(kind, ", key") {
				return true, b.NotOurs(table, "its primary key has the column %s", name)
			}
		}
	}
	return len(have[0]) > 0 && len(have[1]) > 0, nil
}
