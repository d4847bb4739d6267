package mysqlstore

import (
	"context"
	"strings"

	"github.com/holdfast-go/holdfast/store/record/row"
)

// A column is one of a table, with its type.
type column struct{ name, kind string }

// A table has its columns, of which the first is its key.
type table struct {
	suffix  string // behind Options.Table
	columns []column
	index   string
}

var tables = []table{
	{"", []column{
		{"name", "varbinary(512) NOT NULL"},
		{"form", "smallint NOT NULL"},
		{"rev", "bigint NOT NULL"}, // another random number by each swap
		{"idle", "tinyint NOT NULL"},
		{"written", "bigint NOT NULL"},   // when, about
		{"taken", "mediumblob NOT NULL"}, // the notes that were taken in, if their rows may be there
		{"data", "mediumblob NOT NULL"},
	}, ",\n  KEY `written` (`written`)"},
	{"_sessions", []column{
		{"id", "varbinary(8) NOT NULL"},
		{"expires", "bigint NOT NULL"}, // 0: it has ended for good
		{"ttl", "bigint NOT NULL"},
		{"calls", "bigint NOT NULL"},
	}, ""},
	{"_notes", []column{
		{"id", "bigint NOT NULL AUTO_INCREMENT"},
		{"name", "varbinary(512) NOT NULL"}, // empty: it was taken in
		{"data", "mediumblob NOT NULL"},
	}, ",\n  KEY `name` (`name`)"},
}

// Schema is the statements that make the tables, those that are not there: for who has a user that may not. There is a
// semicolon behind each. The error matches store.ErrInvalid.
func Schema(o *Options) (string, error) {
	all, err := o.filled()
	var statements strings.Builder
	for _, t := range tables {
		statements.WriteString(t.schema(&all) + ";\n")
	}
	return statements.String(), err
}

func (t *table) schema(o *Options) string {
	var b strings.Builder
	b.WriteString("CREATE TABLE IF NOT EXISTS " + o.quoted(t) + " (\n")
	for _, c := range t.columns {
		b.WriteString("  `" + c.name + "` " + c.kind + ",\n")
	}
	return b.String() + "  PRIMARY KEY (`" + t.columns[0].name + "`)" + t.index + "\n) ENGINE=InnoDB ROW_FORMAT=DYNAMIC"
}

func (o *Options) quoted(t *table) string {
	name := "`" + o.Table + t.suffix + "`"
	if o.Database != "" {
		name = "`" + o.Database + "`." + name
	}
	return name
}

// filled are the options with their defaults.
func (o *Options) filled() (all Options, err error) {
	if o != nil {
		all = *o
	}
	if all.Table == "" {
		all.Table = DefaultTable
	}
	err = row.CheckName("the table of a MySQL store", all.Table, 55)
	if all.Database != "" {
		err = first(row.CheckName("the database of a MySQL store", all.Database, 64), err)
	}
	return all, err
}

// prepare makes sure, once, that the tables are there and are ours.
func (b *backend) prepare(ctx context.Context) error {
	return b.Prepare(ctx, func() (bool, error) {
		for i := range tables {
			if err := b.checkTable(ctx, &tables[i]); is(err, noSuchTable) {
				return false, nil
			} else if err != nil {
				return false, b.failed(err)
			}
		}
		return true, nil
	}, func() error {
		for i := range tables {
			if _, err := b.db.ExecContext(ctx, tables[i].schema(&b.o)); err != nil {
				return b.failed(err)
			}
		}
		return nil
	})
}

// checkTable looks at a table, and writes nothing. SHOW CREATE TABLE is one round trip, and makes no temporary table in
// the server.
func (b *backend) checkTable(ctx context.Context, t *table) error {
	var name, made string
	if err := b.db.QueryRowContext(ctx, "SHOW CREATE TABLE "+b.o.quoted(t)).Scan(&name, &made); err != nil {
		return err
	}
	have := map[string]string{}
	key, engine := "", ""
	for line := range strings.Lines(made) {
		// Identifiers are quoted as sql_mode says.
		line = strings.ToLower(strings.NewReplacer("`", "", `"`, "", "[", "", "]", "").Replace(strings.Trim(line, " ,\r\n")))
		if rest, ok := strings.CutPrefix(line, "primary key "); ok {
			key = rest
		} else if rest, ok := strings.CutPrefix(line, ")"); ok {
			engine, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(rest), "engine="), " ")
		} else if column, kind, ok := strings.Cut(line, " "); ok {
			have[column] = kind
		}
	}
	for _, want := range t.columns {
		kind, _, _ := strings.Cut(have[want.name]+" ", " ")
		if kind == "" {
			return b.NotOurs(b.o.quoted(t), "it has no column %s", want.name)
		}
		if !strings.HasPrefix(kind, "var") {
			kind, _, _ = strings.Cut(kind, "(") // a width of integers means nothing, and MySQL tells none
		}
		if kind+" NOT NULL" != strings.TrimSuffix(want.kind, " AUTO_INCREMENT") || !strings.Contains(have[want.name], "not null") {
			return b.NotOurs(b.o.quoted(t), "its column %s is %s, not %s", want.name, have[want.name], want.kind)
		}
	}
	if key != "("+t.columns[0].name+")" {
		return b.NotOurs(b.o.quoted(t), "its primary key is %q, not the column %s", key, t.columns[0].name)
	}
	// Anything else forgets what it was told, or has no transactions. Some modes tell no engine.
	if engine != "" && engine != "innodb" {
		return b.NotOurs(b.o.quoted(t), "it is kept by %s, not by InnoDB", engine)
	}
	return nil
}
