package mssqlstore

import (
	"context"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/microsoft/go-mssqldb"

	"github.com/holdfast-go/holdfast/store/embedded"
)

// form is the version of the stored format.
const form = 1

//go:embed sql
var files embed.FS

var dir = embedded.Dir(files, "sql")

// serverNow is the server's clock when a request begins. After a wait for a row it is a little behind.
const serverNow = "DATEDIFF_BIG(microsecond,CAST('1970-01-01T00:00:00' AS datetime2),SYSUTCDATETIME())"

// text returns the statement in the file of this name. It always has an argument, so that it is sent by sp_executesql.
func (b *backend) text(name string) (string, []any) {
	now, args := serverNow, []any{sql.Named("form", int64(form))}
	if b.clock != nil {
		now, args = "@clock", append(args, sql.Named("clock", b.clock()))
	}
	return strings.Replace(b.in.Replace(embedded.Text(name+".sql", dir)), "{now}", now, 1), args
}

// binary returns an argument of any length, in hexadecimal, as a VARCHAR(MAX). For a []byte, the driver puts the length
// in the type, so the server would compile the statement for each length.
func binary[S string | []byte](name string, b S) sql.NamedArg {
	return sql.Named(name, mssql.VarCharMax(hex.EncodeToString([]byte(b))))
}

// send sends one request and reads the answer to its end, so that no row counts if its statement failed later. The
// driver may wait for the server even after ctx has ended; the caller does not.
func send[T any](ctx context.Context, b *backend, statement string, args []any, scan func(*sql.Rows) (T, error)) ([]T, error) {
	type answer struct {
		rows []T
		err  error
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	done := make(chan answer, 1)
	go func() {
		var a answer
		defer func() { done <- a }()
		rows, err := b.db.QueryContext(ctx, statement, args...)
		if a.err = err; err != nil {
			return
		}
		defer rows.Close()
		for rows.Next() {
			one, err := scan(rows)
			if a.err = err; err != nil {
				return
			}
			a.rows = append(a.rows, one)
		}
		a.err = rows.Err() //mutant:mssql-answer-is-read-to-its-end
	}()
	select {
	case a := <-done:
		return a.rows, b.failed(a.err)
	case <-ctx.Done(): //mutant:mssql-context-is-heeded
		return nil, ctx.Err()
	}
}

// ask sends the statement with this name, after making sure that the tables exist.
func ask[T any](ctx context.Context, b *backend, name string, scan func(*sql.Rows) (T, error), args ...any) ([]T, error) {
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	statement, all := b.text(name)
	return send(ctx, b, statement, append(all, args...), scan)
}

// one returns the only row of an answer.
func one[T any](all []T, err error) (row T, _ error) {
	switch {
	case err != nil:
		return row, err
	case len(all) != 1: //mutant:mssql-one-row
		return row, errors.New("the server's answer is not one row")
	}
	return all[0], nil
}

// numbers returns a scan function for n numbers.
func numbers(n int) func(*sql.Rows) ([]int64, error) {
	return func(rows *sql.Rows) ([]int64, error) {
		all, to := make([]int64, n), make([]any, n)
		for i := range all {
			to[i] = &all[i]
		}
		return all, rows.Scan(to...)
	}
}

// write sends a statement that returns nothing.
func (b *backend) write(ctx context.Context, name string, args ...any) error {
	_, err := ask(ctx, b, name, numbers(0), args...)
	return err
}
