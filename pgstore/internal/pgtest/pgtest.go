// Package pgtest has what the tests of pgstore and of the packages below it share: a server, pools
// of connections to it, and transactions of either kind.
package pgtest

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// AddrEnv is the environment variable with the address of a server that a test shares with its
// parent process.
const AddrEnv = "HOLDFAST_TEST_POSTGRES"

// Addr is the address of a server that tests share.
func Addr(t testing.TB) string {
	t.Helper()
	if addr := os.Getenv(AddrEnv); addr != "" {
		return addr
	}
	return testserver.SharedPostgres(t)
}

// Quiet returns a log that is shown only if the test fails: test servers do not wait for the disk,
// and each Locker would warn of that.
func Quiet(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// Pool returns a pool of the superuser's connections to the server at addr,
// closed when the test ends.
func Pool(t testing.TB, addr string, edit ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	c, err := pgxpool.ParseConfig(testserver.PostgresURL(addr, "pool_max_conns=12"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range edit {
		f(c)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Schema creates an unused schema on the server at addr.
func Schema(t testing.TB, addr string) (schema string) {
	t.Helper()
	schema = "test_" + store.NewProcess().String()
	if _, err := Pool(t, addr).Exec(t.Context(), `CREATE SCHEMA "`+schema+`"`); err != nil {
		t.Fatal(err)
	}
	return schema
}

// One returns the single value of a query.
func One[T any](t testing.TB, pool *pgxpool.Pool, query string, args ...any) (v T) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// Settings are part of a URL's query; [HasSettings] checks them.
const Settings = "&application_name=a%20b%2Bc+d&options=-c%20work_mem%3D5MB"

// HasSettings fails the test unless the server gets the Settings as they are written in a URL.
func HasSettings(t testing.TB, c *pgx.ConnConfig) {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var have string
	if err := conn.QueryRow(t.Context(), "SELECT current_setting('application_name') || ' ' || current_setting('work_mem')").Scan(&have); err != nil || have != "a b+c+d 5MB" {
		t.Errorf("the server has %q, %v", have, err)
	}
}

// A Tx is a transaction of either kind.
type Tx struct {
	Tx  any
	End func() error
	One func(statement string) (string, error)
}

// PID returns the process ID of the transaction's backend.
func (tx Tx) PID(t testing.TB) string {
	t.Helper()
	pid, err := tx.One("SELECT pg_backend_pid()::text")
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// EachTx runs a test with transactions of pgx and of database/sql.
func EachTx(t *testing.T, f func(t *testing.T, begin func() Tx)) {
	pool := Pool(t, Addr(t))
	ctx := context.Background()
	t.Run("pgx.Tx", func(t *testing.T) {
		f(t, func() Tx {
			tx, err := pool.BeginTx(ctx, pgx.TxOptions{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { tx.Rollback(ctx) })
			return Tx{tx, func() error { return tx.Commit(ctx) }, func(statement string) (text string, err error) {
				return text, tx.QueryRow(ctx, statement).Scan(&text)
			}}
		})
	})
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { db.Close() })
	t.Run("sql.Tx", func(t *testing.T) {
		f(t, func() Tx {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { tx.Rollback() })
			return Tx{tx, tx.Commit, func(statement string) (text string, err error) {
				return text, tx.QueryRowContext(ctx, statement).Scan(&text)
			}}
		})
	})
}
