package pgxguard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/pgstore/pgxguard"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main{M: m}.Run()) }

// made is a lease that a test has made up.
type made struct {
	name  string
	token int64
	mode  holdfast.Mode
}

func (m made) Name() string        { return m.name }
func (m made) Token() int64        { return m.token }
func (m made) Mode() holdfast.Mode { return m.mode }

func writer(token int64) made { return made{"a", token, holdfast.ModeWrite} }
func reader(token int64) made { return made{"a", token, holdfast.ModeRead} }

func fine(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func stale(t testing.TB, err error, token, fence int64) {
	t.Helper()
	var s *guard.StaleError
	if !errors.As(err, &s) || s.Token != token || s.Fence != fence || !errors.Is(err, holdfast.ErrLost) {
		t.Fatalf("got %v, want token %d to be stale behind %d", err, token, fence)
	}
}

// database creates a schema for the test, with the fences and a table of one row.
func database(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return databaseOn(t, testserver.SharedPostgres(t))
}

func databaseOn(t testing.TB, addr string) *pgxpool.Pool {
	t.Helper()
	name := fmt.Sprintf("pgxguard_%x", rand.Uint64())
	pool, err := pgxpool.New(t.Context(), testserver.PostgresURL(addr)+"&search_path="+name)
	fine(t, err)
	t.Cleanup(func() { closed(t, pool) })
	for _, q := range []string{
		"CREATE SCHEMA " + name, pgxguard.Schema(), pgxguard.Schema(),
		"CREATE TABLE account (who text NOT NULL)", "INSERT INTO account VALUES ('nobody')",
	} {
		_, err := pool.Exec(t.Context(), q)
		fine(t, err)
	}
	return pool
}

// closed closes the pool. That waits for connections that were not given back.
func closed(t testing.TB, pool *pgxpool.Pool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pool.Close()
	}()
	select {
	case <-done:
	case <-time.After(testwait.Patience):
		t.Errorf("after %v a connection is not returned to the pool", testwait.Patience)
	}
}

func who(t testing.TB, pool *pgxpool.Pool) (who string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Patience)
	defer cancel()
	fine(t, pool.QueryRow(ctx, "SELECT who FROM account").Scan(&who))
	return who
}

func set(who string) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE account SET who = $1", who)
		return err
	}
}

func do(t testing.TB, pool *pgxpool.Pool, l guard.Lease, fn func(context.Context, pgx.Tx) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Patience)
	defer cancel()
	return pgxguard.Do(ctx, pool, pgx.TxOptions{}, l, fn)
}

func TestGuard_TheRuleIsKeptOnPgx(t *testing.T) {
	pool := database(t)
	fine(t, do(t, pool, reader(9), set("a reader, first")))
	fine(t, do(t, pool, writer(10), set("one")))
	fine(t, do(t, pool, writer(11), set("two")))
	stale(t, do(t, pool, writer(10), set("late")), 10, 11)
	stale(t, do(t, pool, reader(10), set("late")), 10, 11)
	fine(t, do(t, pool, reader(12), set("a reader")))
	fine(t, do(t, pool, writer(11), set("two again")))
	if have := who(t, pool); have != "two again" {
		t.Errorf("got %q stored", have)
	}
	if err := do(t, pool, made{"a", 12, holdfast.ModeSlots}, set("slots")); !errors.Is(err, holdfast.ErrUnsupported) {
		t.Error(err)
	}
	// The fences are the same as those of guard.PostgreSQL.
	var fence int64
	fine(t, pool.QueryRow(t.Context(), "SELECT fence FROM holdfast_fence WHERE name = 'a'").Scan(&fence))
	if fence != 11 {
		t.Errorf("got fence %d, want 11", fence)
	}
}

func TestGuard_DoOnPgxRestartsAfterAConflict(t *testing.T) {
	pool := database(t)
	runs := 0
	fine(t, do(t, pool, writer(10), func(ctx context.Context, tx pgx.Tx) error {
		if runs++; runs < 4 {
			fine(t, set("an attempt that failed")(ctx, tx))
			_, err := tx.Exec(ctx, "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40P01'; END $$")
			return err
		}
		return nil
	}))
	if have := who(t, pool); runs != 4 || have != "nobody" {
		t.Errorf("got %d runs, %q stored", runs, have)
	}
	wrong := errors.New("wrong")
	err := do(t, pool, writer(11), func(ctx context.Context, tx pgx.Tx) error {
		fine(t, set("wrong")(ctx, tx))
		return wrong
	})
	if have := who(t, pool); err != wrong || have != "nobody" {
		t.Errorf("got %v, %q stored", err, have)
	}
	func() {
		defer func() { recover() }()
		_ = do(t, pool, writer(12), func(context.Context, pgx.Tx) error { panic("test") })
	}()
	fine(t, do(t, pool, writer(10), set("usable"))) // the rollback raised no fence
	if in := pool.Stat().AcquiredConns(); in != 0 {
		t.Errorf("got %d connections not returned to the pool", in)
	}
}

func TestGuard_OnPgxACommitThatFailsIsAnError(t *testing.T) {
	pool := database(t)
	_, err := pool.Exec(t.Context(), "CREATE TABLE once (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	fine(t, err)
	err = do(t, pool, writer(10), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO once VALUES (1), (1)")
		return err
	})
	if store.SQLState(err) != "23505" {
		t.Errorf("got %v, want the violation that blocks the commit", err)
	}
}

// A frozen server does not block Do.
func TestGuard_OnPgxAFrozenServerEndsARollback(t *testing.T) {
	t.Parallel()
	server := testserver.Postgres(t)
	pool := databaseOn(t, server.Addr)
	wrong, done := errors.New("wrong"), make(chan error, 1)
	ctx := t.Context()
	go func() {
		done <- pgxguard.Do(ctx, pool, pgx.TxOptions{}, writer(10), func(context.Context, pgx.Tx) error {
			server.Freeze()
			return wrong
		})
	}()
	defer server.Thaw()
	select {
	case err := <-done:
		if err != wrong {
			t.Error(err)
		}
	case <-time.After(testwait.Patience):
		t.Error("Do waits for the server")
	}
}

func TestGuard_OnPgxADeletedNameStartsWithoutAFence(t *testing.T) {
	pool := database(t)
	fine(t, do(t, pool, writer(20), set("one")))
	fine(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return pgxguard.Forget(t.Context(), tx, "a") }))
	fine(t, do(t, pool, writer(1), set("two")))
}

// Example guards a write with a lease of any store.
func Example() {
	ctx := context.Background()
	url := os.Getenv("DATABASE_URL") // not set here: the example only shows how it is written
	if url == "" {
		fmt.Println("no database")
		return
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	locks, err := holdfast.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	lease, err := locks.Mutex("invoice/42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release()
	err = pgxguard.Do(ctx, pool, pgx.TxOptions{}, lease, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE invoice SET state = 'sent' WHERE id = 42")
		return err
	})
	fmt.Println(err)
	// Output: no database
}
