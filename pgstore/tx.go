package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/store"
)

// LockTx waits until the name is locked in a transaction of the caller's, and is
// then held until that ends, by commit or rollback: there is nothing to release,
// and nothing to lose but the transaction itself. tx is a [pgx.Tx] or a
// [*sql.Tx] of any driver; nobody else may use it meanwhile. The lock is the
// advisory lock of [KeyOf], so it excludes those of session mode too.
//
// It waits by trying again, in pauses of 5 ms that grow to half a second, so that
// a wait which ends without the lock leaves the transaction as it was: usable,
// with its settings unchanged. There is no order among those who wait. Two
// transactions that wait for each other's locks wait until their contexts end,
// so give ctx a deadline, or lock names in one order.
//
// At the isolation levels REPEATABLE READ and SERIALIZABLE a transaction sees
// what was committed when its first statement began. If that is this one, it may
// not see what the holder before it has written: lock at READ COMMITTED, the
// server's default.
//
// Errors: one that matches the context's, and store.ErrHeld if the lock was
// refused until then; store.ErrDeadlock if this session has the lock already,
// in this transaction or otherwise; store.ErrInvalid; store.ErrUnavailable if
// the transaction failed, which then can only be rolled back. A server that
// does not answer is waited for until 5 s after the end of ctx; then the
// connection is given up.
func LockTx(ctx context.Context, tx any, name string) error { return lockTx(ctx, tx, name, true, true) }

// RLockTx is LockTx for a read lock: others that read do not exclude each other.
func RLockTx(ctx context.Context, tx any, name string) error {
	return lockTx(ctx, tx, name, false, true)
}

// TryLockTx is LockTx that does not wait: refused is a store.ErrHeld.
func TryLockTx(ctx context.Context, tx any, name string) error {
	return lockTx(ctx, tx, name, true, false)
}

// TryRLockTx is TryLockTx for a read lock.
func TryRLockTx(ctx context.Context, tx any, name string) error {
	return lockTx(ctx, tx, name, false, false)
}

const (
	leastTxPause = 5 * time.Millisecond
	mostTxPause  = 500 * time.Millisecond
	// txGrace is how long a statement may take after the end of the caller's
	// context: one that is cut off costs him the transaction.
	txGrace = 5 * time.Second
)

func lockTx(ctx context.Context, tx any, name string, write, wait bool) error {
	doing := func(err error) error { return fmt.Errorf("lock %.100q in a transaction on PostgreSQL: %w", name, err) }
	key, err := KeyOf(name)
	if err != nil {
		return doing(err)
	}
	run, err := txQuery(tx)
	if err != nil {
		return doing(err)
	}
	if err := ctx.Err(); err != nil {
		return doing(err)
	}
	first, again, args := key.inTx(write)
	outcome, err := run.within(ctx, first, args)
	for pause := leastTxPause; err == nil && outcome == "held" && wait; pause = min(pause*3/2, mostTxPause) {
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return doing(fmt.Errorf("gave up waiting: %w: %w", ctx.Err(), store.ErrHeld))
		}
		outcome, err = run.within(ctx, again, args)
	}
	switch {
	case err != nil:
		return doing(fmt.Errorf("%w: %w", store.ErrUnavailable, err))
	case outcome == "held":
		return doing(store.ErrHeld)
	case outcome == "own":
		return doing(fmt.Errorf("%w: the session of the transaction has it already", store.ErrDeadlock))
	}
	return nil
}

// A txRun runs a statement of one row and column.
type txRun func(ctx context.Context, statement string, args []any) (string, error)

func txQuery(tx any) (txRun, error) {
	switch tx := tx.(type) {
	case pgx.Tx:
		return func(ctx context.Context, statement string, args []any) (text string, err error) {
			err = tx.QueryRow(ctx, statement, args...).Scan(&text)
			return text, err
		}, nil
	case *sql.Tx:
		if tx != nil {
			return func(ctx context.Context, statement string, args []any) (text string, err error) {
				err = tx.QueryRowContext(ctx, statement, args...).Scan(&text)
				return text, err
			}, nil
		}
	}
	return nil, fmt.Errorf("%w: want a pgx.Tx or a *sql.Tx, got %T", store.ErrInvalid, tx)
}

// within runs the statement, which waits for nobody, to its end: also where ctx
// ends meanwhile, unless the server does not answer at all.
func (run txRun) within(ctx context.Context, statement string, args []any) (string, error) {
	bounded, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(txGrace, cancel) })()
	text, err := run(bounded, statement, args)
	if errors.Is(err, sql.ErrTxDone) || errors.Is(err, pgx.ErrTxClosed) {
		err = fmt.Errorf("the transaction is over: %w", err)
	}
	return text, err
}

// inTx are the statements that try the key in a transaction, for the first time
// and later, and their arguments. To the server a session is never in its own
// way; that is found in pg_locks, the first time.
func (k Key) inTx(write bool) (first, again string, args []any) {
	shared := "_shared"
	if write {
		shared = ""
	}
	args = []any{k.n}
	high, low, kind := "($1::bigint >> 32)", "$1::bigint", 1
	if k.pair {
		a, b := k.halves()
		args = []any{int32(a), int32(b)}
		high, low, kind = "$1::int::bigint", "$2::int::bigint", 2
	}
	const own = "EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted" +
		" AND classid = (%s & 4294967295)::oid AND objid = (%s & 4294967295)::oid AND objsubid = %d)"
	try := "WHEN pg_try_advisory_xact_lock" + shared + "(" + k.params() + ") THEN 'got' ELSE 'held' END"
	return "SELECT CASE WHEN " + fmt.Sprintf(own, high, low, kind) + " THEN 'own' " + try, "SELECT CASE " + try, args
}
