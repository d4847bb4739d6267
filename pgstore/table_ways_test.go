package pgstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/pgstore/internal/pgtest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// unwoken is a Store whose waiters get no notifications.
type unwoken struct {
	store.Store
	store.Poller
	store.Inspector
}

func TestTableThroughPgBouncer(t *testing.T) {
	testserver.AtNight(t)
	t.Parallel()
	server := testserver.Postgres(t)
	bouncer := testserver.PgBouncer(t, server.Addr, 4)
	pool := poolOn(t, bouncer.Addr, func(c *pgxpool.Config) { c.MaxConns = 8 })
	storetest.Run(t, func(t *testing.T) store.Store {
		s := tableOn(t, pool, nil)
		return unwoken{s, s, s}
	})
	s := tableOn(t, pool, nil)
	defer s.Close()
	if err := s.Watch(t.Context(), me, func(store.Notification) {}); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("Watch through the pooler: %v, want ErrUnsupported", err)
	}
	if f := pgtest.One[int](t, poolOn(t, server.Addr), "SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> ''"); f > 5 {
		t.Errorf("got %d connections to the server, want at most 5", f)
	}
}

// The first statement of a process meets statements that another process has left prepared.
func TestTheCheckWorksBehindPgBouncer(t *testing.T) {
	t.Parallel()
	addr := sharedAddr(t)
	bouncer := testserver.PgBouncer(t, addr, 1)
	for range 3 {
		pool := poolOn(t, bouncer.Addr)
		db := stdlib.OpenDB(*pool.Config().ConnConfig)
		defer db.Close()
		onDB, err := NewDB(db, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Store{tableOn(t, pool, nil), onDB} {
			defer s.Close()
			for _, f := range s.Check(t.Context()) {
				if f.Err != nil {
					t.Errorf("%+v", f)
				}
			}
		}
	}
}

// A failing statement reveals a pooler in between. The statements in flight fail too, and are sent again in the way that a pooler needs.
func TestStatementsInFlightAreResentOnceAPoolerIsFound(t *testing.T) {
	t.Parallel()
	addr := sharedAddr(t)
	bouncer := testserver.PgBouncer(t, addr, 2)
	for what, open := range map[string]func(t *testing.T, o *Options) (*Store, error){
		"pgx": func(t *testing.T, o *Options) (*Store, error) { return New(poolOn(t, bouncer.Addr), o) },
		"database/sql": func(t *testing.T, o *Options) (*Store, error) {
			db := stdlib.OpenDBFromPool(poolOn(t, bouncer.Addr))
			t.Cleanup(func() { db.Close() })
			return NewDB(db, o)
		},
	} {
		for _, pinned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, pinned %v", what, pinned), func(t *testing.T) {
				s, err := open(t, &Options{Schema: apart(t, addr)})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				s.pinned.Store(pinned)
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						for range 3 {
							c := mutex(store.NewProcess().String())
							a, err := s.Ask(t.Context(), c)
							if err == nil {
								err = s.Release(t.Context(), store.Hold{Name: c.Name, ID: c.ID, Token: a.Token})
							}
							if err != nil || !a.Granted {
								t.Errorf("got %+v, %v", a, err)
							}
						}
					})
				}
				all.Wait()
			})
		}
	}
}

// A user may have another default isolation level.
func TestTableWhereTransactionsAreSerializable(t *testing.T) {
	testserver.AtNight(t)
	t.Parallel()
	addr := sharedAddr(t)
	schema := apart(t, addr)
	pool := poolOn(t, addr, func(c *pgxpool.Config) {
		c.MaxConns = 8
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	})
	if level := pgtest.One[string](t, pool, "SHOW transaction_isolation"); level != "serializable" {
		t.Fatalf("got isolation level %s", level)
	}
	var mu sync.Mutex
	var all []*Store
	storetest.Run(t, func(t *testing.T) store.Store {
		s := tableOn(t, pool, &Options{Schema: schema})
		mu.Lock()
		defer mu.Unlock()
		all = append(all, s)
		return s
	})
	t.Cleanup(func() { // the promises run in parallel, until then
		if !slices.ContainsFunc(all, func(s *Store) bool { return s.pinned.Load() }) {
			t.Errorf("in none of %d stores did two statements meet: the test shows nothing", len(all))
		}
	})
}

// rights returns those that the package comment lists.
func rights(t *testing.T) []string {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, doc, _ = bytes.Cut(doc, []byte("here for the default tables:"))
	doc, _, _ = bytes.Cut(doc, []byte("//\n// DELETE is for old rows"))
	var list []string
	for _, m := range regexp.MustCompile(`(?m)^//\t(GRANT .*)$`).FindAllStringSubmatch(string(doc), -1) {
		list = append(list, m[1])
	}
	if len(list) != 3 {
		t.Fatalf("the package comment lists the rights %q", list)
	}
	return list
}

// tableUser creates a role with these rights, in a schema where the table exists, and returns a pool of its connections.
func tableUser(t *testing.T, addr, schema string, rights []string) *pgxpool.Pool {
	t.Helper()
	role := "locks_" + store.NewProcess().String()
	super := poolOn(t, addr)
	run(t, super, "CREATE ROLE "+role+" LOGIN")
	for _, r := range rights {
		r = strings.NewReplacer("SCHEMA public", "SCHEMA "+schema, "public.", schema+".", "TO locks", "TO "+role).Replace(r)
		run(t, super, r)
	}
	return poolOn(t, addr, func(c *pgxpool.Config) { c.ConnConfig.User = role })
}

// The test covers both at once, as neither can make up for what the other lacks.
func TestOnDatabaseSQLTheRightsThatAreListedSuffice(t *testing.T) {
	t.Parallel()
	addr := sharedAddr(t)
	schema := apart(t, addr)
	o := &Options{Schema: schema}
	made, err := Schema(o)
	if err != nil {
		t.Fatal(err)
	}
	run(t, poolOn(t, addr), made)
	db := stdlib.OpenDB(*tableUser(t, addr, schema, rights(t)).Config().ConnConfig)
	defer db.Close()
	db.SetMaxOpenConns(12)
	db.SetMaxIdleConns(12) // to open a connection takes longer than to use it
	open := func(t *testing.T) store.Store {
		s, err := NewDB(db, o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	storetest.Run(t, open)
	if err := db.PingContext(t.Context()); err != nil {
		t.Errorf("the caller's pool after Close: %v", err)
	}
	s := open(t).(*Store)
	defer s.Close()
	for _, f := range s.Check(t.Context()) {
		if f.Err != nil {
			t.Errorf("Check: got %+v", f)
		}
	}
	if _, _, _, err := s.sweepPart(t.Context(), -1); err != nil {
		t.Errorf("sweep: %v", err)
	}
}

func TestEachListedRightIsNeeded(t *testing.T) {
	addr := sharedAddr(t)
	schema := apart(t, addr)
	o := &Options{Schema: schema}
	sql, err := Schema(o)
	if err != nil {
		t.Fatal(err)
	}
	run(t, poolOn(t, addr), sql)
	lock := func(s *Store) error {
		c := mutex("n")
		a, err := s.Ask(t.Context(), c)
		if err != nil {
			return err
		}
		return s.Release(t.Context(), store.Hold{Name: c.Name, ID: c.ID, Token: a.Token})
	}
	less := func(from, what string) []string {
		all := rights(t)
		for i := range all {
			if strings.Contains(all[i], from) {
				all[i] = strings.Replace(all[i], what, "", 1)
			}
		}
		return slices.DeleteFunc(all, func(r string) bool { return strings.Contains(r, "GRANT  ON") })
	}
	for what, c := range map[string]struct {
		rights []string
		use    func(s *Store) error
	}{
		"USAGE":  {less("USAGE", "USAGE"), lock},
		"SELECT": {less("SELECT", "SELECT, "), lock},
		"INSERT": {less("INSERT", "INSERT, "), lock},
		"UPDATE": {less("UPDATE", ", UPDATE"), lock},
		"DELETE": {less("DELETE", "DELETE"), func(s *Store) error {
			_, _, _, err := s.sweepPart(t.Context(), -1)
			return s.failed("sweep", err)
		}},
	} {
		s := tableOn(t, tableUser(t, addr, schema, c.rights), o)
		if err := c.use(s); !errors.Is(err, store.ErrDenied) {
			t.Errorf("without %s: %v, want ErrDenied", what, err)
		}
		s.Close()
	}
	// Locks work without the last right.
	s := tableOn(t, tableUser(t, addr, schema, less("DELETE", "DELETE")), o)
	defer s.Close()
	if err := lock(s); err != nil {
		t.Errorf("without DELETE: %v", err)
	}
}

func TestWatchWithoutNotificationsSaysSo(t *testing.T) {
	addr := sharedAddr(t)
	s := tableOn(t, poolOn(t, addr), &Options{NoListen: true})
	defer s.Close()
	if err := s.Watch(t.Context(), me, func(store.Notification) {}); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("with NoListen: %v, want ErrUnsupported", err)
	}
}

// The planner chooses which of two source rows an UPDATE takes. Of two renewals of one hold the later one counts, whichever plan it makes.
func TestAHoldRenewedTwiceAtOnceHasTheLaterOwner(t *testing.T) {
	t.Parallel()
	addr := sharedAddr(t)
	schema := apart(t, addr)
	kinds := []string{"nestloop", "mergejoin", "hashjoin"}
	for _, joins := range kinds {
		t.Run(joins, func(t *testing.T) {
			s := tableOn(t, poolOn(t, addr, func(c *pgxpool.Config) {
				c.ConnConfig.RuntimeParams["jit"] = "off"
				for _, kind := range kinds {
					c.ConnConfig.RuntimeParams["enable_"+kind] = strconv.FormatBool(kind == joins)
				}
			}), &Options{Schema: schema})
			defer s.Close()
			h := mustHold(t, s, mutex(joins))
			var holds []store.Hold
			for pid := range 5 {
				h.Owner = store.Owner{Host: "h", PID: pid + 1}.Stored()
				holds = append(holds, h)
			}
			for i, r := range s.Renew(t.Context(), holds) {
				if r.Err != nil {
					t.Errorf("renewal %d: %v", i, r.Err)
				}
			}
			if got := state(t, s, joins).Entries[0].Owner.PID; got != len(holds) {
				t.Errorf("got the owner of renewal %d, want that of the last, %d", got, len(holds))
			}
		})
	}
}
