package mysqlstore

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

const secret = "p4ss/w:rd@%{}s3cret"

// rights returns those that the package comment lists.
func rights(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("mysqlstore.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(b), "// # Rights\n")
	list, _, _ = strings.Cut(list, "package mysqlstore")
	var all []string
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return !('A' <= r && r <= 'Z') }) {
		if len(word) > 3 {
			all = append(all, word)
		}
	}
	if fmt.Sprint(all) != "[SELECT INSERT UPDATE DELETE CREATE]" {
		t.Fatalf("the package comment lists the rights %q", all)
	}
	return all
}

// user creates a user with these rights on the table of o, and returns connections of that user.
func user(t *testing.T, server *testserver.Server, name string, o *Options, rights ...string) *sql.DB {
	t.Helper()
	root := dbOn(t, testserver.MariaDBDSN(server.Addr))
	mustExec(t, root, "DROP USER IF EXISTS '"+name+"'@'%'")
	mustExec(t, root, "CREATE USER '"+name+"'@'%' IDENTIFIED BY '"+secret+"'")
	if len(rights) > 0 {
		for i := range tables {
			mustExec(t, root, "GRANT "+strings.Join(rights, ",")+" ON locks."+o.Table+tables[i].suffix+" TO '"+name+"'@'%'")
		}
	} else {
		mustExec(t, root, "GRANT SHOW VIEW ON locks.* TO '"+name+"'@'%'")
	}
	return dbOn(t, name+":"+secret+"@tcp("+server.Addr+")/locks")
}

func makeTable(t *testing.T, server *testserver.Server, o *Options) {
	t.Helper()
	schema, err := Schema(o)
	if err != nil {
		t.Fatal(err)
	}
	execAll(t, dbOn(t, testserver.MariaDBDSN(server.Addr)), schema)
}

func execAll(t testing.TB, db *sql.DB, schema string) {
	t.Helper()
	for _, statement := range strings.SplitAfter(strings.TrimSpace(schema), ";\n") {
		mustExec(t, db, statement)
	}
}

func TestRights(t *testing.T) {
	t.Parallel()
	server := testserver.MariaDB(t)
	all := rights(t)
	t.Run("the listed rights suffice", func(t *testing.T) {
		o := &Options{Table: "listed"}
		db := user(t, server, "listed", o, all...)
		t.Run("store", func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) store.Store { return storeOn(t, db, o) })
		})
		s := storeOn(t, db, o)
		defer s.Close()
		if err := s.b.sweep(t.Context()); err != nil {
			t.Errorf("sweep: %v", err)
		}
		for _, f := range s.Check(t.Context()) {
			if f.Level() != store.LevelOK {
				t.Errorf("%s: %s", f.About, f.Text())
			}
		}
	})
	t.Run("with an existing table CREATE is not needed, and DELETE only to clean up", func(t *testing.T) {
		o := &Options{Table: "made"}
		makeTable(t, server, o)
		s := storeOn(t, user(t, server, "less", o, all[:3]...), o)
		defer s.Close()
		storetest.Everything(t, s)
		mustExec(t, dbOn(t, testserver.MariaDBDSN(server.Addr)), "UPDATE made SET written=1")
		if err := s.b.sweep(t.Context()); !is(err, tableDenied) {
			t.Errorf("sweep: %v, want ErrDenied", err)
		}
	})
	for i, right := range all[:3] {
		t.Run(right+" is needed", func(t *testing.T) {
			o := &Options{Table: "needs_" + strings.ToLower(right)}
			makeTable(t, server, o)
			some := append(append([]string{}, all[:i]...), all[i+1:3]...)
			s := storeOn(t, user(t, server, "u_"+right, o, some...), o)
			defer s.Close()
			c := mutex("n")
			a, err := s.Ask(t.Context(), c)
			if err == nil {
				err = s.Release(t.Context(), store.Hold{Name: c.Name, ID: c.ID, Token: a.Token})
			}
			if !errors.Is(err, store.ErrDenied) || strings.Contains(err.Error(), secret) {
				t.Errorf("without it: %v, want ErrDenied", err)
			}
			failed := false
			for _, f := range s.Check(t.Context()) {
				failed = failed || errors.Is(f.Err, store.ErrDenied)
			}
			if !failed {
				t.Errorf("without it Check reports no failure: got %+v", s.Check(t.Context()))
			}
		})
	}
	t.Run("without the right to create the table the check prints what to run", func(t *testing.T) {
		for _, some := range [][]string{nil, all[:4]} {
			o := &Options{Table: "nobodys"}
			if some != nil { // rights on a table that does not exist yet
				o.Table = "somebodys"
				makeTable(t, server, o)
			}
			db := user(t, server, "poor", o, some...)
			if some != nil {
				mustExec(t, dbOn(t, testserver.MariaDBDSN(server.Addr)), "DROP TABLE somebodys,somebodys_sessions,somebodys_notes")
			}
			s := storeOn(t, db, o)
			defer s.Close()
			if _, err := s.Ask(t.Context(), mutex("n")); !errors.Is(err, store.ErrDenied) {
				t.Errorf("%v, want ErrDenied", err)
			}
			found := s.Check(t.Context())
			last := found[len(found)-1]
			if last.Level() != store.LevelFailure || !strings.Contains(last.Run, "CREATE TABLE") || !strings.Contains(last.Run, "GRANT") || !strings.Contains(last.Run, "_sessions") {
				t.Errorf("got finding %+v", last)
			}
		}
	})
	t.Run("a right by a role is not visible, and no failure", func(t *testing.T) {
		o := &Options{Table: "of_a_role"}
		root := dbOn(t, testserver.MariaDBDSN(server.Addr))
		makeTable(t, server, o)
		db := user(t, server, "actor", o)
		mustExec(t, root, "DROP TABLE of_a_role,of_a_role_sessions,of_a_role_notes")
		gives := "TO"
		if strings.HasPrefix(isolation(t, testserver.MariaDBDSN(server.Addr), ""), "tx_") {
			gives = "FOR"
		}
		for _, statement := range []string{"CREATE ROLE locker", "GRANT CREATE,SELECT,INSERT,UPDATE,DELETE ON locks.* TO locker", "GRANT locker TO 'actor'@'%'", "SET DEFAULT ROLE locker " + gives + " 'actor'@'%'"} {
			mustExec(t, root, statement)
		}
		s := storeOn(t, db, o)
		defer s.Close()
		table := func() (found store.Finding) {
			for _, f := range s.Check(t.Context()) {
				if f.About == "table" {
					found = f
				}
			}
			return found
		}
		if f := table(); f.Level() != store.LevelWarning || !strings.Contains(f.Run, "CREATE TABLE") {
			t.Errorf("before the first claim: got %s %q", f.Level(), f.Text())
		}
		mustAsk(t, s, mutex("n"))
		if _, err := root.ExecContext(t.Context(), "SELECT 1 FROM of_a_role"); err != nil {
			t.Errorf("the table was not created: %v", err)
		}
	})
	t.Run("a wrong password is reported, and not shown", func(t *testing.T) {
		user(t, server, "somebody", &Options{Table: "listed"}, all...)
		s := storeOn(t, dbOn(t, "somebody:"+secret+"x@tcp("+server.Addr+")/locks"), nil)
		defer s.Close()
		if _, err := s.Ask(t.Context(), mutex("n")); !errors.Is(err, store.ErrDenied) || strings.Contains(err.Error(), secret) {
			t.Errorf("%v", err)
		}
	})
}

// Nothing is written into somebody else's table.
func TestAForeignTableIsReportedAndLeftAlone(t *testing.T) {
	db := dbOn(t, sharedDSN(t))
	for what, c := range map[string]struct{ from, to string }{
		"it has no column taken":              {"  `taken` mediumblob NOT NULL,\n", ""},
		"its column taken is bigint":          {"`taken` mediumblob NOT NULL", "`taken` bigint NOT NULL"}, // as in form 2
		"it has no column calls":              {"  `calls` bigint NOT NULL,\n", ""},
		"its column name is varbinary(100)":   {"varbinary(512)", "varbinary(100)"},
		"its column name is varchar(512)":     {"varbinary(512)", "varchar(512)"},
		"its column rev is int":               {"`rev` bigint NOT NULL", "`rev` int NOT NULL"},
		"its column expires is bigint":        {"`expires` bigint NOT NULL", "`expires` bigint NULL"},
		"its primary key is \"\"":             {",\n  PRIMARY KEY (`name`)", ""},
		"its primary key is \"name,rev\"":     {"PRIMARY KEY (`name`)", "PRIMARY KEY (`name`,`rev`)"},
		"its column id is bigint NOT NULL,":   {" AUTO_INCREMENT", ""},
		"it is kept by myisam, not by InnoDB": {"ENGINE=InnoDB", "ENGINE=MyISAM"},
	} {
		t.Run(what, func(t *testing.T) {
			o := apart()
			s := storeOn(t, db, o)
			defer s.Close()
			schema, _ := Schema(o)
			execAll(t, db, strings.Replace(schema, c.from, c.to, 1))
			for range 2 {
				if _, err := s.Ask(t.Context(), mutex("n")); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), what) {
					t.Errorf("Ask: %v, want %q", err, what)
				}
			}
			found := s.Check(t.Context())
			if last := found[len(found)-1]; !errors.Is(last.Err, store.ErrCorrupt) {
				t.Errorf("got finding %+v", last)
			}
			var n int
			if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+s.b.records).Scan(&n); err != nil || n != 0 {
				t.Errorf("got %d rows, %v, want none", n, err)
			}
		})
	}
}

// A table is dropped, or changed, while it is in use.
func TestADroppedTableIsRecreatedAChangedOneReported(t *testing.T) {
	s := newShared(t)
	h := mustHold(t, s, mutex("n"))
	mustExec(t, s.b.db, "DROP TABLE "+s.b.records+","+s.b.sessions+","+s.b.notes)
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; !errors.Is(err, store.ErrLost) {
		t.Errorf("renewal without the table: %v, want ErrLost", err)
	}
	if next := mustHold(t, s, mutex("n")); next.Token <= h.Token {
		t.Errorf("got token %d after %d, want a larger one", next.Token, h.Token)
	}
	mustExec(t, s.b.db, "ALTER TABLE "+s.b.records+" DROP COLUMN taken")
	for range 2 {
		if _, err := s.Ask(t.Context(), mutex("n")); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("Ask: %v, want ErrCorrupt", err)
		}
	}
}

func TestBadInputIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	dsn := sharedDSN(t)
	for _, bad := range []Options{{Table: "1a"}, {Table: "a b"}, {Table: "a`b"}, {Table: "ä"}, {Table: strings.Repeat("a", 56)}, {Database: "a.b"}, {Database: "'"}} {
		if _, err := New(dbOn(t, dsn), &bad); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: got %v, want ErrInvalid", bad, err)
		}
		if _, err := Schema(&bad); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("Schema of %+v: %v, want ErrInvalid", bad, err)
		}
	}
	if _, err := New(nil, nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("without a database: %v, want ErrInvalid", err)
	}
	s := storeOn(t, dbOn(t, dsn), &Options{Database: "no_such_database"})
	defer s.Close()
	if _, err := s.Ask(t.Context(), mutex("n")); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "no_such_database") {
		t.Errorf("without the database: %v, want ErrInvalid", err)
	}
	good := newShared(t)
	h := store.Hold{Name: "n", ID: me.NewID(), Token: 1, TTL: time.Minute}
	for what, f := range map[string]func() error{
		"no weight": func() error { c := mutex("n"); c.Weight = 0; _, err := good.Ask(t.Context(), c); return err },
		"a TTL": func() error {
			c := mutex("n")
			c.TTL = time.Millisecond
			_, err := good.Ask(t.Context(), c)
			return err
		},
		"a lock delay": func() error { c := mutex("n"); c.LockDelay = -1; _, err := good.Ask(t.Context(), c); return err },
		"the owner": func() error {
			c := mutex("n")
			c.Owner = strings.Repeat("o", 1025)
			_, err := good.Poll(t.Context(), c)
			return err
		},
		"a long TTL": func() error {
			h := h
			h.TTL = 400 * 24 * time.Hour
			return good.Renew(t.Context(), []store.Hold{h})[0].Err
		},
		"the reason": func() error {
			return good.BreakHold(t.Context(), store.Break{Name: "n", Reason: strings.Repeat("r", 201)})
		},
		"a turn of 0":   func() error { _, err := good.Change(t.Context(), h, 0, store.Full); return err },
		"no name":       func() error { return good.Release(t.Context(), store.Hold{}) },
		"no name, list": func() (err error) { return good.BreakHold(t.Context(), store.Break{}) },
	} {
		if err := f(); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", what, err)
		}
	}
	if good.b.Checked.Done.Load() {
		t.Error("the server got a request")
	}
}

// Each process checks once, when it first meets the server. That check uses once what was already read of the tables, and only for a short
// time.
func TestTheFirstCheckReadsNoTableAgain(t *testing.T) {
	tables := func(s *Store) error {
		found := s.Check(t.Context())
		return found[len(found)-1].Err
	}
	for what, c := range map[string]struct {
		ago   time.Duration
		first error
	}{"just now": {}, "a while ago": {seenFor, store.ErrCorrupt}} {
		s := newShared(t)
		mustHold(t, s, mutex("n"))
		mustExec(t, s.b.db, "ALTER TABLE "+s.b.records+" DROP COLUMN taken")
		s.b.seen.Load().at -= store.Instant(c.ago)
		if err := tables(s); !errors.Is(err, c.first) {
			t.Errorf("seen %s: got %v from the first check", what, err)
		}
		if err := tables(s); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("seen %s: got %v from the second check", what, err)
		}
	}
}

// The check tries the rights that it cannot read.
func TestTheFirstCheckFindsAMissingRight(t *testing.T) {
	t.Parallel()
	server := testserver.MariaDB(t)
	all := rights(t)[:4]
	for i, right := range all {
		t.Run(right, func(t *testing.T) {
			o := &Options{Table: "first_" + strings.ToLower(right)}
			makeTable(t, server, o)
			s := storeOn(t, user(t, server, "first_"+right, o, slices.Delete(slices.Clone(all), i, i+1)...), o)
			defer s.Close()
			if err := s.b.prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			found := s.b.Check(t.Context())
			if last := found[len(found)-1]; last.About != "table" || !strings.Contains(last.Run, "GRANT") || !strings.Contains(last.Text(), right) {
				t.Errorf("without it: got finding %+v", last)
			}
		})
	}
}

// The server decides whether case counts in the names of tables.
func TestATableIsFoundByItsNameAsTheServerHasIt(t *testing.T) {
	t.Parallel()
	o := apart()
	db := dbOn(t, sharedDSN(t))
	mustExec(t, db, "CREATE TABLE `"+strings.ToUpper(o.Table)+"` (name int)")
	s := storeOn(t, db, o)
	defer s.Close()
	mustHold(t, s, mutex("n"))
	folds := testserver.MariaDB(t, "--lower-case-table-names=1")
	s = storeOn(t, dbOn(t, testserver.MariaDBDSN(folds.Addr)), &Options{Table: "Locks"})
	defer s.Close()
	mustHold(t, s, mutex("n"))
	all, err := s.b.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if missing, err := s.b.ours(all); missing != nil || err != nil {
		t.Errorf("after reading the tables: got missing %+v: %v", missing, err)
	}
}

func TestAReadOnlyServerIsReported(t *testing.T) {
	t.Parallel()
	server := testserver.MariaDB(t)
	root := dbOn(t, testserver.MariaDBDSN(server.Addr))
	s := storeOn(t, user(t, server, "locks", &Options{Table: DefaultTable}, rights(t)...), nil)
	defer s.Close()
	h, gives := mustHold(t, s, mutex("n")), mustHold(t, s, mutex("gives"))
	mustExec(t, root, "SET GLOBAL read_only=1")
	for what, f := range map[string]func() error{
		"ask":     func() error { _, err := s.Ask(t.Context(), mutex("other")); return err },
		"begin":   func() error { _, err := s.b.Begin(t.Context(), session.NewID(), time.Minute); return err },
		"renew":   func() error { _, err := s.b.Renew(t.Context(), s.Sessions()[0]); return err },
		"release": func() error { return s.Release(t.Context(), gives) },
	} {
		if err := f(); err == nil || store.Definite(err) || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("%s: got %v, want that the server is read-only", what, err)
		}
	}
	sent := store.Now()
	if r := s.Renew(t.Context(), []store.Hold{h})[0]; r.Err == nil && r.From >= sent {
		t.Error("a read-only server renewed a hold")
	}
	if f := s.Check(t.Context()); f[1].Level() != store.LevelFailure {
		t.Errorf("got finding %+v", f)
	}
	mustExec(t, root, "SET GLOBAL read_only=0")
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil {
		t.Errorf("renewal on a writable server: %v", err)
	}
}

func TestTheCheckWarnsOfAPoolThatOthersCanEmpty(t *testing.T) {
	t.Parallel()
	db := dbOn(t, sharedDSN(t))
	s := storeOn(t, db, apart())
	defer s.Close()
	own, err := Open("mysql://"+strings.NewReplacer("tcp(", "", ")", "").Replace(sharedDSN(t)), apart())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	for what, c := range map[string]struct {
		s     *Store
		most  int
		warns bool
	}{"no bound": {s, 0, false}, "a bound": {s, 5, true}, "its own": {own, 0, false}} {
		db.SetMaxOpenConns(c.most)
		warned := false
		for _, f := range c.s.Check(t.Context()) {
			warned = warned || f.About == "pool" && f.Warning
			if f.Err != nil {
				t.Errorf("%s: got %+v", what, f)
			}
		}
		if warned != c.warns {
			t.Errorf("%s: got a warning: %v", what, warned)
		}
	}
}
