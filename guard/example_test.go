package guard_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strconv"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/guard"
)

// A job marks an invoice as sent. If it was stopped for so long that another job has taken the lock and has written, it
// writes nothing, and the error is a [guard.StaleError].
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

// handed is the lease of a command that holdfast run has started. The command finds the name and the token in its
// environment. It is a write lease, as holdfast run was called without --shared and --slots.
type handed struct {
	name  string
	token int64
}

func (h handed) Name() string        { return h.name }
func (h handed) Token() int64        { return h.token }
func (h handed) Mode() holdfast.Mode { return holdfast.ModeWrite }

// A command that holdfast run has started guards its transactions by the token from its environment: Check and Do take
// any Lease.
func ExampleLease() {
	os.Setenv("HOLDFAST_NAME", "invoice/42") // holdfast run sets these
	os.Setenv("HOLDFAST_TOKEN", "1721")

	token, err := strconv.ParseInt(os.Getenv("HOLDFAST_TOKEN"), 10, 64)
	if err != nil {
		fmt.Println(err)
		return
	}
	lease := handed{os.Getenv("HOLDFAST_NAME"), token}
	raises, err := guard.Raises(lease)
	fmt.Println("it raises the fence:", raises, err)
	// Output: it raises the fence: true <nil>
}
