// Package pgxguard checks fencing tokens in transactions of pgx, without database/sql. It is the
// counterpart of [guard.PostgreSQL] for pgx. Package [github.com/holdfast-go/holdfast/guard]
// explains the rule and what a guard is for.
//
//	err := pgxguard.Do(ctx, pool, pgx.TxOptions{}, lease, func(ctx context.Context, tx pgx.Tx) error {
//		_, err := tx.Exec(ctx, "UPDATE invoice SET …")
//		return err
//	})
//
// You may also use guard.PostgreSQL on the same database: the fences are the same.
package pgxguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/guard"
)

// Schema returns the statement that creates the table of fences. See [guard.Dialect.Schema].
func Schema() string { return guard.PostgreSQL.Schema() }

// Check is [guard.Dialect.Check] of [guard.PostgreSQL]. It must be the first statement of every
// transaction that the lease protects. A late holder gets a [guard.StaleError]: roll back then.
func Check(ctx context.Context, tx pgx.Tx, l guard.Lease) error {
	return guard.PostgreSQL.CheckTx(ctx, onPgx{tx}, l)
}

// Forget is [guard.Dialect.Forget] of guard.PostgreSQL: it deletes the fence of a
// name together with what its lock protects.
func Forget(ctx context.Context, tx pgx.Tx, name string) error {
	return guard.PostgreSQL.ForgetTx(ctx, onPgx{tx}, name) //mutant:pgxguard-forgets
}

// A Beginner begins transactions: a [github.com/jackc/pgx/v5/pgxpool.Pool] or a
// [pgx.Conn].
type Beginner interface {
	// BeginTx begins a transaction.
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// Do is [guard.Dialect.Do] of guard.PostgreSQL: it runs fn in a guarded transaction, and retries
// after a serialization failure or a deadlock, up to ten times in all. The errors are those of
// [guard.Dialect.Do]. A panic of fn rolls the transaction back. If the server does not answer, a
// rollback waits at most 5 s.
func Do(ctx context.Context, db Beginner, o pgx.TxOptions, l guard.Lease, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return guard.Retry(ctx, l, func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, o)
		if err != nil {
			return fmt.Errorf("guard %q: begin: %w", l.Name(), err)
		}
		defer rollback(ctx, tx)                   //mutant:pgxguard-rolls-back
		if err := Check(ctx, tx, l); err != nil { //mutant:pgxguard-checks
			return err
		}
		if err := fn(ctx, tx); err != nil { //mutant:pgxguard-heeds-fn
			return err
		}
		if err := tx.Commit(ctx); err != nil { //mutant:pgxguard-commits
			return fmt.Errorf("guard %q: commit: %w", l.Name(), err)
		}
		return nil
	})
}

// rollbackLimit is how long a rollback waits for the server. Then the connection is closed, and the
// server rolls back by itself.
const rollbackLimit = 5 * time.Second

// rollback does nothing after a commit. It also works after the end of the context.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit) //mutant:pgxguard-rollback-limit
	defer cancel()
	_ = tx.Rollback(ctx)
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
