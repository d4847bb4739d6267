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
	select {
	case s.checking <- struct{}{}:
	case <-ctx.Done():
		return s.failed(what, ctx.Err()) //mutant:mysql-first-call-waits-for-no-other
	}
	defer func() { <-s.checking }()
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

// checkTable looks at the table, and writes nothing. SHOW CREATE TABLE is one
// round trip, and makes no temporary table in the server.
func (s *Store) checkTable(ctx context.Context) error {
	var name, made string
	if err := s.db.QueryRowContext(ctx, "SHOW CREATE TABLE "+s.o.quoted()).Scan(&name, &made); err != nil {
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
	for _, want := range columns {
		words, has := strings.Fields(want.kind), strings.Fields(have[want.name])
		if len(has) == 0 {
			return s.notOurs("it has no column " + want.name)
		}
		kind := has[0]
		if !strings.HasPrefix(kind, "var") {
			kind, _, _ = strings.Cut(kind, "(") // a width of integers means nothing, and MySQL tells none
		}
		if null := !strings.Contains(have[want.name], "not null"); kind != words[0] || null != (words[1] == "NULL") {
			return s.notOurs(fmt.Sprintf("its column %s is %s, not %s", want.name, have[want.name], want.kind))
		}
	}
	if key != "(name)" {
		return s.notOurs(fmt.Sprintf("its primary key is %q, not the column name", key))
	}
	// Anything else forgets what it was told, or has no transactions. Some modes
	// tell no engine.
	if engine != "" && engine != "innodb" {
		return s.notOurs("it is kept by " + engine + ", not by InnoDB")
	}
	return nil
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
