package guard

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Do runs fn in a transaction whose first statement is [Dialect.Check], and
// commits it. If the server chose the transaction to end a conflict with another
// (a serialization failure, 40001; a deadlock, 40P01 or 1213), nothing of it is
// left, and Do starts again, up to ten times. So fn may run several times, and
// must do nothing outside of the transaction. o may be nil.
//
// If l is a [holdfast.Lease], Do ends with the lease too: the context of fn is
// the lease's.
//
// Errors: the driver's if it cannot begin; fn's own, as it is, after a roll-back; those of
// [Dialect.Check]; that of a commit, after which the transaction may or may not have been
// committed; and after the tenth conflict that of the last one. After a panic of fn the
// transaction is rolled back.
func (d *Dialect) Do(ctx context.Context, db *sql.DB, o *sql.TxOptions, l Lease, fn func(ctx context.Context, tx *sql.Tx) error) error {
	return Retry(ctx, l, func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, o)
		if err != nil {
			return fmt.Errorf("guard %q by %s: begin: %w", l.Name(), table, err)
		}
		defer tx.Rollback()                         // does nothing once it is committed
		if err := d.Check(ctx, tx, l); err != nil { //mutant:guard-do-checks
			return err
		}
		if err := fn(ctx, tx); err != nil { //mutant:guard-do-rolls-back
			return err
		}
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("guard %q by %s: commit: %w", l.Name(), table, err)
		}
		return nil
	})
}

// doTries is how often Do runs a transaction.
const doTries = 10

// Retry calls f, which runs one transaction, again for as long as the server chose that
// transaction to end a conflict (SQLSTATE 40001 or 40P01, see [store.SQLState]), up to
// ten times in all. Between two calls it pauses, at random, for at most 2 ms and then
// twice as long each time. It returns what the last call of f returned, also when the
// context ends in a pause. The context of f ends with ctx, and with the lease if that is
// a [holdfast.Lease]. It is for authors of a guard.
func Retry(ctx context.Context, l Lease, f func(context.Context) error) error {
	if lease, ok := l.(interface {
		Context(context.Context) context.Context
	}); ok {
		ctx = lease.Context(ctx) //mutant:guard-do-ends-with-lease
	}
	for try := 1; ; try++ {
		err := f(ctx)
		if try == doTries || !conflict(err) { //mutant:guard-tries-end
			return err
		}
		pause := time.NewTimer(rand.N(time.Millisecond << try))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

// conflict reports whether the server has rolled the transaction back to end a
// conflict with another.
func conflict(err error) bool {
	switch store.SQLState(err) {
	case "40001", "40P01": //mutant:guard-conflicts
		return true
	}
	return false
}
