package guard_test

import (
	"context"
	"database/sql"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/guard"
)

// A job marks an invoice as sent. If it was stopped for so long that another job has taken the
// lock and has written, then it writes nothing, and the error is a [guard.StaleError].
func ExampleDialect_Do() {
	markSent := func(ctx context.Context, locks *holdfast.Locker, db *sql.DB) error {
		lease, err := locks.Mutex("invoice/42").Lock(ctx)
		if err != nil {
			return err
		}
		defer lease.Release()
		return guard.PostgreSQL.Do(ctx, db, nil, lease, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE invoice SET state = 'sent' WHERE id = 42")
			return err
		})
	}
	_ = markSent
}
