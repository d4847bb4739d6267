package pgstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/pgstore/internal/connect"
)

// sqlDB is a database/sql pool.
type sqlDB struct {
	pool    *sql.DB
	pgx     bool // its driver is pgx's
	plain   atomic.Bool
	known   atomic.Pointer[pgx.ConnConfig] // the settings of its connections; nil: none was used yet
	reserve reserve
}

func (d *sqlDB) address() string { return "PostgreSQL" }
func (d *sqlDB) closeReserve()   { d.reserve.close() }

func (d *sqlDB) bounded() int {
	if d.pgx {
		return 0
	}
	return d.pool.Stats().MaxOpenConnections
}

func (d *sqlDB) config(ctx context.Context) (*pgx.ConnConfig, error) {
	if !d.pgx {
		return nil, fmt.Errorf("the driver of this database/sql pool (%T) cannot listen: with that of pgx waiters are woken", d.pool.Driver())
	}
	return connect.OfDB(ctx, d.pool)
}

func (d *sqlDB) query(ctx context.Context, statement string, args []any, how how, row func(func(...any) error) error) error {
	plain := !d.pgx || d.plain.Load() // as this statement is sent: another may set d.plain meanwhile
	var on sqlConn = d.pool
	if how.urgent {
		own, theirs, err := d.acquire(ctx)
		if err != nil {
			return notSent{err}
		}
		if own != nil {
			defer own.Release()
			return pgxQuery(ctx, own.Conn(), pgx.QueryExecModeExec, statement, args, how.pinned, row)
		}
		if theirs != nil {
			defer theirs.Close()
			on = theirs
		}
	}
	if d.pgx && plain {
		args = append([]any{pgx.QueryExecModeExec}, args...)
	}
	if d.pgx && d.known.Load() == nil {
		args = append([]any{&connect.Finder{Found: func(c *pgx.Conn) { d.known.Store(c.Config()) }}}, args...)
	}
	err := sendSQL(ctx, on, statement, args, how.pinned, row)
	switch {
	case !plain && unprepared(err):
		d.plain.Store(true)
		err = notRun{err}
	case errors.Is(err, driver.ErrBadConn): // the pool repeats that by itself, one of its connections does not
		err = notRun{err}
	}
	return err
}

// A sqlConn is a database/sql pool or one of its connections.
type sqlConn interface {
	QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
	BeginTx(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error)
}

func sendSQL(ctx context.Context, on sqlConn, statement string, args []any, pinned bool, row func(func(...any) error) error) error {
	if !pinned {
		return eachSQL(ctx, on.QueryContext, statement, args, row)
	}
	tx, err := on.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := eachSQL(ctx, tx.QueryContext, statement, args, row); err != nil {
		return err
	}
	return tx.Commit()
}

func eachSQL(ctx context.Context, query func(context.Context, string, ...any) (*sql.Rows, error), statement string, args []any, row func(func(...any) error) error) error {
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

// acquire returns a connection for an urgent statement: own from the reserve, or theirs from the
// pool. If both are nil, the statement waits for the pool, because that is unbounded, or no reserve
// is available.
func (d *sqlDB) acquire(ctx context.Context) (own *pgxpool.Conn, theirs *sql.Conn, err error) {
	in, known := d.pool.Stats(), d.known.Load()
	if known == nil || in.MaxOpenConnections == 0 {
		return nil, nil, nil
	}
	if in.InUse < in.MaxOpenConnections {
		soon, cancel := context.WithTimeout(ctx, reserveAfter) //mutant:pg-sql-pool-soon
		theirs, err = d.pool.Conn(soon)
		cancel()
		if err == nil || ctx.Err() != nil || soon.Err() == nil {
			return nil, theirs, err
		}
	}
	return d.reserve.conn(ctx, func() *pgxpool.Config {
		c, err := pgxpool.ParseConfig("")
		if err != nil {
			return nil
		}
		c.ConnConfig = known.Copy()
		return c
	}), nil, nil
}
