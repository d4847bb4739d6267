package mssqlstore

import (
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// rights returns those that the package comment lists.
func rights(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("mssqlstore.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(b), "suffice:\n")
	list, _, _ = strings.Cut(list, "To make the tables")
	var all []string
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return !('A' <= r && r <= 'Z') }) {
		if len(word) > 3 {
			all = append(all, word)
		}
	}
	if strings.Join(all, " ") != "SELECT INSERT UPDATE DELETE" {
		t.Fatalf("the package comment lists the rights %q", all)
	}
	return all
}

// user creates a user with these rights on existing tables, and returns connections of that user.
func user(t *testing.T, o *Options, make bool, rights ...string) *sql.DB {
	t.Helper()
	at := testserver.SQLServer(t)
	root, name, all := plainOn(t, at), "u_"+store.NewProcess().String(), *o
	all, _ = all.filled()
	if make {
		schema, err := Schema(o)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, root, schema)
	}
	if _, err := root.ExecContext(t.Context(), "CREATE USER "+name+" WITHOUT LOGIN"); err != nil {
		t.Skipf("this SQL Server does not let the tests create users: %v", err)
	}
	t.Cleanup(func() {
		if db, err := sql.Open("sqlserver", at); err == nil {
			db.Exec("DROP USER " + name)
			db.Close()
		}
	})
	if len(rights) > 0 {
		for _, table := range []string{all.locks(), all.sessions()} {
			mustExec(t, root, "GRANT "+strings.Join(rights, ",")+" ON "+table+" TO "+name)
		}
	}
	return initialized(t, at, "EXECUTE AS USER = '"+name+"'")
}

func TestRights(t *testing.T) {
	t.Parallel()
	testserver.SQLServer(t)
	all := rights(t)
	on := func(t *testing.T, make bool, some ...string) *Store {
		o := apart(t)
		s, err := New(user(t, o, make, some...), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	t.Run("the listed rights suffice", func(t *testing.T) {
		s := on(t, true, all...)
		storetest.Everything(t, s)
		if err := s.b.sweep(t.Context()); err != nil {
			t.Errorf("sweep: %v", err)
		}
		for _, f := range s.Check(t.Context()) {
			if f.Level() == store.LevelFailure {
				t.Errorf("%s: %s", f.About, f.Text())
			}
		}
	})
	t.Run("DELETE is needed only to clean up", func(t *testing.T) {
		s := on(t, true, all[:3]...)
		storetest.Everything(t, s)
		mustExec(t, plainOn(t, testserver.SQLServer(t)), "UPDATE "+s.b.o.sessions()+" SET expires=0")
		if err := s.b.sweep(t.Context()); !errors.Is(err, store.ErrDenied) {
			t.Errorf("sweep: %v, want ErrDenied", err)
		}
	})
	for i, right := range all[:3] {
		t.Run(right+" is needed", func(t *testing.T) {
			some := append(append([]string{}, all[:i]...), all[i+1:3]...)
			s := on(t, true, some...)
			c := mutex("n")
			a, err := s.Ask(t.Context(), c)
			if err == nil {
				err = s.Release(t.Context(), store.Hold{Name: c.Name, ID: c.ID, Token: a.Token})
			}
			if !errors.Is(err, store.ErrDenied) {
				t.Errorf("without it: %v, want ErrDenied", err)
			}
			found := s.Check(t.Context())
			if last := found[len(found)-1]; !errors.Is(last.Err, store.ErrDenied) {
				t.Errorf("without it: got finding %+v", last)
			}
		})
	}
	t.Run("without the right to create the table the check prints what to run", func(t *testing.T) {
		s := on(t, false)
		if _, err := s.Ask(t.Context(), mutex("n")); !errors.Is(err, store.ErrDenied) {
			t.Errorf("%v, want ErrDenied", err)
		}
		found := s.Check(t.Context())
		last := found[len(found)-1]
		if last.Level() != store.LevelFailure || !strings.Contains(last.Run, "CREATE TABLE") || !strings.Contains(last.Run, "GRANT") || !strings.Contains(last.Run, "_sessions") {
			t.Errorf("got finding %+v", last)
		}
	})
}

// Nothing is written into somebody else's table.
func TestAForeignTableIsReportedAndLeftAlone(t *testing.T) {
	t.Parallel()
	db := plainOn(t, testserver.SQLServer(t))
	for what, c := range map[string]struct{ from, to string }{
		`its column taken is ""`:                            {"[taken] bigint NOT NULL,\n", ""},
		`its column calls is ""`:                            {",\n[calls] bigint NOT NULL\n", ""},
		`its column name is "varbinary of 100 bytes, key"`:  {"varbinary(513)", "varbinary(100)"},
		`its column name is "varchar of 513 bytes, key"`:    {"varbinary(513)", "varchar(513)"},
		`its column rev is "int of 4 bytes"`:                {"[rev] bigint NOT NULL", "[rev] int NOT NULL"},
		`its column expires is "bigint of 8 bytes or NULL"`: {"[expires] bigint NOT NULL", "[expires] bigint NULL"},
		`its column name is "varbinary of 513 bytes"`:       {"(513) NOT NULL PRIMARY KEY", "(513) NOT NULL"},
		`its column rev is "bigint of 8 bytes, key"`:        {" PRIMARY KEY,\n[form] smallint NOT NULL", ",\n[form] smallint NOT NULL,\nPRIMARY KEY ([name],[rev])"},
		`its primary key has the column mine`:               {" PRIMARY KEY,\n[form] smallint NOT NULL", ",\n[mine] int NOT NULL,\n[form] smallint NOT NULL,\nPRIMARY KEY ([name],[mine])"},
	} {
		t.Run(what, func(t *testing.T) {
			o := apart(t)
			s, err := New(db, o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			schema, _ := Schema(o)
			mustExec(t, db, strings.Replace(schema, c.from, c.to, 1))
			for range 2 {
				if _, err := s.Ask(t.Context(), mutex("n")); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), what) {
					t.Errorf("Ask: %v, want %q", err, what)
				}
			}
			found := s.Check(t.Context())
			if last := found[len(found)-1]; !errors.Is(last.Err, store.ErrCorrupt) {
				t.Errorf("got finding %+v", last)
			}
		})
	}
}

// A table is dropped while it is in use.
func TestADroppedTableIsRecreated(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	h := mustHold(t, s, mutex("n"))
	mustExec(t, s.b.db, "DROP TABLE "+s.b.o.locks()+","+s.b.o.sessions())
	until(t, "the hold is lost", func() bool { return errors.Is(s.Renew(t.Context(), []store.Hold{h})[0].Err, store.ErrLost) })
	var next store.Answer
	until(t, "the name is free", func() bool {
		var err error
		next, err = s.Ask(t.Context(), mutex("n"))
		return err == nil && next.Granted
	})
	if next.Token <= h.Token {
		t.Errorf("got token %d after %d, want a larger one", next.Token, h.Token)
	}
}

func TestManyProcessesCreateTheTablesAtOnce(t *testing.T) {
	t.Parallel()
	o := apart(t)
	done := make(chan error)
	for range 8 {
		b, err := open(testserver.SQLServer(t), o)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		go func() { done <- b.prepare(t.Context()) }()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestAWrongPasswordIsReportedAndNotShown(t *testing.T) {
	t.Parallel()
	at := testserver.SQLServer(t)
	_, rest, _ := strings.Cut(at, "@")
	if rest == "" {
		rest = strings.TrimPrefix(at, "sqlserver://")
	}
	s, err := Open("sqlserver://holdfast_nobody:p4ss%2Fw%3Ard@"+rest, apart(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Ask(t.Context(), mutex("n")); err == nil || strings.Contains(err.Error(), "p4ss") {
		t.Errorf("%v", err)
	}
}

func TestTheCheckReportsWhatItFinds(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	finds := func(about, says string) {
		t.Helper()
		for _, f := range s.Check(t.Context()) {
			if f.About == about {
				if f.Level() == store.LevelFailure || !strings.Contains(f.Text()+f.Run, says) {
					t.Errorf("%s: got %s %q, want %s", about, f.Text(), f.Run, says)
				}
				return
			}
		}
		t.Errorf("no finding about %s", about)
	}
	finds("role", "takes writes")
	finds("clock", "this host's")
	finds("reading", "READ_COMMITTED_SNAPSHOT")
	finds("disk", "")
	finds("table", "first use creates it")
	if there, err := s.b.checkTables(t.Context()); err != nil || there {
		t.Errorf("the check created the table: %v, %v", there, err)
	}
	mustHold(t, s, mutex("n"))
	finds("table", "exists")
}
