package mysqlstore

import (
	"context"
	"database/sql"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/row"
)

// A column is one of a table, with its type.
type column struct{ name, kind string }

// A table has its columns; the first is its key.
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

// Schema returns the statements that create the tables if they do not exist: for users without the right to.
// Each ends with a semicolon. The error matches store.ErrInvalid.
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

// A tableSeen is what a table is, as far as this user may see it.
type tableSeen struct {
	engine, key string
	columns     map[string]string // their types; empty: this user sees no such table
	rights      string            // what it may do
}

// A look is what the tables were at an instant.
type look struct {
	of []tableSeen // nil: each of them fits
	at store.Instant
}

// fits reports whether the statements by which the server makes the tables say that they are ours. It costs MariaDB a fifteenth
// of what look costs, and MySQL a quarter. Only look says why a table does not fit, and what this user may do.
func (b *backend) fits(ctx context.Context) bool {
	all := &look{of: make([]tableSeen, len(tables))}
	for i := range tables {
		var name, statement string
		err := b.db.QueryRowContext(ctx, "SHOW CREATE TABLE "+b.o.quoted(&tables[i])).Scan(&name, &statement)
		if err != nil || !strings.HasPrefix(statement, "CREATE TABLE ") { // a temporary one is not seen by another connection
			return false
		}
		all.of[i].created(statement)
	}
	missing, err := b.ours(all)
	return missing == nil && err == nil //mutant:mysql-tables-as-created
}

// created adds what the statement says by which a server makes the table.
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

// mayWrite reports whether this user has all rights that locks need, in tables that fit: none of the statements touches a row.
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

// deleteNothing tries the right to delete from all of the tables, which is not listed per column.
func (b *backend) deleteNothing(ctx context.Context, all []string) error {
	from := strings.Join(all, ",")
	_, err := b.db.ExecContext(ctx, "DELETE "+from+" FROM "+from+" WHERE 1=0")
	return err
}

// look asks what the tables are, and writes nothing. This is the dearest statement that there is: columns and engines are asked for apart, and those
// of all tables at once, as a join of the two took a server four times as long.
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
		var engine, name, kind, null, key, extra, rights sql.NullString // a view has no engine, and for some modes what is empty is NULL
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

// add adds what was read of a table: its engine, or one of its columns.
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

// ours reports whether the tables are holdfast's, and which of them is missing,
// or nil.
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
		if have.engine != "innodb" { // other engines lose writes, or have no transactions
			return missing, b.NotOurs(b.o.quoted(t), "it is kept by %s, not by InnoDB", have.engine)
		}
	}
	return missing, nil
}

// database is the one that has the tables, in SQL.
func (b *backend) database() string {
	if b.o.Database == "" {
		return "DATABASE()"
	}
	return "'" + b.o.Database + "'"
}
