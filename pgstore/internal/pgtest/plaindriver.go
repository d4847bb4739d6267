package pgtest

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// An olderDriver is the driver of pgx, reduced to what older drivers of PostgreSQL have: arguments
// of the standard kinds only, and errors whose code is a field, not a method.
type olderDriver struct{ driver.Connector }

// OlderDriver returns a connector to the server at addr, with a driver other than that of pgx.
func OlderDriver(t testing.TB, addr string) driver.Connector {
	t.Helper()
	c, err := pgx.ParseConfig(testserver.PostgresURL(addr))
	if err != nil {
		t.Fatal(err)
	}
	return olderDriver{stdlib.GetConnector(*c)}
}

func (p olderDriver) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, plainly(err)
	}
	return plainConn{c.(*stdlib.Conn)}, nil
}

type plainDriver struct{ driver.Driver }

func (p olderDriver) Driver() driver.Driver { return plainDriver{p.Connector.Driver()} }

type plainConn struct{ c *stdlib.Conn }

func (p plainConn) Prepare(query string) (driver.Stmt, error) { return p.c.Prepare(query) }
func (p plainConn) Close() error                              { return p.c.Close() }
func (p plainConn) Begin() (driver.Tx, error)                 { return nil, errors.New("not used") }

func (p plainConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := p.c.BeginTx(ctx, o)
	return tx, plainly(err)
}

func (p plainConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := p.c.QueryContext(ctx, query, args)
	return rows, plainly(err)
}

func (p plainConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := p.c.ExecContext(ctx, query, args)
	return result, plainly(err)
}

// A PlainError is an error of the server as lib/pq before 1.10 returns it.
type PlainError struct {
	Severity string
	Code     PlainCode
	Message  string
}

type PlainCode string

func (e *PlainError) Error() string { return "pq: " + e.Message }

func plainly(err error) error {
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		return &PlainError{e.Severity, PlainCode(e.Code), e.Message}
	}
	return err
}
