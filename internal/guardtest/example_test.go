package guardtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/memstore"
)

// A job marks an invoice as sent. The same transaction checks the lease: if the job was stopped for so long that
// another has the lock, it writes nothing.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection to :memory: is a database of its own
	for _, q := range []string{guard.SQLite.Schema(), "CREATE TABLE invoice (id INTEGER, state TEXT)", "INSERT INTO invoice VALUES (42, 'new')"} {
		if _, err := db.ExecContext(ctx, q); err != nil {
			fmt.Println(err)
			return
		}
	}
	locks, err := holdfast.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()

	send := func(lease guard.Lease) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := guard.SQLite.Check(ctx, tx, lease); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE invoice SET state = 'sent' WHERE id = 42"); err != nil {
			return err
		}
		return tx.Commit()
	}
	first, err := locks.Mutex("invoice/42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the holder:", send(first))
	first.Release() // the job continues without knowing that it no longer has the lock

	second, err := locks.Mutex("invoice/42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the next:", send(second))

	err = send(first)
	var stale *guard.StaleError
	fmt.Println("the first, late:", errors.As(err, &stale), errors.Is(err, holdfast.ErrLost), stale.Fence == second.Token())
	// Output:
	// the holder: <nil>
	// the next: <nil>
	// the first, late: true true true
}

// The same with [guard.Dialect.Do], which begins the transaction, checks the lease in it, and tries again after a
// conflict.
func Example_do() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, guard.SQLite.Schema()+"; CREATE TABLE invoice (id INTEGER, state TEXT); INSERT INTO invoice VALUES (42, 'new')"); err != nil {
		fmt.Println(err)
		return
	}
	locks, err := holdfast.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	lease, err := locks.Mutex("invoice/42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release()
	err = guard.SQLite.Do(ctx, db, nil, lease, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE invoice SET state = 'sent' WHERE id = 42")
		return err
	})
	var state string
	fmt.Println(err, db.QueryRowContext(ctx, "SELECT state FROM invoice").Scan(&state), state)
	// Output: <nil> <nil> sent
}
