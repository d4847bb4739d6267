package pgadvisory

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/store"
)

// BenchmarkTx compares LockTx with a bare call of the server's function: with one transaction after another on one name, and with eight at
// once. It reports how long a claim took: the median, and the slowest of a hundred.
//
//	go test -run '^$' -bench Tx -benchtime 2000x ./pgstore/pgadvisory
func BenchmarkTx(b *testing.B) {
	pool := poolOn(b, sharedAddr(b))
	name := "tx/" + store.NewProcess().String()
	key, err := KeyOf(name)
	if err != nil {
		b.Fatal(err)
	}
	for _, way := range []struct {
		name string
		lock func(ctx context.Context, tx pgx.Tx) error
	}{
		{"holdfast", func(ctx context.Context, tx pgx.Tx) error { return LockTx(ctx, tx, name) }},
		{"bare", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1::bigint)", key.n)
			return err
		}},
	} {
		b.Run("one/"+way.name, func(b *testing.B) { claims(b, pool, 1, way.lock) })
		b.Run("eight/"+way.name, func(b *testing.B) { claims(b, pool, 8, way.lock) })
	}
}

func claims(b *testing.B, pool *pgxpool.Pool, workers int, lock func(context.Context, pgx.Tx) error) {
	ctx, cancel := context.WithCancel(b.Context()) // as in most callers
	defer cancel()
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	left := make(chan struct{}, b.N)
	for range b.N {
		left <- struct{}{}
	}
	close(left)
	b.ResetTimer()
	for range workers {
		all.Go(func() {
			for range left {
				err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					begin := time.Now()
					err := lock(ctx, tx)
					mu.Lock()
					defer mu.Unlock()
					took = append(took, time.Since(begin))
					return err
				})
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
