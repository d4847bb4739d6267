package pgadvisory

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// LockTx waits until the name is locked in a transaction of yours. The lock is held until that
// transaction commits or rolls back: there is nothing to release, and the lock is lost only with
// the transaction itself. tx is a [pgx.Tx] or a [*sql.Tx] of any driver; it must not be used
// elsewhere during the call. The lock is the advisory lock of [KeyOf], so it excludes those of
// session mode too.
//
// A claim that must wait does so in the server's own queue, in a savepoint, and the server wakes
// it: waiters are served in the order of arrival. If the wait ends without the lock, the
// transaction continues as it was, with its settings unchanged. The lock_timeout of the transaction
// does not bound the wait; its statement_timeout does. If two transactions wait for each other's
// locks, the server ends one wait after its deadlock_timeout (1 s), with store.ErrDeadlock: roll
// that transaction back, otherwise the other keeps waiting.
//
// When ctx ends by its deadline, the server ends the wait. If ctx is canceled before, LockTx asks
// the server to end the statement, over a separate connection (a cancel request). That works for a
// pgx.Tx, and for a *sql.Tx of the driver of pgx. With another driver, the wait is split into parts
// of a second, so a cancellation is noticed up to a second late, and each part starts at the end of
// the queue.
//
// At the isolation levels REPEATABLE READ and SERIALIZABLE a transaction sees the
// data committed when its first statement began. If LockTx is that statement, the
// transaction may not see the writes of the previous holder: lock at READ
// COMMITTED, the server's default.
//
// The error matches the context's error and store.ErrHeld if the lock was refused until ctx ended;
// store.ErrHeld alone if statement_timeout ended the wait; store.ErrDeadlock if this transaction
// has locked the name before, or after a deadlock; store.ErrInvalid; store.ErrUnavailable if the
// transaction failed and can only be rolled back. If the server does not answer, LockTx waits until
// 5 s after the end of ctx, and then closes the connection.
//
// PostgreSQL lets a session take the same lock twice. LockTx knows the locks that it has taken in
// this transaction (the setting holdfast.locks lists them until the transaction ends), but not one
// that the same session has taken by pg_advisory_lock itself.
func LockTx(ctx context.Context, tx any, name string) error { return lockTx(ctx, tx, name, true, true) }

// RLockTx is LockTx for a read lock: readers do not exclude each other.
func RLockTx(ctx context.Context, tx any, name string) error {
	return lockTx(ctx, tx, name, false, true)
}

// TryLockTx is LockTx without waiting: if the lock is not free, the error matches store.ErrHeld.
func TryLockTx(ctx context.Context, tx any, name string) error {
	return lockTx(ctx, tx, name, true, false)
}

// TryRLockTx is TryLockTx for a read lock.
func TryRLockTx(ctx context.Context, tx any, name string) error {
	return lockTx(ctx, tx, name, false, false)
}

// lockTx tries the lock and, with wait, waits for it.
func lockTx(ctx context.Context, tx any, name string, write, wait bool) error {
	doing := func(err error) error { return fmt.Errorf("lock %.100q in a transaction on PostgreSQL: %w", name, err) }
	key, err := KeyOf(name)
	if err != nil {
		return doing(err)
	}
	t, err := newTxRun(tx)
	if err != nil {
		return doing(err)
	}
	if err := ctx.Err(); err != nil {
		return doing(err)
	}
	do := key.inTx(write)
	outcome, err := t.run(ctx, do.try, do.args...)
	if err != nil {
		return doing(t.failed(err))
	}
	timeout, held := strings.CutPrefix(outcome, "held ")
	switch {
	case outcome == "own":
		return doing(fmt.Errorf("%w: this transaction has locked it already", store.ErrDeadlock))
	case held && !wait:
		return doing(store.ErrHeld)
	case held:
		if err := t.wait(ctx, do, timeout); err != nil {
			return doing(err)
		}
	}
	return nil
}

// inTx has the statements that lock a key in a transaction. Both answer in one column of text.
type inTx struct {
	try  string // "own", "got", or "held" and the lock_timeout of the transaction
	wait string // waits; takes two more arguments: the lock_timeout meanwhile, and afterwards
	args []any
}

// inTx returns the statements for the key. To the server a session never blocks itself, so the keys
// that the transaction has are kept in a setting. Like the lock, the setting ends with the
// transaction, or with the savepoint in which the lock was taken. Reading pg_locks instead would
// lock the server's whole lock table.
func (k Key) inTx(write bool) inTx {
	shared := "_shared"
	if write { //mutant:pg-tx-shared
		shared = ""
	}
	args := []any{k.n}
	if k.pair {
		a, b := k.halves()
		args = []any{int32(a), int32(b)}
	}
	n := len(args)
	args = append(args, strings.TrimPrefix(k.String(), keyPrefix))
	const have = "coalesce(nullif(current_setting('holdfast.locks', true), ''), ' ')"
	key := fmt.Sprintf("$%d::text || ' '", n+1)
	mark := "set_config('holdfast.locks', " + have + " || " + key + ", " +
		"true" + //mutant:pg-tx-locks-known
		")"
	// CASE fixes the order in which the functions are called.
	return inTx{
		try: "SELECT CASE WHEN position(' ' || " + key + " IN " + have + ")" +
			" > 0" + //mutant:pg-tx-own
			" THEN 'own' WHEN pg_try_advisory_xact_lock" + shared + "(" + k.params() + ") THEN left(" + mark + ", 0) || 'got'" +
			" ELSE 'held ' || current_setting('lock_timeout') END",
		wait: fmt.Sprintf("SELECT CASE WHEN set_config('lock_timeout', "+
			"$%d::text"+ //mutant:pg-tx-lock-timeout-during
			", true) <> '' THEN"+
			" CASE WHEN pg_advisory_xact_lock%s(%s)::text = '' THEN"+
			" left(%s || "+
			"set_config('lock_timeout', $%d::text, true)"+ //mutant:pg-tx-lock-timeout-after
			", 0) || 'got' END END", n+2, shared, k.params(), mark, n+3),
		args: args,
	}
}
