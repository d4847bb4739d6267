package pgadvisory_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/pgstore/pgadvisory"
)

// A job that must start elsewhere the moment its process dies.
func ExampleNew() {
	url, stop := exampleServer() // "postgres://app@db.internal/app"
	defer stop()
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	s, err := pgadvisory.New(pool, &pgadvisory.Options{Tokens: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	locks, err := holdfast.New(s, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	// The function's context ends when the session is lost. Until the function has stopped, another process may already run it: so write with
	// the token.
	err = locks.Mutex("importer").Do(ctx, func(ctx context.Context) error {
		fmt.Println("alone, with a token:", holdfast.LeaseFrom(ctx).Token() > 0)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: alone, with a token: true
}

// Nobody else writes the balance until this transaction ends.
func ExampleLockTx() {
	_ = func(ctx context.Context, db *sql.DB, account int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		waiting, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := pgadvisory.LockTx(waiting, tx, fmt.Sprintf("account/%d", account)); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance - 1 WHERE id = $1", account); err != nil {
			return err
		}
		return tx.Commit() // which also releases the lock
	}
}

// One of several workers does the job; the others do something else.
func ExampleTryLockTx() {
	_ = func(ctx context.Context, tx *sql.Tx) error {
		err := pgadvisory.TryLockTx(ctx, tx, "nightly")
		if errors.Is(err, holdfast.ErrHeld) {
			return nil // and the transaction is still usable
		}
		return err
	}
}

// A lock that programs without holdfast take by its number.
func ExampleKeyOf() {
	for _, name := range []string{"advisory:1234", "advisory:12,34", "invoice/42"} {
		key, err := pgadvisory.KeyOf(name)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(key)
	}
	// Output:
	// advisory:1234
	// advisory:12,34
	// advisory:6496269355956695625
}

// exampleServer starts a PostgreSQL for the examples.
func exampleServer() (url string, stop func()) { return testserver.ExamplePostgres() }
