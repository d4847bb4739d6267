package mysqlstore

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/session"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// with adds parameters to a DSN. The driver sets those that it does not know as settings of the session.
func with(dsn string, params ...string) string {
	for _, p := range params {
		key, value, _ := strings.Cut(p, "=")
		sep := "?"
		if strings.Contains(dsn, "?") {
			sep = "&"
		}
		dsn += sep + key + "=" + url.QueryEscape(value)
	}
	return dsn
}

// isolation returns the session setting of the isolation level. MariaDB has another name for it.
func isolation(t testing.TB, dsn, level string) string {
	t.Helper()
	var version string
	if err := dbOn(t, dsn).QueryRowContext(t.Context(), "SELECT @@version").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(version, "MariaDB") {
		return "tx_isolation='" + level + "'"
	}
	return "transaction_isolation='" + level + "'"
}

// The store works with whatever settings a user has made on the connections.
func TestItWorksHoweverTheConnectionsAreSet(t *testing.T) {
	strange := "sql_mode='ANSI_QUOTES,PIPES_AS_CONCAT,IGNORE_SPACE,HIGH_NOT_PRECEDENCE,NO_BACKSLASH_ESCAPES,NO_UNSIGNED_SUBTRACTION,PAD_CHAR_TO_FULL_LENGTH,REAL_AS_FLOAT,ONLY_FULL_GROUP_BY'"
	for name, params := range map[string][]string{
		"as they come":                 {},
		"no sql_mode":                  {"sql_mode=''"},
		"a strict one":                 {"sql_mode='TRADITIONAL'"},
		"a strange one":                {strange},
		"parameters interpolated":      {"interpolateParams=true"},
		"times parsed, rows found":     {"parseTime=true", "clientFoundRows=true", "loc=Asia/Kathmandu", "time_zone='-11:00'"},
		"another character set":        {"charset=latin1"},
		"a collation that merges more": {"collation=utf8mb4_unicode_ci", "charset=utf8mb4"},
		"serializable":                 {isolation(t, sharedDSN(t), "SERIALIZABLE")},
		"read committed":               {isolation(t, sharedDSN(t), "READ-COMMITTED")},
	} {
		t.Run(name, func(t *testing.T) {
			s := storeOn(t, dbOn(t, with(sharedDSN(t), params...)), apart())
			defer s.Close()
			storetest.Everything(t, s)
		})
	}
	t.Run("a pool of one connection", func(t *testing.T) {
		db := dbOn(t, sharedDSN(t))
		db.SetMaxOpenConns(1)
		s := storeOn(t, db, apart())
		defer s.Close()
		storetest.Everything(t, s)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 25 {
					c := mutex("crowd")
					c.Try = true
					a, err := s.Ask(t.Context(), c)
					if err == nil && a.Granted {
						err = s.Release(t.Context(), store.Hold{Name: c.Name, ID: c.ID, Token: a.Token})
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// MariaDB's own modes turn empty strings into NULL, and make the assignments of a statement simultaneous.
func TestItWorksInTheModesOfMariaDBAlone(t *testing.T) {
	for _, mode := range []string{"SIMULTANEOUS_ASSIGNMENT", "EMPTY_STRING_IS_NULL", "ORACLE", "MSSQL"} {
		t.Run(mode, func(t *testing.T) {
			db := dbOn(t, with(sharedDSN(t), "sql_mode='"+mode+"'"))
			if err := db.PingContext(t.Context()); is(err, 1231) {
				return // MySQL has none of these
			}
			s := storeOn(t, db, apart())
			defer s.Close()
			storetest.Everything(t, s)
		})
	}
}

// The whole suite runs with unkind settings: each read of an ordinary transaction locks, the driver interpolates nothing, and the counts of
// affected rows are wrong.
func TestTheSuitePassesUnderSerializable(t *testing.T) {
	db := dbOn(t, with(sharedDSN(t), isolation(t, sharedDSN(t), "SERIALIZABLE"), "clientFoundRows=true", "sql_mode='TRADITIONAL'"))
	o := apart()
	storetest.Run(t, func(t *testing.T) store.Store { return storeOn(t, db, o) })
}

// Without autocommit, a write vanishes with its connection, or becomes visible to others when somebody commits.
func TestAConnectionWithoutAutocommitIsRefused(t *testing.T) {
	refusesAll(t, "autocommit=1", "autocommit=0")
}

// Uncommitted data may be rolled back, so it must not be used.
func TestAConnectionThatReadsWhatIsNotCommittedIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		b := backendOn(t, with(dsn, isolation(t, dsn, "READ-UNCOMMITTED")), apart())
		defer b.Close()
		for what, f := range map[string]func() error{
			"load": func() error { _, err := b.Load(t.Context(), "n"); return err },
			"left": func() error { _, err := b.Left(t.Context(), []session.ID{{1}}); return err },
			"list": func() (err error) {
				for _, err = range b.List(t.Context(), 0) {
				}
				return err
			},
		} {
			if what == "list" {
				mustExec(t, dbOn(t, dsn), "INSERT INTO "+b.records+" VALUES (x'61',3,1,0,0,'0',x'01')")
			}
			if err := f(); !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "READ UNCOMMITTED") {
				t.Errorf("%s: %v, want an error with what to do", what, err)
			}
		}
	})
}

// refusesAll checks that everything fails on connections with these settings, and that the error says what to do.
func refusesAll(t *testing.T, says string, params ...string) {
	t.Helper()
	good := newShared(t)
	held, idle := mustHold(t, good, mutex("held")), mustHold(t, good, mutex("idle"))
	mustAsk(t, good, mutex("held"))
	if err := good.Release(t.Context(), idle); err != nil {
		t.Fatal(err)
	}
	before := dump(t, good)
	db := dbOn(t, with(sharedDSN(t), params...))
	db.SetMaxOpenConns(1)
	b, err := newBackend(db, &good.b.o)
	if err != nil {
		t.Fatal(err)
	}
	s := storeOf(b)
	defer s.Close()
	id := good.Sessions()[0]
	for what, f := range map[string]func() error{
		"ask for a name never used":   func() error { _, err := s.Ask(t.Context(), mutex("new")); return err },
		"ask for an idle name":        func() error { _, err := s.Ask(t.Context(), mutex("idle")); return err },
		"ask for a name that is held": func() error { _, err := s.Ask(t.Context(), mutex("held")); return err },
		"look":                        func() error { _, err := s.Poll(t.Context(), mutex("held")); return err },
		"join": func() error {
			join := &record.Join{Notes: []record.Note{{Key: "k", Data: []byte("d")}}}
			_, err := b.Swap(t.Context(), &record.Swap{Name: "held", Old: record.Record{Version: "1-0"}, Data: []byte("x"), Join: join})
			return err
		},
		"release": func() error { return s.Release(t.Context(), held) },
		"break": func() error {
			return s.BreakHold(t.Context(), store.Break{Name: "held", ID: held.ID, Token: held.Token})
		},
		"begin": func() error { _, err := b.Begin(t.Context(), session.NewID(), time.Minute); return err },
		"renew": func() error { _, err := b.Renew(t.Context(), id); return err },
		"call":  func() error { return b.Call(t.Context(), id) },
		"end":   func() error { return b.End(t.Context(), id) },
		"left":  func() error { _, err := b.Left(t.Context(), []session.ID{id}); return err },
	} {
		if err := f(); !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error with what to do", what, err)
		}
	}
	old := good.b
	for _, version := range []string{"", "1-0"} {
		out, err := b.Swap(t.Context(), &record.Swap{Name: "swapped", Old: record.Record{Version: version}, Data: []byte("x")})
		if err == nil && out.Done {
			t.Errorf("a swap on version %q: got %+v, want it refused", version, out)
		}
	}
	r, err := old.Load(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := b.Swap(t.Context(), &record.Swap{Name: "held", Old: r, Data: []byte("x")}); err == nil && out.Done {
		t.Errorf("a swap: got %+v, want it refused", out)
	}
	mustExec(t, db, "COMMIT")
	if after := dump(t, good); after != before {
		t.Errorf("the table changed from\n%s\nto\n%s", before, after)
	}
}

// dump returns all that is in the tables of names.
func dump(t testing.TB, s *Store) string {
	t.Helper()
	var b strings.Builder
	rows, err := s.b.db.QueryContext(t.Context(), "SELECT name,form,rev,taken,idle,HEX(data) FROM "+s.b.records+" UNION ALL SELECT name,0,id,'',0,HEX(data) FROM "+s.b.notes+" ORDER BY name,rev")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, form, rev, taken, idle, data string
		if err := rows.Scan(&name, &form, &rev, &taken, &idle, &data); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%q %s %s %s %s %s\n", name, form, rev, taken, idle, data)
	}
	return b.String()
}
