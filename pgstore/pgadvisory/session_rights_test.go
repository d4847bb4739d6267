package pgadvisory

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// newRole creates a role for this test whose only right is to log in.
func newRole(t testing.TB, addr string) (role string, pool *pgxpool.Pool) {
	t.Helper()
	role = "role_" + store.NewProcess().String()
	if _, err := poolOn(t, addr).Exec(t.Context(), `CREATE ROLE `+role+` LOGIN`); err != nil {
		t.Fatal(err)
	}
	return role, poolOn(t, addr, func(c *pgxpool.Config) { c.ConnConfig.User = role })
}

// The rights that the package comment lists suffice, and fewer do not.
func TestSession_RightsThatSuffice(t *testing.T) {
	addr := sharedAddr(t)
	admin, schema := poolOn(t, addr), apart(t, addr)
	role, pool := newRole(t, addr)
	run := func(statement string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	denied := func(notification string) {
		t.Helper()
		u := newUser(t, pool, &Options{Tokens: true, Schema: schema})
		found := u.Check(t.Context())
		if _, err := u.Ask(t.Context(), u.claim("a", 1)); !errors.Is(err, store.ErrDenied) || !strings.Contains(err.Error(), notification) {
			t.Fatalf("%v, want ErrDenied with %q", err, notification)
		}
		f := found[len(found)-1]
		if f.About != "tokens" || f.Err != nil && (!errors.Is(f.Err, store.ErrDenied) || !strings.Contains(f.Run, " TO "+role+";\n")) {
			t.Fatalf("Check: got %+v, but the claim was denied for %q", found, notification)
		}
		if f.Err == nil && !strings.Contains(notification, "permission denied for schema") { // reading the catalog does not show this one
			t.Fatalf("Check: got %+v, but the claim was denied for %q", found, notification)
		}
	}
	plain, other := newUser(t, pool, nil), newUser(t, admin, nil)
	name := fresh()
	h := plain.take(name) // locks need no rights
	if a := other.refused(name); len(a.Holders) != 1 || a.Holders[0].Owner.Program != "backup sh" {
		t.Fatalf("got refusal %+v", a)
	}
	if a := newUser(t, pool, nil).refused(name); len(a.Holders) != 1 || a.Holders[0].Owner.Program != "backup sh" {
		t.Fatalf("got refusal %+v", a)
	}
	plain.release(h)

	denied("it is missing; ask an administrator to create it")
	made, err := Schema(&Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	run(made)
	run(made) // a second time
	denied("USAGE and SELECT on the sequence")
	run(`GRANT USAGE ON SEQUENCE ` + schema + `.holdfast_tokens TO ` + role)
	denied("USAGE and SELECT on the sequence")
	run(`GRANT SELECT ON SEQUENCE ` + schema + `.holdfast_tokens TO ` + role)
	denied("permission denied for schema " + schema)
	run(`GRANT USAGE ON SCHEMA ` + schema + ` TO ` + role)
	u := newUser(t, pool, &Options{Tokens: true, Schema: schema})
	if found := u.Check(t.Context()); len(found) != 2 || found[0].Level() != store.LevelOK || found[1].Level() != store.LevelOK {
		t.Fatalf("Check: got %+v", found)
	}
	first := u.take(fresh())
	if second := u.take(fresh()); second.Token <= first.Token || first.Token <= 0 {
		t.Fatalf("got tokens %d and %d, want the second larger", first.Token, second.Token)
	}
	run(`DROP SEQUENCE ` + schema + `.holdfast_tokens`)
	run(made)
	again := newUser(t, admin, &Options{Tokens: true, Schema: schema})
	if h := again.take(fresh()); h.Token <= first.Token {
		t.Fatalf("after the sequence was recreated: got token %d after %d", h.Token, first.Token)
	}
}

// Without tokens nothing can refuse a late holder. A caller that has a session is warned too.
func TestSession_ACheckWarnsWhereThereAreNoTokens(t *testing.T) {
	addr := sharedAddr(t)
	pool, schema := poolOn(t, addr), apart(t, addr)
	for _, c := range []struct {
		o     *Options
		level store.Level
		says  string
	}{
		{nil, store.LevelWarning, "none: "}, {&Options{Tokens: true, Schema: schema}, store.LevelOK, schema},
	} {
		u := newUser(t, pool, c.o)
		for _, open := range []bool{false, true} {
			if open {
				u.take(fresh())
			}
			found := u.Check(t.Context())
			if f := found[len(found)-1]; f.About != "tokens" || f.Level() != c.level || !strings.Contains(f.Text(), c.says) || f.Warning != strings.Contains(f.Text(), "?tokens=1") {
				t.Errorf("tokens %v, a session open %v: got %s: %s %q", c.o != nil, open, f.About, f.Level(), f.Text())
			}
		}
	}
}

func TestSession_ForeignLocksAreLeftAlone(t *testing.T) {
	addr := sharedAddr(t)
	pool := poolOn(t, addr)
	for what, make := range map[string]string{
		"a table":                      "CREATE TABLE %.holdfast_tokens (last_value int)",
		"a view":                       "CREATE VIEW %.holdfast_tokens AS SELECT 1 AS last_value",
		"a sequence that caches":       "CREATE SEQUENCE %.holdfast_tokens CACHE 10",
		"a sequence that counts down":  "CREATE SEQUENCE %.holdfast_tokens INCREMENT -1",
		"a sequence that begins again": "CREATE SEQUENCE %.holdfast_tokens CYCLE",
		"a small sequence":             "CREATE SEQUENCE %.holdfast_tokens AS int",
	} {
		schema := apart(t, addr)
		if _, err := pool.Exec(t.Context(), strings.ReplaceAll(make, "%", schema)); err != nil {
			t.Fatal(err)
		}
		u := newUser(t, pool, &Options{Tokens: true, Schema: schema})
		found := u.Check(t.Context())
		if _, err := u.Ask(t.Context(), u.claim("a", 1)); !errors.Is(err, store.ErrCorrupt) || !errors.Is(found[1].Err, store.ErrCorrupt) {
			t.Errorf("%s: %v, and Check: %+v, want ErrCorrupt", what, err, found)
		}
	}
	u := newUser(t, pool, &Options{Tokens: true, Schema: "nowhere"})
	if _, err := u.Ask(t.Context(), u.claim("a", 1)); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "no schema nowhere") {
		t.Errorf("a missing schema: %v, want ErrInvalid", err)
	}
	nobody := newUser(t, poolOn(t, addr, func(c *pgxpool.Config) { c.ConnConfig.User = "nobody_there" }), nil)
	if _, err := nobody.Ask(t.Context(), nobody.claim("a", 1)); !errors.Is(err, store.ErrDenied) {
		t.Errorf("a missing user: %v, want ErrDenied", err)
	}
	nowhere := newUser(t, poolOn(t, addr, func(c *pgxpool.Config) { c.ConnConfig.Database = "nowhere" }), nil)
	if _, err := nowhere.Ask(t.Context(), nowhere.claim("a", 1)); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a missing database: %v, want ErrInvalid", err)
	}
}

func TestSession_BadInputIsRefusedBeforeAnyIO(t *testing.T) {
	other := sql.OpenDB(noDriver{})
	defer other.Close()
	for what, open := range map[string]func() (*Store, error){
		"no pool":        func() (*Store, error) { return New(nil, nil) },
		"no database":    func() (*Store, error) { return NewDB(nil, nil) },
		"another driver": func() (*Store, error) { return NewDB(other, nil) },
		"an invalid schema": func() (*Store, error) {
			return Open(testserver.PostgresURL("127.0.0.1:1"), &Options{Tokens: true, Schema: `x"; DROP`})
		},
		"no URL": func() (*Store, error) { return Open("postgres://user:secret@%zz", nil) },
	} {
		s, err := open()
		if !errors.Is(err, store.ErrInvalid) || s != nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, %v, want ErrInvalid", what, s, err)
		}
	}
	if _, err := Schema(&Options{Schema: "1"}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("SQL for an invalid schema: %v, want ErrInvalid", err)
	}
	s, err := Open(testserver.PostgresURL("127.0.0.1:1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	u := &user{Store: s, t: t, id: store.NewProcess()}
	for what, edit := range map[string]func(*store.Claim){
		"no name":         func(c *store.Claim) { c.Name = "" },
		"a name too long": func(c *store.Claim) { c.Name = strings.Repeat("x", store.MaxName+1) },
		"an invalid key":  func(c *store.Claim) { c.Name = "advisory:x" },
	} {
		c := u.claim("a", 1)
		edit(&c)
		if _, err := u.Ask(t.Context(), c); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
	for what, edit := range map[string]func(*store.Claim){
		"slots":                func(c *store.Claim) { c.Limit = 3 },
		"an upgradeable claim": func(c *store.Claim) { c.Weight = store.Upgradeable },
	} {
		c := u.claim("a", 1)
		edit(&c)
		if _, err := u.Ask(t.Context(), c); !errors.Is(err, store.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", what, err)
		}
	}
	if _, err := u.Change(t.Context(), store.Hold{Name: "a"}, 1, store.Full); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("Change: %v, want ErrUnsupported", err)
	}
	if _, err := u.Change(t.Context(), store.Hold{Name: "a"}, 0, store.Full); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("Change without a turn: %v, want ErrInvalid", err)
	}
}

// noDriver is a database/sql driver other than pgx's.
type noDriver struct{}

func (noDriver) Connect(context.Context) (driver.Conn, error) { return nil, driver.ErrBadConn }
func (noDriver) Driver() driver.Driver                        { return noDriver{} }
func (noDriver) Open(string) (driver.Conn, error)             { return nil, driver.ErrBadConn }
