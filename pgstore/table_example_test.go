package pgstore_test

import (
	"context"
	"log"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/pgstore"
)

// The pool stays the caller's, and may be the one that the program works with.
func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@db.internal/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
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
	// In the same database the token can be checked by the write itself.
	_, err = pool.Exec(lease.Context(ctx), "UPDATE invoice SET sent = now(), fence = $1 WHERE id = 42 AND fence <= $1", lease.Token())
	if err != nil {
		log.Fatal(err)
	}
}

// Settings of the pool that a URL has not.
func ExampleParseURL() {
	config, options, err := pgstore.ParseURL("postgres://app@db.internal/app?schema=ops")
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
}
