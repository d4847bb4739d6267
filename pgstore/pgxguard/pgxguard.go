// Package pgxguard is [guard.PostgreSQL] for transactions of pgx that are used
// without database/sql. Package guard has the rule, and says what a guard is for.
//
//	err := pgxguard.Do(ctx, pool, pgx.TxOptions{}, lease, func(ctx context.Context, tx pgx.Tx) error {
//		_, err := tx.Exec(ctx, "UPDATE invoice SET …")
//		return err
//	})
//
// Both kinds may be used beside each other: the fences are the same.
package pgxguard

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/guard"
)

// Schema is the statement that makes the table of fences. See
// [guard.Dialect.Schema].
func Schema() string { return guard.PostgreSQL.Schema() }

// Check is [guard.Dialect.Check] of guard.PostgreSQL: it must be the first
// statement of every transaction that the lease protects.
func Check(ctx context.Context, tx pgx.Tx, l guard.Lease) error {
	return guard.PostgreSQL.CheckTx(ctx, onPgx{tx}, l)
}

// Forget is [guard.Dialect.Forget] of guard.PostgreSQL: it deletes the fence of a
// name together with what its lock protects.
func Forget(ctx context.Context, tx pgx.Tx, name string) error {
	return guard.PostgreSQL.ForgetTx(ctx, onPgx{tx}, name)
}

// A Beginner begins transactions: a [github.com/jackc/pgx/v5/pgxpool.Pool] or a
// [pgx.Conn].
type Beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// Do is [guard.Dialect.Do] of guard.PostgreSQL: it runs fn in a guarded
// transaction, anew after a serialization failure or a deadlock, up to ten times.
// A panic of fn rolls the transaction back.
func Do(ctx context.Context, db Beginner, o pgx.TxOptions, l guard.Lease, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return guard.Retry(ctx, l, func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, o)
		if err != nil {
			return fmt.Errorf("guard %q: begin: %w", l.Name(), err)
		}
		defer tx.Rollback(context.WithoutCancel(ctx)) // nothing, once it is committed
		if err := Check(ctx, tx, l); err != nil {
			return err
		}
		if err := fn(ctx, tx); err != nil {
			return err
		}
		if err := tx.Commit(ctx); err != nil {
			return fmt.Errorf("guard %q: commit: %w", l.Name(), err)
		}
		return nil
	})
}

// onPgx is a guard.Tx.
type onPgx struct{ tx pgx.Tx }

func (t onPgx) QueryInt(ctx context.Context, statement string, args ...any) (n int64, found bool, err error) {
	switch err := t.tx.QueryRow(ctx, statement, args...).Scan(&n); {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, false, nil
	case err != nil:
		return 0, false, err
	}
	return n, true, nil
}

func (t onPgx) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	_, err := t.tx.Exec(ctx, statement, args...)
	return 0, err
}
