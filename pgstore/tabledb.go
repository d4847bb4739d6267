package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// A db runs statements on the pool of either kind. Each is a transaction of its
// own.
type db interface {
	// query runs a statement and calls row for each row of its result. pinned
	// says that it has to be READ COMMITTED, whatever the user's default is.
	query(ctx context.Context, statement string, args []any, pinned bool, row func(scan func(...any) error) error) error
	// config is how to open one more connection. It is the caller's.
	config(ctx context.Context) (*pgx.ConnConfig, error)
	address() string
}

// pgxDB is a pool of pgx.
type pgxDB struct {
	pool  *pgxpool.Pool
	at    string
	mode  pgx.QueryExecMode
	plain atomic.Bool // no statement is kept prepared, as a pooler is in between
}

// onPgx takes from the pool what is wanted often: its Config is copied each
// time.
func onPgx(pool *pgxpool.Pool) *pgxDB {
	c := pool.Config().ConnConfig
	d := &pgxDB{pool: pool, mode: c.DefaultQueryExecMode, at: addressOf(c)}
	if d.mode == pgx.QueryExecModeSimpleProtocol {
		d.mode = pgx.QueryExecModeExec
	}
	return d
}

func (d *pgxDB) address() string { return d.at }

func (d *pgxDB) config(ctx context.Context) (*pgx.ConnConfig, error) {
	c := d.pool.Config()
	if c.BeforeConnect != nil {
		if err := c.BeforeConnect(ctx, c.ConnConfig); err != nil {
			return nil, err
		}
	}
	return c.ConnConfig, nil
}

func (d *pgxDB) query(ctx context.Context, statement string, args []any, pinned bool, row func(func(...any) error) error) error {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	mode := d.mode
	if d.plain.Load() {
		mode = pgx.QueryExecModeExec
	}
	err = pgxQuery(ctx, conn.Conn(), mode, statement, args, pinned, row)
	if mode != pgx.QueryExecModeExec && unprepared(err) {
		d.plain.Store(true)
		err = notRun{err}
	}
	return err
}

// unprepared reports whether a statement was not run because it was prepared
// on another connection than the pool thought: a pooler is in between. pgx
// names a prepared statement for its text, so it was none of another text.
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
		defer tx.Rollback(ctx) // nothing, once it is committed
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

// sqlDB is a pool of database/sql.
type sqlDB struct {
	pool  *sql.DB
	pgx   bool // its driver is pgx's
	plain atomic.Bool
}

func (d *sqlDB) address() string { return "PostgreSQL" }

func (d *sqlDB) config(ctx context.Context) (c *pgx.ConnConfig, err error) {
	if !d.pgx {
		return nil, fmt.Errorf("the driver of this database/sql pool (%T) cannot listen: with that of pgx waiters are woken", d.pool.Driver())
	}
	conn, err := d.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	err = conn.Raw(func(raw any) error {
		if c2, ok := raw.(*stdlib.Conn); ok {
			c = c2.Conn().Config().Copy()
			return nil
		}
		return fmt.Errorf("a connection of this database/sql pool is a %T", raw)
	})
	return c, err
}

func (d *sqlDB) query(ctx context.Context, statement string, args []any, pinned bool, row func(func(...any) error) error) error {
	plain := !d.pgx || d.plain.Load() // as this one is sent: others may find out meanwhile
	if d.pgx && plain {
		args = append([]any{pgx.QueryExecModeExec}, args...)
	}
	err := d.send(ctx, statement, args, pinned, row)
	if !plain && unprepared(err) {
		d.plain.Store(true)
		err = notRun{err}
	}
	return err
}

func (d *sqlDB) send(ctx context.Context, statement string, args []any, pinned bool, row func(func(...any) error) error) error {
	run := func(query func(context.Context, string, ...any) (*sql.Rows, error)) error {
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
	if !pinned {
		return run(d.pool.QueryContext)
	}
	tx, err := d.pool.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := run(tx.QueryContext); err != nil {
		return err
	}
	return tx.Commit()
}

// notRun is an error of a statement that surely was not run and may be now.
type notRun struct{ error }

func (e notRun) Unwrap() error { return e.error }
