package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/pgstore/pgadvisory"
)

// bareTxLock is not a library: it is a function of the server. It is the reference of its
// table.
const bareTxLock = "pg_advisory_xact_lock"

// onTx are locks that end with the caller's transaction.
var onTx = []contender{
	openTx("holdfast, LockTx", func(ctx context.Context, tx pgx.Tx, name string) error {
		return pgadvisory.LockTx(ctx, tx, name)
	}),
	openTx(bareTxLock, func(ctx context.Context, tx pgx.Tx, name string) error {
		_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", name)
		return err
	}),
}

type lockTx func(ctx context.Context, tx pgx.Tx, name string) error

// lockInTx begins a transaction for each lock.
type lockInTx struct {
	pool *pgxpool.Pool
	take lockTx
}

func openTx(name string, take lockTx) contender {
	return contender{name: name, open: func(url string) (locks, error) {
		pool, err := pgxpool.New(context.Background(), url)
		return lockInTx{pool, take}, err
	}}
}

func (p lockInTx) lock(ctx context.Context, name string) (func() error, error) {
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.take(ctx, tx, name); err != nil {
		tx.Rollback(context.Background())
		return nil, err
	}
	return func() error { return tx.Commit(context.Background()) }, nil
}

func (p lockInTx) close() error { p.pool.Close(); return nil }

// txLocks measures locks that end with a transaction. The uncontended figures are of the calls
// alone, without begin and end, on one connection. LockTx remembers what the transaction has
// locked, so one table has one lock a transaction, and one has many.
func txLocks(ctx context.Context, s setup, url string) error {
	for _, n := range []int{1, 100} {
		var runners []runner
		for _, c := range onTx {
			l, err := c.open(url)
			if err != nil {
				return err
			}
			defer l.close()
			runners = append(runners, runner{c.name, func(ctx context.Context) (measure, error) {
				return txCalls(ctx, l.(lockInTx), n, s.slice)
			}})
		}
		title := fmt.Sprintf("PostgreSQL transactions: %d uncontended locks in each, without its begin and end", n)
		if err := rounds(ctx, s, title, bareTxLock, []column{rate("locks/s"), elapsed("p50")}, runners); err != nil {
			return err
		}
	}
	return hotClients(ctx, s, "PostgreSQL transactions", bareTxLock, onTx, url)
}

// txCalls takes n locks in one transaction after another for d.
func txCalls(ctx context.Context, l lockInTx, n int, d time.Duration) (measure, error) {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("bench/%d", i)
	}
	var all []time.Duration
	var within time.Duration
	for began := time.Now(); len(all) == 0 || time.Since(began) < d; {
		err := pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
			for i := range n {
				begun := time.Now()
				if err := l.take(ctx, tx, names[i]); err != nil {
					return err
				}
				took := time.Since(begun)
				within += took
				all = append(all, took)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return measure{"locks/s": float64(len(all)) / within.Seconds(), "p50": float64(median(all))}, nil
}
