package mysqlstore

import (
	"context"
	"database/sql"
	"strings"
	"time"

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
		_, all, err := b.inspect(ctx)
		if err != nil {
			return false, b.failed(err)
		}
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
	columns     map[string]string // their types; none: this user sees no such table
	rights      string            // what it may do
}

// inspect asks for the facts and for what the tables are, and writes nothing.
func (b *backend) inspect(ctx context.Context) (f facts, all []tableSeen, err error) {
	conn, err := b.db.Conn(ctx) // so that to connect and log in is no part of the round trip by which the clock is read
	if err != nil {
		return f, nil, err
	}
	defer conn.Close()
	var of []string
	for i := range tables {
		is := func(in string) string {
			return in + ".TABLE_SCHEMA=" + b.database() + " AND " + in + ".TABLE_NAME='" + b.o.Table + tables[i].suffix + "'"
		}
		of = append(of, "SELECT "+number(int64(i))+" AS i,ENGINE AS e,COLUMN_NAME AS n,COLUMN_TYPE AS k,IS_NULLABLE AS d,COLUMN_KEY AS p,EXTRA AS x,PRIVILEGES AS r "+
			"FROM information_schema.TABLES AS t JOIN information_schema.COLUMNS AS c WHERE "+is("t")+" AND "+is("c"))
	}
	sent := time.Now()
	rows, err := conn.QueryContext(ctx, "SELECT @@version,CURRENT_USER(),"+b.now()+",@@read_only,@@innodb_flush_log_at_trx_commit,@@log_bin,@@sync_binlog,"+fit+
		",i,e,n,k,d,p,x,r FROM (SELECT 1 AS one) AS o LEFT JOIN ("+strings.Join(of, " UNION ALL ")+") AS s ON 1=1")
	if err != nil {
		return f, nil, err
	}
	defer rows.Close()
	all = make([]tableSeen, len(tables))
	for rows.Next() {
		var i sql.NullInt64
		var engine, name, kind, null, key, extra, rights sql.NullString
		if err := rows.Scan(&f.version, &f.user, &f.now, &f.readOnly, &f.flush, &f.binlog, &f.sync, &f.fit, &i, &engine, &name, &kind, &null, &key, &extra, &rights); err != nil {
			return f, nil, err
		}
		if f.clock.About == "" {
			f.clock = row.CheckClock(f.now, sent)
		}
		if !i.Valid {
			continue
		}
		t := &all[i.Int64]
		if t.columns == nil {
			t.engine, t.rights, t.columns = strings.ToLower(engine.String), strings.ToUpper(rights.String), map[string]string{}
		}
		is := strings.ToLower(kind.String)
		if !strings.HasPrefix(is, "var") {
			is, _, _ = strings.Cut(is, "(") // a width of integers means nothing, and MySQL tells none
		}
		if null.String == "NO" {
			is += " NOT NULL"
		}
		t.columns[strings.ToLower(name.String)] = strings.TrimSpace(is + " " + strings.ToUpper(extra.String))
		if key.String == "PRI" {
			t.key = strings.TrimPrefix(t.key+","+name.String, ",")
		}
	}
	return f, all, rows.Err()
}

// ours reports whether the tables are ours, and which of them is missing, or nil.
func (b *backend) ours(all []tableSeen) (missing *table, err error) {
	for i := range tables {
		t, have := &tables[i], &all[i]
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
		if have.engine != "innodb" { // anything else forgets what it was told, or has no transactions
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
