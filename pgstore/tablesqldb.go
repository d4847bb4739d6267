package pgstore

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/pgstore/internal/connect"
)

// sqlDB is a pool of database/sql.
type sqlDB struct {
	pool    *sql.DB
	pgx     bool // its driver is pgx's
	plain   atomic.Bool
	known   atomic.Pointer[pgx.ConnConfig] // how a connection of it was opened; nil: none was used yet
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
	plain := !d.pgx || d.plain.Load() // as this one is sent: others may find out meanwhile
	if how.urgent {
		if conn := d.inReserve(ctx); conn != nil {
			defer conn.Release()
			return pgxQuery(ctx, conn.Conn(), pgx.QueryExecModeExec, statement, args, how.pinned, row)
		}
	}
	if d.pgx && plain {
		args = append([]any{pgx.QueryExecModeExec}, args...)
	}
	if d.pgx && d.known.Load() == nil {
		args = append([]any{&connect.Finder{Found: func(c *pgx.Conn) { d.known.Store(c.Config()) }}}, args...)
	}
	err := d.send(ctx, statement, args, how.pinned, row)
	if !plain && unprepared(err) {
		d.plain.Store(true)
		err = notRun{err}
	}
	return err
}

func (d *sqlDB) send(ctx context.Context, statement string, args []any, pinned bool, row func(func(...any) error) error) error {
	if !pinned {
		return eachSQL(ctx, d.pool.QueryContext, statement, args, row)
	}
	tx, err := d.pool.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
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

// inReserve returns a connection out of the reserve if all of the pool are in
// use; nil: the pool will do, or there is no other.
func (d *sqlDB) inReserve(ctx context.Context) *pgxpool.Conn {
	in := d.pool.Stats()
	known := d.known.Load()
	if known == nil || in.MaxOpenConnections == 0 || in.InUse < in.MaxOpenConnections {
		return nil
	}
	return d.reserve.conn(ctx, func() *pgxpool.Config {
		c, err := pgxpool.ParseConfig("")
		if err != nil {
			return nil
		}
		c.ConnConfig = known.Copy()
		return c
	})
}
