package mysqlstore

import (
	"context"
	"database/sql"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/row"
)

// A column is a column of a table, with its type.
type column struct{ name, kind string }

// A table has columns; the first one is its key.
type table struct {
	suffix  string // after Options.Table
	columns []column
	index   string
}

var tables = []table{
	{"", []column{
		{"name", "varbinary(512) NOT NULL"},
		{"form", "smallint NOT NULL"},
		{"rev", "bigint NOT NULL"}, // a new random number for each swap
		{"idle", "tinyint NOT NULL"},
		{"written", "bigint NOT NULL"},   // the approximate time of the last write
		{"taken", "mediumblob NOT NULL"}, // the notes that were taken in and whose rows may exist
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
		{"name", "varbinary(512) NOT NULL"}, // empty: it was taken in and discarded
		{"data", "mediumblob NOT NULL"},
	}, ",\n  KEY `name` (`name`)"},
}

// Schema returns the statements that create the tables if they do not exist, for users that may not create them. Each
// ends with a semicolon. The error matches store.ErrInvalid.
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

// filled returns the options with their defaults.
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

// prepare makes sure, once, that the tables exist and are holdfast's.
func (b *backend) prepare(ctx context.Context) error {
	return b.Prepare(ctx, func() (bool, error) {
		if now := store.Now(); b.fits(ctx) {
			b.seen.Store(&look{at: now})
			return true, nil
		}
		all, err := b.look(ctx)
		if err != nil {
			return false, b.failed(err)
		}
		b.seen.Store(all)
		missing, err := b.ours(all)
		return missing == nil, err
	}, func() error {
		for i := range tables {
			if _, err := b.db.ExecContext(ctx, tables[i].schema(&b.o)); err != nil {
				return b.failed(err)
			}
		}
		return nil
	})
}

// A tableSeen is a table as far as this user may see it.
type tableSeen struct {
	engine, key string
	columns     map[string]string // the columns' types; empty: this user sees no such table
	rights      string            // what this user may do
}

// A look is the state of the tables at one time.
type look struct {
	of []tableSeen // nil: all tables fit
	at store.Instant
}

// fits reports whether the tables are ours, according to the statements that the server would create them with. On MariaDB
// it costs a fifteenth of look, on MySQL a quarter. Only look says why a table does not fit, and what this user may do.
func (b *backend) fits(ctx context.Context) bool {
	all := &look{of: make([]tableSeen, len(tables))}
	for i := range tables {
		var name, statement string
		err := b.db.QueryRowContext(ctx, "SHOW CREATE TABLE "+b.o.quoted(&tables[i])).Scan(&name, &statement)
		if err != nil || !strings.HasPrefix(statement, "CREATE TABLE ") { // other connections do not see a temporary table
			return false
		}
		all.of[i].created(statement)
	}
	missing, err := b.ours(all)
	return missing == nil && err == nil //mutant:mysql-tables-as-created
}

// created reads the table from the statement that would create it.
func (t *tableSeen) created(statement string) {
	for line := range strings.Lines(statement) {
		line = strings.TrimRight(line, ",\n")
		if column, ok := strings.CutPrefix(line, "  `"); ok {
			name, rest, _ := strings.Cut(column, "` ")
			kind, rest, _ := strings.Cut(rest, " ")
			null := "YES"
			if extra, ok := strings.CutPrefix(rest, "NOT NULL"); ok {
				null, rest = "NO", strings.TrimSpace(extra)
			}
			t.add("", name, kind, null, "", rest, "")
		} else if key, ok := strings.CutPrefix(line, "  PRIMARY KEY (`"); ok {
			t.key = strings.TrimSuffix(key, "`)")
		} else if engine, ok := strings.CutPrefix(line, ") ENGINE="); ok {
			engine, _, _ = strings.Cut(engine, " ")
			t.add(engine, "", "", "", "", "", "") //mutant:mysql-engine-as-created
		}
	}
}

// mayWrite reports whether this user has all rights that locks need, in tables that fit. Its statements touch no rows.
func (b *backend) mayWrite(ctx context.Context) bool {
	var all, sets, statements []string
	for i := range tables {
		name, column := b.o.quoted(&tables[i]), ".`"+tables[i].columns[1].name+"`"
		all, sets = append(all, name), append(sets, name+column+"="+name+column)
		statements = append(statements, "INSERT INTO "+name+" SELECT * FROM "+name+" WHERE 1=0") //mutant:mysql-rights-to-insert
	}
	statements = append(statements, "UPDATE "+strings.Join(all, ",")+" SET "+strings.Join(sets, ",")+" WHERE 1=0") //mutant:mysql-rights-to-update
	for _, statement := range statements {
		if _, err := b.db.ExecContext(ctx, statement); err != nil {
			return false
		}
	}
	return b.deleteNothing(ctx, all) == nil //mutant:mysql-rights-to-delete
}

// deleteNothing tests the right to delete from all of the tables, which is not listed per column.
func (b *backend) deleteNothing(ctx context.Context, all []string) error {
	from := strings.Join(all, ",")
	_, err := b.db.ExecContext(ctx, "DELETE "+from+" FROM "+from+" WHERE 1=0")
	return err
}

// look reads what the tables are, and writes nothing. It is the most expensive statement of all. It reads the columns
// and the engines of all tables separately, because a join of the two takes a server four times as long.
func (b *backend) look(ctx context.Context) (*look, error) {
	var names []string
	for i := range tables {
		names = append(names, "'"+b.o.Table+tables[i].suffix+"'")
	}
	of := " WHERE TABLE_SCHEMA=" + b.database() + " AND TABLE_NAME IN (" + strings.Join(names, ",") + ")"
	rows, err := b.db.QueryContext(ctx, "SELECT @@lower_case_table_names,s.* FROM ("+
		"SELECT TABLE_NAME,'' AS e,COLUMN_NAME,COLUMN_TYPE,IS_NULLABLE,COLUMN_KEY,EXTRA,PRIVILEGES FROM information_schema.COLUMNS"+of+
		" UNION ALL SELECT TABLE_NAME,ENGINE,'','','','','','' FROM information_schema.TABLES"+of+") AS s")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := &look{make([]tableSeen, len(tables)), store.Now()}
	for rows.Next() {
		var folds int
		var table string
		var engine, name, kind, null, key, extra, rights sql.NullString // a view has no engine, and some modes return NULL for an empty string
		if err := rows.Scan(&folds, &table, &engine, &name, &kind, &null, &key, &extra, &rights); err != nil {
			return nil, err
		}
		for i := range tables {
			if is := b.o.Table + tables[i].suffix; table == is || folds != 0 && strings.EqualFold(table, is) { //mutant:mysql-tables-by-their-case
				all.of[i].add(engine.String, name.String, kind.String, null.String, key.String, extra.String, rights.String)
			}
		}
	}
	return all, rows.Err()
}

// add adds what was read about a table: its engine or one of its columns.
func (t *tableSeen) add(engine, name, kind, null, key, extra, rights string) {
	if name == "" {
		t.engine = strings.ToLower(engine)
		return
	}
	if t.columns == nil {
		t.rights, t.columns = strings.ToUpper(rights), map[string]string{}
	}
	is := strings.ToLower(kind)
	if !strings.HasPrefix(is, "var") {
		is, _, _ = strings.Cut(is, "(") // the width of an integer has no meaning, and MySQL returns none
	}
	if null == "NO" {
		is += " NOT NULL"
	}
	t.columns[strings.ToLower(name)] = strings.TrimSpace(is + " " + strings.ToUpper(extra))
	if key == "PRI" {
		t.key = strings.TrimPrefix(t.key+","+name, ",")
	}
}

// ours returns an error if one of the tables is not holdfast's. missing is one that does not exist, or nil.
func (b *backend) ours(all *look) (missing *table, err error) {
	for i := range tables {
		t, have := &tables[i], &all.of[i]
		if have.columns == nil {
			missing = t
			continue
		}
		for _, want := range t.columns {
			switch kind := have.columns[want.name]; kind {
			case want.kind:
			case "":
				return missing, b.NotOurs(b.o.quoted(t), "it has no column %s", want.name)
			default:
				return missing, b.NotOurs(b.o.quoted(t), "its column %s is %s, not %s", want.name, kind, want.kind)
			}
		}
		if have.key != t.columns[0].name {
			return missing, b.NotOurs(b.o.quoted(t), "its primary key is %q, not the column %s", have.key, t.columns[0].name)
		}
		if have.engine != "innodb" { // other engines lose writes or have no transactions
			return missing, b.NotOurs(b.o.quoted(t), "it is kept by %s, not by InnoDB", have.engine)
		}
	}
	return missing, nil
}

// database returns the database of the tables, in SQL.
func (b *backend) database() string {
	if b.o.Database == "" {
		return "DATABASE()"
	}
	return "'" + b.o.Database + "'"
}
