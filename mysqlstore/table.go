package mysqlstore

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/store"
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
		{"rev", "bigint NOT NULL"},   // another random number by each swap
		{"taken", "bigint NOT NULL"}, // bytes of notes that were taken in
		{"idle", "tinyint NOT NULL"},
		{"written", "bigint NOT NULL"}, // when, about
		{"data", "mediumblob NOT NULL"},
		{"inbox", "mediumblob NOT NULL"},
	}, ",\n  KEY `written` (`written`)"},
	{"_sessions", []column{
		{"id", "varbinary(8) NOT NULL"},
		{"expires", "bigint NOT NULL"}, // 0: it has ended for good
		{"ttl", "bigint NOT NULL"},
		{"calls", "bigint NOT NULL"},
	}, ""},
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

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// filled are the options with their defaults.
func (o *Options) filled() (all Options, err error) {
	if o != nil {
		all = *o
	}
	if all.Table == "" {
		all.Table = DefaultTable
	}
	if all.Database != "" && (!identifier.MatchString(all.Database) || len(all.Database) > 64) {
		err = fmt.Errorf("%w: %.70q as the database of a MySQL store: want 1 to 64 letters, digits and underscores, not first a digit", store.ErrInvalid, all.Database)
	} else if !identifier.MatchString(all.Table) || len(all.Table) > 55 {
		err = fmt.Errorf("%w: %.70q as the table of a MySQL store: want 1 to 55 letters, digits and underscores, not first a digit", store.ErrInvalid, all.Table)
	}
	return all, err
}

// prepare sees to it, once, that the tables are there and are ours.
func (b *backend) prepare(ctx context.Context) error {
	return b.checked.Do(ctx, func() error {
		for i := range tables {
			t := &tables[i]
			err := b.checkTable(ctx, t)
			if is(err, noSuchTable) {
				if _, err = b.db.ExecContext(ctx, t.schema(&b.o)); err == nil {
					err = b.checkTable(ctx, t)
				} else if is(err, tableDenied) {
					return fmt.Errorf("%w: the table %s is not there, and this user may not make it: have somebody run what mysqlstore.Schema says (%w)", store.ErrDenied, b.o.quoted(t), err)
				}
			}
			if err != nil {
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
	notOurs := func(why string, args ...any) error {
		return fmt.Errorf("%w: the table %s of %s: "+why+": it is not of this holdfast and was left alone; use another (Options.Table), or drop it if nobody needs it",
			append([]any{store.ErrCorrupt, b.o.quoted(t), b.address}, args...)...)
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
			return notOurs("it has no column %s", want.name)
		}
		if !strings.HasPrefix(kind, "var") {
			kind, _, _ = strings.Cut(kind, "(") // a width of integers means nothing, and MySQL tells none
		}
		if kind+" NOT NULL" != want.kind || !strings.Contains(have[want.name], "not null") {
			return notOurs("its column %s is %s, not %s", want.name, have[want.name], want.kind)
		}
	}
	if key != "("+t.columns[0].name+")" {
		return notOurs("its primary key is %q, not the column %s", key, t.columns[0].name)
	}
	// Anything else forgets what it was told, or has no transactions. Some modes tell no engine.
	if engine != "" && engine != "innodb" {
		return notOurs("it is kept by %s, not by InnoDB", engine)
	}
	return nil
}
