package mssqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// A column is one of a table, with its type.
type column struct {
	name, kind string
	length     int64 // in bytes; -1: max
}

// A table has its columns, of which the first is its key.
type table struct {
	suffix  string // behind Options.Table
	columns []column
	index   string
}

var tables = []table{
	{"", []column{
		{"name", "varbinary", 513}, // with its terminator
		{"form", "smallint", 2},
		{"rev", "bigint", 8},   // another random number by each swap
		{"taken", "bigint", 8}, // bytes of notes that were taken in
		{"idle", "tinyint", 1},
		{"written", "bigint", 8}, // when, about
		{"data", "varbinary", -1},
		{"inbox", "varchar", -1}, // in hexadecimal
	}, ",\n  UNIQUE ([written],[name])"}, // in the order of written, to find what is old
	{"_sessions", []column{
		{"id", "varbinary", 8},
		{"expires", "bigint", 8}, // 0: it has ended for good
		{"ttl", "bigint", 8},
		{"calls", "bigint", 8},
	}, ""},
}

func (c *column) sql() string {
	switch {
	case c.length < 0:
		return c.kind + "(max)"
	case c.kind != "varbinary":
		return c.kind
	}
	return fmt.Sprintf("varbinary(%d)", c.length)
}

// Schema is the statements that make the tables, those that are not there: for who has a user that may not. The error
// matches store.ErrInvalid.
func Schema(o *Options) (string, error) {
	all, err := o.filled()
	var statements strings.Builder
	for i := range tables {
		statements.WriteString(tables[i].schema(&all))
	}
	return statements.String(), err
}

func (t *table) schema(o *Options) string {
	var b strings.Builder
	b.WriteString("SET ANSI_PADDING ON;\nIF OBJECT_ID(N'" + o.quoted(t) + "',N'U') IS NULL\nCREATE TABLE " + o.quoted(t) + " (\n")
	for i := range t.columns {
		b.WriteString("  [" + t.columns[i].name + "] " + t.columns[i].sql() + " NOT NULL,\n")
	}
	return b.String() + "  PRIMARY KEY ([" + t.columns[0].name + "])" + t.index + "\n);\n"
}

func (o *Options) quoted(t *table) string { return "[" + o.Schema + "].[" + o.Table + t.suffix + "]" }

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// filled are the options with their defaults.
func (o *Options) filled() (all Options, err error) {
	if o != nil {
		all = *o
	}
	if all.Schema == "" {
		all.Schema = DefaultSchema
	}
	if all.Table == "" {
		all.Table = DefaultTable
	}
	for _, n := range []struct {
		what, name string
		most       int
	}{{"schema", all.Schema, 128}, {"table", all.Table, 119}} {
		if !identifier.MatchString(n.name) || len(n.name) > n.most {
			err = fmt.Errorf("%w: %.130q as the %s of a SQL Server store: want 1 to %d letters, digits and underscores, not first a digit", store.ErrInvalid, n.name, n.what, n.most)
		}
	}
	return all, err
}

// prepare sees to it, once, that the tables are there and are ours.
func (b *backend) prepare(ctx context.Context) error {
	return b.checked.Do(ctx, func() error {
		for i := range tables {
			t := &tables[i]
			there, err := b.checkTable(ctx, t)
			if err == nil && !there {
				head, args := b.text("head")
				_, err = ask(ctx, b, head+t.schema(&b.o), args, numbers(0))
				if is(err, createDenied, schemaDenied) {
					return fmt.Errorf("%w: the table %s is not there, or this user may not see it, and may not make it: have somebody run what mssqlstore.Schema says (%w)", store.ErrDenied, b.o.quoted(t), err)
				}
				if err == nil || is(err, alreadyThere) { // somebody else has made it since
					there, err = b.checkTable(ctx, t)
				}
				if err == nil && !there {
					err = fmt.Errorf("%w: the table %s is there, and this user may not see it", store.ErrDenied, b.o.quoted(t))
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// checkTable looks at a table, and writes nothing. It reports whether it is there, for this user.
func (b *backend) checkTable(ctx context.Context, t *table) (bool, error) {
	type seen struct {
		name, kind  string
		length, key int64
		null        bool
	}
	statement, args := b.text("columns")
	all, err := ask(ctx, b, statement, append(args, sql.Named("table", b.o.quoted(t))), func(rows *sql.Rows) (s seen, err error) {
		err = rows.Scan(&s.name, &s.kind, &s.length, &s.null, &s.key)
		return s, err
	})
	if err != nil || len(all) == 0 {
		return false, err
	}
	notOurs := func(why string, args ...any) (bool, error) {
		return true, fmt.Errorf("%w: the table %s of %s: "+why+": it is not of this holdfast and was left alone; use another (Options.Table), or drop it if nobody needs it",
			append([]any{store.ErrCorrupt, b.o.quoted(t), b.address}, args...)...)
	}
	have, keys := map[string]seen{}, ""
	for _, s := range all {
		if have[s.name] = s; s.key > 0 {
			keys += "(" + s.name + ")"
		}
	}
	for _, want := range t.columns {
		switch s, ok := have[want.name]; {
		case !ok:
			return notOurs("it has no column %s", want.name)
		case s.kind != want.kind || s.length != want.length || s.null:
			return notOurs("its column %s is %s of %d bytes (null: %v), not %s NOT NULL", want.name, s.kind, s.length, s.null, want.sql())
		}
	}
	if keys != "("+t.columns[0].name+")" {
		return notOurs("its primary key is %q, not the column %s", keys, t.columns[0].name)
	}
	return true, nil
}
