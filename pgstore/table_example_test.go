package pgstore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/pgstore"
)

// The pool remains the caller's, and the program may use it for its own work.
func ExampleNew() {
	ctx := context.Background()
	url, stop := exampleServer() // "postgres://app@db.internal/app"
	defer stop()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS ops;
		CREATE TABLE ops.invoice (id int, sent timestamptz, fence bigint);
		INSERT INTO ops.invoice VALUES (42, NULL, 0)`)
	if err != nil {
		log.Fatal(err)
	}
	s, err := pgstore.New(pool, &pgstore.Options{Schema: "ops"})
	if err != nil {
		log.Fatal(err)
	}
	locks, err := holdfast.New(s, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	lease, err := locks.Mutex("invoice/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release()
	// In the same database the write itself can check the token.
	done, err := pool.Exec(lease.Context(ctx), "UPDATE ops.invoice SET sent = now(), fence = $1 WHERE id = 42 AND fence <= $1", lease.Token())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("written:", done.RowsAffected() == 1)
	// Output: written: true
}

// A pool can have settings that a URL cannot express.
func ExampleParseURL() {
	url, stop := exampleServer() // "postgres://app@db.internal/app"
	defer stop()
	config, options, err := pgstore.ParseURL(url + "&schema=ops")
	if err != nil {
		log.Fatal(err)
	}
	config.MaxConnIdleTime = time.Minute
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	s, err := pgstore.New(pool, options)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	fmt.Println("the table is in schema", options.Schema)
	// Output: the table is in schema ops
}

// exampleServer starts a PostgreSQL for the examples.
func exampleServer() (url string, stop func()) { return testserver.ExamplePostgres() }
