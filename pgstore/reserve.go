package pgstore

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// reserveConns is how many connections the reserve has at most.
	reserveConns = 2
	// reserveIdle is how long an unused connection stays open.
	reserveIdle = time.Minute
	// reserveAfter is how long a statement waits for a pool that seemed to have a free connection.
	reserveAfter = 200 * time.Millisecond
)

// A reserve is a pool of the Store's own connections, for statements on which leases depend. It is
// opened when the user's pool is exhausted: request handlers that wait for a lock with a connection
// in hand would otherwise keep the lock's holder from renewing.
type reserve struct {
	mu     sync.Mutex
	pool   *pgxpool.Pool
	closed bool
}

// acquire returns a connection of the pool, or of the reserve if all connections of the pool are in
// use. config returns the config of the pool.
func (r *reserve) acquire(ctx context.Context, pool *pgxpool.Pool, config func() *pgxpool.Config) (*pgxpool.Conn, error) {
	if in := pool.Stat(); in.AcquiredConns() < in.MaxConns() {
		soon, cancel := context.WithTimeout(ctx, reserveAfter) //mutant:pg-pool-soon
		conn, err := pool.Acquire(soon)
		cancel()
		if err == nil || ctx.Err() != nil || soon.Err() == nil {
			return conn, err
		}
	}
	if conn := r.conn(ctx, config); conn != nil {
		return conn, nil
	}
	return pool.Acquire(ctx)
}

// conn returns a connection of the reserve, or nil if none is available.
func (r *reserve) conn(ctx context.Context, config func() *pgxpool.Config) *pgxpool.Conn {
	pool := r.open(config)
	if pool == nil {
		return nil
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil
	}
	return conn
}

func (r *reserve) open(config func() *pgxpool.Config) *pgxpool.Pool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pool != nil || r.closed {
		return r.pool
	}
	c := config()
	if c == nil {
		return nil
	}
	c.MaxConns, c.MinConns, c.MinIdleConns, c.MaxConnIdleTime = reserveConns, 0, 0, reserveIdle
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		return nil
	}
	r.pool = pool
	return pool
}

func (r *reserve) close() {
	r.mu.Lock()
	pool := r.pool
	r.pool, r.closed = nil, true
	r.mu.Unlock()
	if pool != nil {
		pool.Close()
	}
}
