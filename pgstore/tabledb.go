package pgstore

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/pgstore/internal/connect"
)

// A db runs statements on either kind of pool. Each is a transaction of its own.
type db interface {
	// query runs a statement and calls row for each row of its result.
	query(ctx context.Context, statement string, args []any, how how, row func(scan func(...any) error) error) error
	// config returns how to open one more connection. The caller may change it.
	config(ctx context.Context) (*pgx.ConnConfig, error)
	address() string
	// bounded returns how many connections there are at most for renewals; 0: other users of the
	// pool cannot keep a renewal waiting.
	bounded() int
	closeReserve()
}

// how says how a statement is run.
type how struct {
	pinned bool // it must be READ COMMITTED, whatever the user's default is
	urgent bool // a lease is lost if it waits for long
}

// pgxDB is a pool of pgx.
type pgxDB struct {
	pool    *pgxpool.Pool
	at      string
	mode    pgx.QueryExecMode
	plain   atomic.Bool // no statement is kept prepared, because a pooler is in between
	reserve reserve
}

// onPgx reads the settings that are needed often, because each call of Config copies it.
func onPgx(pool *pgxpool.Pool) *pgxDB {
	c := pool.Config().ConnConfig
	d := &pgxDB{pool: pool, mode: c.DefaultQueryExecMode, at: connect.Address(c)}
	if d.mode == pgx.QueryExecModeSimpleProtocol {
		d.mode = pgx.QueryExecModeExec
	}
	return d
}

func (d *pgxDB) address() string { return d.at }
func (d *pgxDB) bounded() int    { return 0 }
func (d *pgxDB) closeReserve()   { d.reserve.close() }

func (d *pgxDB) config(ctx context.Context) (*pgx.ConnConfig, error) {
	return connect.OfPool(ctx, d.pool)
}

func (d *pgxDB) query(ctx context.Context, statement string, args []any, how how, row func(func(...any) error) error) error {
	conn, err := d.acquire(ctx, how.urgent)
	if err != nil {
		return notSent{err}
	}
	defer conn.Release()
	mode := d.mode
	if d.plain.Load() {
		mode = pgx.QueryExecModeExec
	}
	err = pgxQuery(ctx, conn.Conn(), mode, statement, args, how.pinned, row)
	if mode != pgx.QueryExecModeExec && unprepared(err) {
		d.plain.Store(true)
		err = notRun{err}
	}
	return err
}

// acquire takes a connection out of the pool. For an urgent statement, it takes one out of the
// reserve if all connections of the pool are in use.
func (d *pgxDB) acquire(ctx context.Context, urgent bool) (*pgxpool.Conn, error) {
	if !urgent {
		return d.pool.Acquire(ctx)
	}
	return d.reserve.acquire(ctx, d.pool, d.pool.Config)
}

// unprepared reports whether a statement was not run because it was prepared on another connection
// than the pool assumed: a pooler is in between. pgx names a prepared statement after its text, so
// no other statement was run instead.
func unprepared(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "26000" || e.Code == "42P05" || e.Code == "08P01")
}

func pgxQuery(ctx context.Context, conn *pgx.Conn, mode pgx.QueryExecMode, statement string, args []any, pinned bool, row func(func(...any) error) error) error {
	args = append([]any{mode}, args...)
	if pinned {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx) // does nothing after the commit
		if err := each(ctx, tx.Query, statement, args, row); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
	return each(ctx, conn.Query, statement, args, row)
}

func each(ctx context.Context, query func(context.Context, string, ...any) (pgx.Rows, error), statement string, args []any, row func(func(...any) error) error) error {
	rows, err := query(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// notRun is the error of a statement that certainly was not run and may be sent again now.
type notRun struct{ error }

func (e notRun) Unwrap() error { return e.error }

// notSent is the error of a statement for which there was no connection.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }
