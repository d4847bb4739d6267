package mysqlstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// form is the version of the stored form.
const form = 1

// columns are those of the table, in order, with their types.
var columns = []struct{ name, kind string }{
	{"name", "varbinary(512) NOT NULL PRIMARY KEY"},
	{"form", "smallint NOT NULL"},
	{"rev", "bigint NOT NULL"},    // another random number by each write
	{"newest", "bigint NOT NULL"}, // the newest token drawn
	{"total", "int NOT NULL"},     // how many entries there are; of the first:
	{"lim", "int NOT NULL"},
	{"id", "varbinary(16) NOT NULL"},
	{"weight", "int NOT NULL"},
	{"want", "int NOT NULL"},
	{"turn", "int NOT NULL"},
	{"block", "int NOT NULL"}, // of tokens
	{"flags", "int NOT NULL"},
	{"token", "bigint NOT NULL"},
	{"fence", "bigint NOT NULL"},
	{"since", "bigint NOT NULL"},
	{"expires", "bigint NOT NULL"}, // of an idle name: since when it is
	{"keep", "bigint NOT NULL"},
	{"delay", "bigint NOT NULL"},
	{"broken", "varbinary(255) NULL"},
	{"owner", "varbinary(1024) NULL"},
	{"rest", "mediumblob NULL"}, // the entries behind the first
}

// The longest that the columns have room for.
const (
	maxBroken = 255
	maxOwner  = 1024
	maxRest   = 1<<24 - 1
)

// Schema is the statement that makes the table, if it is not there: for who has
// a user that may not. The error matches store.ErrInvalid.
func Schema(o *Options) (string, error) {
	all := Options{Table: DefaultTable}
	if o != nil {
		all.Database = o.Database
		if o.Table != "" {
			all.Table = o.Table
		}
	}
	return all.schema(), all.check()
}

func (o *Options) schema() string {
	var b strings.Builder
	b.WriteString("CREATE TABLE IF NOT EXISTS " + o.quoted() + " (\n")
	for i, c := range columns {
		b.WriteString("  `" + c.name + "` " + c.kind)
		if i < len(columns)-1 {
			b.WriteString(",")
		}
		b.WriteString("\n")
	}
	b.WriteString(") ENGINE=InnoDB ROW_FORMAT=DYNAMIC")
	return b.String()
}

func (o *Options) quoted() string {
	if o.Database != "" {
		return "`" + o.Database + "`.`" + o.Table + "`"
	}
	return "`" + o.Table + "`"
}

func (o *Options) check() error {
	if o.Database != "" && !identifier(o.Database) {
		return fmt.Errorf("%w: %.70q as the database of a MySQL store: want 1 to 64 letters, digits and underscores, not first a digit", store.ErrInvalid, o.Database)
	}
	if !identifier(o.Table) {
		return fmt.Errorf("%w: %.70q as the table of a MySQL store: want 1 to 64 letters, digits and underscores, not first a digit", store.ErrInvalid, o.Table)
	}
	return nil
}

func identifier(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
		case '0' <= c && c <= '9' && i > 0:
		default:
			return false
		}
	}
	return 1 <= len(s) && len(s) <= 64
}

// prepare sees to it, once, that the table is there and is ours. what was to be
// done names the name.
func (s *Store) prepare(ctx context.Context, what string) error {
	if s.checked.Load() {
		return nil
	}
	s.checking.Lock()
	defer s.checking.Unlock()
	if s.checked.Load() {
		return nil
	}
	err := s.checkTable(ctx)
	if is(err, noSuchTable) {
		if _, err = s.db.ExecContext(ctx, s.o.schema()); err == nil {
			err = s.checkTable(ctx)
		} else if is(err, tableDenied) {
			return fmt.Errorf("%w: %s on %s: the table is not there, and this user may not make it: have somebody run what mysqlstore.Schema says (%w)",
				store.ErrDenied, what, s.address, err)
		}
	}
	if err != nil {
		return s.failed(what, err)
	}
	s.checked.Store(true)
	return nil
}

// checkTable looks at the table, and writes nothing.
func (s *Store) checkTable(ctx context.Context) error {
	rows, err := s.db.QueryContext(ctx, "SHOW COLUMNS FROM "+s.o.quoted())
	if err != nil {
		return err
	}
	defer rows.Close()
	type column struct {
		kind, null, key string
		other           any
	}
	have := map[string]column{}
	for rows.Next() {
		var name string
		var c column
		if err := rows.Scan(&name, &c.kind, &c.null, &c.key, &c.other, &c.other); err != nil {
			return err
		}
		if c.key == "PRI" && name != "name" {
			return s.notOurs("its primary key is more than the column name")
		}
		have[name] = c
	}
	if err := rows.Err(); err != nil {
		return err
	}
	rows.Close()
	for _, want := range columns {
		c, ok := have[want.name]
		kind, _, _ := strings.Cut(c.kind, "(") // a width of integers means nothing, and MySQL tells none
		if strings.HasPrefix(c.kind, "var") {
			kind = c.kind
		}
		words := strings.Fields(want.kind)
		null := "YES"
		if words[1] == "NOT" {
			null = "NO"
		}
		switch {
		case !ok:
			return s.notOurs("it has no column " + want.name)
		case kind != words[0] || c.null != null:
			return s.notOurs(fmt.Sprintf("its column %s is %s (null: %s), not %s", want.name, c.kind, c.null, want.kind))
		case want.name == "name" && c.key != "PRI":
			return s.notOurs("the column name is not its primary key")
		}
	}
	// Anything else forgets what it was told, or has no transactions.
	var engine string
	err = s.db.QueryRowContext(ctx, "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = "+s.o.database()+
		" AND TABLE_NAME = '"+s.o.Table+"'").Scan(&engine)
	if err == nil && engine != "InnoDB" {
		err = s.notOurs("it is kept by " + engine + ", not by InnoDB")
	}
	return err
}

// database is the database, in SQL.
func (o *Options) database() string {
	if o.Database != "" {
		return "'" + o.Database + "'"
	}
	return "DATABASE()"
}

func (s *Store) notOurs(why string) error {
	return fmt.Errorf("%w: %s: %s: the table is not of this holdfast and was left alone; use another (Options.Table), or drop it if nobody needs it",
		store.ErrCorrupt, s.address, why)
}
