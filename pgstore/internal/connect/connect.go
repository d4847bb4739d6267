// Package connect is what pgstore and the packages below it share about connections: how to parse a
// server's URL, open a connection beside a pool, name a server in messages, and write an identifier
// in a statement.
package connect

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// Address says where a connection goes, for messages; it never has a password.
func Address(c *pgx.ConnConfig) string {
	where := fmt.Sprintf("PostgreSQL at %s, port %d", c.Host, c.Port)
	if c.Database != "" { // else the database has the user's name
		where += ", database " + c.Database
	}
	return where
}

// OfPool returns how to open one more connection like those of the pool. The caller may change it.
func OfPool(ctx context.Context, pool *pgxpool.Pool) (*pgx.ConnConfig, error) {
	c := pool.Config()
	if c.BeforeConnect != nil {
		if err := c.BeforeConnect(ctx, c.ConnConfig); err != nil {
			return nil, err
		}
	}
	return c.ConnConfig, nil
}

// OfDB is OfPool for a database/sql pool with the driver of pgx. It takes a connection out of the
// pool for a moment.
func OfDB(ctx context.Context, pool *sql.DB) (c *pgx.ConnConfig, err error) {
	conn, err := pool.Conn(ctx)
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

// A Finder is an argument of a statement by which pgx reports the connection that the statement
// runs on. Other drivers refuse it.
type Finder struct{ Found func(*pgx.Conn) }

// RewriteQuery implements [pgx.QueryRewriter].
func (f *Finder) RewriteQuery(_ context.Context, conn *pgx.Conn, statement string, args []any) (string, []any, error) {
	f.Found(conn)
	return statement, args, nil
}
