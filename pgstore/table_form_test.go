package pgstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/pgstore/internal/connect"
	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
	"github.com/holdfast-go/holdfast/store"
)

// run runs a statement that returns no rows.
func run(t testing.TB, pool *pgxpool.Pool, statement string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// poolOf returns the pool under a store, through the wrappers of a test.
func poolOf(s *Store) *pgxpool.Pool {
	for at := s.db; ; {
		switch d := at.(type) {
		case *meddled:
			at = d.db
		case *counted:
			at = d.db
		case *tallied:
			at = d.db
		default:
			return at.(*pgxDB).pool
		}
	}
}

func tableOf(s *Store) string { return connect.Quote(s.schema) + "." + connect.Quote(s.table) }

// everything lists each operation on a name, by a hold that does not exist.
func everything(t *testing.T, s *Store, name string) map[string]func() error {
	claim := mutex(name)
	try := claim
	try.Try = true
	hold := store.Hold{Name: name, ID: claim.ID, Token: 7, TTL: time.Minute}
	return map[string]func() error{
		"ask":     func() error { _, err := s.Ask(t.Context(), claim); return err },
		"try":     func() error { _, err := s.Ask(t.Context(), try); return err },
		"look":    func() error { _, err := s.Poll(t.Context(), claim); return err },
		"renew":   func() error { return s.Renew(t.Context(), []store.Hold{hold})[0].Err },
		"change":  func() error { _, err := s.Change(t.Context(), hold, 1, store.Full); return err },
		"release": func() error { return s.Release(t.Context(), hold) },
		"adopt": func() error {
			other := hold
			other.NewID = me.NewID()
			return s.Renew(t.Context(), []store.Hold{other})[0].Err
		},
		"release all": func() error { return s.Release(t.Context(), store.Hold{Name: name, ID: claim.ID}) },
		"break":       func() error { return s.BreakHold(t.Context(), store.Break{Name: name, ID: claim.ID, Token: 7}) },
		"list": func() (err error) {
			for _, err = range s.List(t.Context(), name) {
			}
			return err
		},
	}
}

func TestForeignDataIsReportedAndLeftAlone(t *testing.T) {
	s := newShared(t)
	pool, table := poolOf(s), tableOf(s)
	mustHold(t, s, mutex("fine"))
	for what, c := range map[string]struct {
		edit string
		want error
	}{
		"a newer form":         {"form = 3", store.ErrUnsupported},
		"a newer form, idle":   {"form = 3, id = '{}'", store.ErrUnsupported},
		"an array cut off":     {"token = '{}'", store.ErrCorrupt},
		"an array with a tail": {"owner = owner || ''::bytea", store.ErrCorrupt},
		"an id cut off":        {`id = '{"\\x00"}'`, store.ErrCorrupt},
		"a block of no tokens": {"n = '{0}'", store.ErrCorrupt},
	} {
		t.Run(what, func(t *testing.T) {
			name := "not ours: " + what
			mustHold(t, s, mutex(name))
			run(t, pool, "UPDATE "+table+" SET "+c.edit+" WHERE name = $1", []byte(name))
			read := func() string {
				return pgtest.One[string](t, pool, "SELECT t::text FROM "+table+" t WHERE name = $1", []byte(name))
			}
			before := read()
			for op, f := range everything(t, s, name) {
				if what == "an id cut off" && op != "look" && op != "list" {
					continue // the damage is found where it is read
				}
				if err := f(); !errors.Is(err, c.want) || !store.Definite(err) || !strings.Contains(err.Error(), what) {
					t.Errorf("%s: %v, want %v with the name", op, err, c.want)
				}
				if after := read(); after != before {
					t.Errorf("%s changed the row from\n%s to\n%s", op, before, after)
				}
			}
			if err := everything(t, s, name)["look"](); !errors.Is(err, c.want) {
				t.Errorf("look: %v, want %v", err, c.want)
			}
			// A list of all names still has the others.
			var found, other bool
			for st, err := range s.List(t.Context(), "") {
				found = found || st.Name == name && errors.Is(err, c.want)
				other = other || st.Name == "fine" && err == nil
			}
			if !found || !other {
				t.Errorf("listed all names: got this one %v, others %v", found, other)
			}
		})
	}
}

// A row may get a newer form while this process still knows its hold. The statements that are sent without reading the row first leave it
// alone, though the hold in it is the very one that they name.
func TestTheShortStatementsLeaveANewerFormAlone(t *testing.T) {
	s := newShared(t)
	pool, table := poolOf(s), tableOf(s)
	release := func(h store.Hold) error { return s.Release(t.Context(), h) }
	by := func(w way) func(h store.Hold) error {
		return func(h store.Hold) error {
			s.ways.set(h.Name, w)
			return release(h)
		}
	}
	idle := func(h store.Hold) error {
		_, err := s.Ask(t.Context(), mutex(h.Name))
		return err
	}
	for what, c := range map[string]struct {
		idle bool
		do   func(h store.Hold) error
	}{
		"release":      {do: by(alone)},
		"release next": {do: by(next)},
		"release all": {do: func(h store.Hold) error {
			other := mustHold(t, s, mutex("another "+h.Name))
			out := s.ReleaseAll(t.Context(), []store.Hold{other, h})
			if out[0] != nil {
				t.Errorf("the other hold: %v", out[0])
			}
			return out[1]
		}},
		"renew": {do: func(h store.Hold) error { return s.Renew(t.Context(), []store.Hold{h})[0].Err }},
		"ask":   {idle: true, do: idle},
		"sweep": {idle: true, do: func(h store.Hold) error {
			run(t, pool, "UPDATE "+table+" SET kept = 1 WHERE name = $1", []byte(h.Name))
			_, _, _, err := s.sweepPart(t.Context(), 0)
			return errors.Join(err, idle(h))
		}},
	} {
		t.Run(what, func(t *testing.T) {
			h := mustHold(t, s, mutex(what))
			if c.idle {
				if err := release(h); err != nil {
					t.Fatal(err)
				}
			}
			run(t, pool, "UPDATE "+table+" SET form = 3 WHERE name = $1", []byte(what))
			read := func() string {
				return pgtest.One[string](t, pool, "SELECT (form, last, id, token, expires, session)::text FROM "+table+" WHERE name = $1", []byte(what))
			}
			before := read()
			if err := c.do(h); !errors.Is(err, store.ErrUnsupported) {
				t.Errorf("got %v, want ErrUnsupported", err)
			}
			if after := read(); after != before {
				t.Errorf("the row changed from\n%s to\n%s", before, after)
			}
		})
	}
}

func TestAForeignTableIsReportedAndNotChanged(t *testing.T) {
	addr := sharedAddr(t)
	pool, schema := poolOn(t, addr), apart(t, addr)
	for what, columns := range map[string]string{
		"other columns":           "(id int PRIMARY KEY, v text)",
		"columns of another type": "(name bytea PRIMARY KEY, form int, kept bigint, last bigint, id text, lim text, weight text, want text, turn text, n text, shown text, token text, fence text, since text, expires text, keep text, delay text, broken text, owner text, session text, asks text)",
		"one column less":         "(LIKE " + connect.Quote(schema) + ".good)",
		"no key":                  "(LIKE " + connect.Quote(schema) + ".good)",
		"a key of something else": "(LIKE " + connect.Quote(schema) + ".good, x int, PRIMARY KEY (name, last))",
	} {
		t.Run(what, func(t *testing.T) {
			good := tableOn(t, pool, &Options{Schema: schema, Table: "good"})
			defer good.Close()
			mustAsk(t, good, mutex("n"))
			table := strings.ReplaceAll(what, " ", "_")
			run(t, pool, "CREATE TABLE "+connect.Quote(schema)+"."+table+columns)
			if what == "one column less" {
				run(t, pool, "ALTER TABLE "+connect.Quote(schema)+"."+table+" DROP COLUMN delay")
			}
			s := tableOn(t, pool, &Options{Schema: schema, Table: table})
			defer s.Close()
			ops := everything(t, s, "n")
			for _, op := range []string{"ask", "try"} {
				if err := ops[op](); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), table) {
					t.Errorf("%s: %v, want ErrCorrupt with the table", op, err)
				}
			}
			if n := pgtest.One[int](t, pool, "SELECT count(*)::int FROM "+tableOf(s)); n != 0 {
				t.Errorf("got %d rows written, want none", n)
			}
		})
	}
}

func TestAnUnfitDatabaseIsReportedBeforeAnyWrite(t *testing.T) {
	addr := sharedAddr(t)
	schema := apart(t, addr)
	role := "role_" + store.NewProcess().String()
	super := poolOn(t, addr)
	run(t, super, "CREATE ROLE "+role+" LOGIN")
	run(t, super, "CREATE ROLE "+role+"_r LOGIN")
	run(t, super, "GRANT ALL ON SCHEMA "+schema+" TO "+role+"_r")
	run(t, super, "ALTER ROLE "+role+"_r SET default_transaction_read_only = on")
	as := func(user string) *pgxpool.Pool {
		return poolOn(t, addr, func(c *pgxpool.Config) { c.ConnConfig.User = user })
	}
	for what, c := range map[string]struct {
		pool *pgxpool.Pool
		o    Options
		want error
		says string
	}{
		"no schema":       {super, Options{Schema: "no_such_schema"}, store.ErrInvalid, "no_such_schema"},
		"no right":        {as(role), Options{Schema: schema}, store.ErrDenied, "permission denied for schema"},
		"read-only":       {as(role + "_r"), Options{Schema: schema}, store.ErrUnavailable, "read-only"},
		"no such user":    {as("nobody_of_that_name"), Options{Schema: schema}, store.ErrDenied, "user"},
		"no such table":   {super, Options{Schema: "pg_catalog"}, store.ErrDenied, "pg_catalog"},
		"no such databse": {poolOn(t, addr, func(c *pgxpool.Config) { c.ConnConfig.Database = "nowhere" }), Options{}, store.ErrInvalid, "database"},
	} {
		s := tableOn(t, c.pool, &c.o)
		_, err := s.Ask(t.Context(), mutex("n"))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v with %q", what, err, c.want, c.says)
		}
		s.Close()
	}
	if n := pgtest.One[int](t, super, "SELECT count(*)::int FROM pg_class WHERE relname = $1 AND relnamespace = $2::regnamespace", DefaultTable, schema); n != 0 {
		t.Error("the table was created")
	}
}

func TestBadInputIsRefusedBeforeAnythingIsSent(t *testing.T) {
	s := tableOn(t, poolOn(t, "127.0.0.1:1"), nil) // no server is there
	defer s.Close()
	for what, edit := range map[string]func(*store.Claim){
		"no name":             func(c *store.Claim) { c.Name = "" },
		"a long name":         func(c *store.Claim) { c.Name = strings.Repeat("x", store.MaxName+1) },
		"no limit":            func(c *store.Claim) { c.Limit = 0 },
		"too high a limit":    func(c *store.Claim) { c.Limit = store.Full + 1 },
		"no weight":           func(c *store.Claim) { c.Weight = 0 },
		"too much weight":     func(c *store.Claim) { c.Limit, c.Weight = 3, 4 },
		"no TTL":              func(c *store.Claim) { c.TTL = 0 },
		"too short a TTL":     func(c *store.Claim) { c.TTL = minTTL - 1 },
		"too long a TTL":      func(c *store.Claim) { c.TTL = maxTTL + 1 },
		"a negative position": func(c *store.Claim) { c.PositionTTL = -1 },
		"a negative keep":     func(c *store.Claim) { c.MinHold = -1 },
		"too long a delay":    func(c *store.Claim) { c.LockDelay = maxTTL + 1 },
		"an endless owner":    func(c *store.Claim) { c.Owner = strings.Repeat("x", 1<<16) },
	} {
		c := mutex("n")
		edit(&c)
		if _, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("ask with %s: %v, want ErrInvalid", what, err)
		}
		if _, err := s.Poll(t.Context(), c); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("poll with %s: %v, want ErrInvalid", what, err)
		}
	}
	b := store.Break{Name: "n", Token: 1, Reason: strings.Repeat("x", store.MaxReason+1)}
	if err := s.BreakHold(t.Context(), b); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("break with a long reason: %v, want ErrInvalid", err)
	}
	for _, bad := range []string{"a b", `a"b`, "1a", "a-b", "ä", "a;b", strings.Repeat("x", 64), "a.b"} {
		for _, o := range []Options{{Schema: bad}, {Table: bad}} {
			if _, err := New(poolOn(t, "127.0.0.1:1"), &o); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%+v: %v, want ErrInvalid", o, err)
			}
			if _, err := Schema(&o); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("the SQL of %+v: %v, want ErrInvalid", o, err)
			}
		}
	}
	if _, err := New(nil, nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("without a pool: %v, want ErrInvalid", err)
	}
	if _, err := NewDB(nil, nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("without a database: %v, want ErrInvalid", err)
	}
}

func TestNoErrorShowsThePassword(t *testing.T) {
	addr := sharedAddr(t)
	super := poolOn(t, addr)
	run(t, super, "CREATE ROLE shy LOGIN")
	for what, url := range map[string]string{
		"no server":        "postgres://shy:s3cret@127.0.0.1:1/postgres",
		"no such database": "postgres://shy:s3cret@" + addr + "/nowhere?sslmode=disable",
		"no right":         "postgres://shy:s3cret@" + addr + "/postgres?sslmode=disable",
		"not a URL":        "postgres://shy:s3c%ret@" + addr,
		"no such option":   "postgres://shy:s3cret@" + addr + "/postgres?sslmode=s3cret",
		"a wrong port":     "postgres://shy:s3cret@host:s3cret",
	} {
		s, err := Open(url, nil)
		if err == nil {
			if strings.Contains(s.Describe().Store, "s3c") {
				t.Errorf("%s: Describe shows %q", what, s.Describe().Store)
			}
			_, err = s.Ask(t.Context(), mutex("n"))
			s.Close()
		}
		if err == nil || strings.Contains(err.Error(), "s3c") {
			t.Errorf("%s: %v, want an error without the password", what, err)
		}
	}
}

func TestCapitalsInTheNamesOfSchemaAndTableCount(t *testing.T) {
	addr := sharedAddr(t)
	pool, schema := poolOn(t, addr), apart(t, addr)
	a := tableOn(t, pool, &Options{Schema: schema, Table: "Locks"})
	b := tableOn(t, pool, &Options{Schema: schema, Table: "locks"})
	defer a.Close()
	defer b.Close()
	mustHold(t, a, mutex("n"))
	mustHold(t, b, mutex("n"))
	for _, s := range []*Store{a, b} {
		if n := pgtest.One[int](t, pool, "SELECT count(*)::int FROM "+tableOf(s)); n != 1 {
			t.Errorf("got %d rows in %s, want one", n, s.table)
		}
	}
}

// Random operations seldom reach these cases: each of the statements for an uncontended name meets a row that it is not for, and the clock is
// behind the newest token.
func TestTheShortestStatementsKeepToTheRule(t *testing.T) {
	addr := sharedAddr(t)
	now := time.Now().UnixMicro()
	o, pool := &Options{Schema: apart(t, addr)}, poolOn(t, addr)
	open := func() *Store {
		s, err := newStore(onPgx(pool), o, func() int64 { return now })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s, last := open(), int64(0)
	ahead := func() { // by this much the clock is behind the newest token
		t.Helper()
		last = pgtest.One[int64](t, pool, "UPDATE "+tableOf(s)+" SET last = last + 3600000000 WHERE name = 'n' RETURNING last")
	}
	drawn := func(what string, token int64) {
		t.Helper()
		if token <= last {
			t.Errorf("%s: got token %d after %d, want a larger one", what, token, last)
		}
		ahead()
	}
	release := func(h store.Hold) {
		t.Helper()
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	for _, what := range []string{"a new name", "a known name"} {
		h := mustHold(t, s, mutex("n"))
		drawn(what, h.Token)
		release(h)
	}
	s = open()
	h := mustHold(t, s, mutex("n"))
	drawn("a name that is new to this process", h.Token)
	for i := range 3 { // the first by the full statement
		next := mutex("n")
		mustAsk(t, s, next)
		release(h)
		a := mustAsk(t, s, next)
		if !a.Granted {
			t.Fatalf("%d. the waiter: got %+v", i, a)
		}
		drawn("the waiter", a.Token)
		h = store.Hold{Name: "n", ID: next.ID, Token: a.Token, TTL: time.Minute}
	}
	s.ways.set("n", alone)
	for _, not := range []store.Hold{{Name: "n", ID: h.ID, Token: h.Token + 1}, {Name: "n", ID: h.ID, Token: h.Token - 1}, {Name: "n", ID: me.NewID(), Token: h.Token}} {
		if err := s.Release(t.Context(), not); !errors.Is(err, store.ErrLost) {
			t.Errorf("release with a wrong id or token: %v, want ErrLost", err)
		}
		if st := state(t, s, "n"); len(st.Entries) != 1 {
			t.Fatalf("after a failed release: got %+v, want the hold", st)
		}
	}
	if err := s.BreakHold(t.Context(), store.Break{Name: "n", ID: h.ID, Token: h.Token, Reason: "it hangs"}); err != nil {
		t.Fatal(err)
	}
	var lost *store.LostError
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; !errors.As(err, &lost) || lost.Reason != "it hangs" {
		t.Errorf("renewal of a broken hold: %v, want its loss", err)
	}
}
