package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/pgstore"
)

var onPostgres = []contender{
	onStore(openOnPostgres),
	{name: tableLease, open: openTableLease},
	{name: "advisory lock", open: openAdvisory},
}

// tableLease is not a library: it is what most libraries do in a table. It is the reference of
// the PostgreSQL tables.
const tableLease = "table lease"

func openOnPostgres(url string, o *holdfast.Options) (ours, error) {
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return ours{}, err
	}
	if err := pool.Ping(context.Background()); err != nil { // connect before it is measured, as for the others
		pool.Close()
		return ours{}, err
	}
	s, err := pgstore.New(pool, nil)
	return oursOn(s, err, o, pool.Close)
}

// lockTableLease inserts a row, and deletes it if the row is still its own. It polls every 10
// ms.
type lockTableLease struct{ pool *pgxpool.Pool }

func openTableLease(url string) (locks, error) {
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return nil, err
	}
	_, err = pool.Exec(context.Background(), `CREATE TABLE IF NOT EXISTS lease (name text PRIMARY KEY, value text NOT NULL, expires timestamptz NOT NULL)`)
	return lockTableLease{pool}, err
}

func (p lockTableLease) lock(ctx context.Context, name string) (func() error, error) {
	for {
		tag, err := p.pool.Exec(ctx, `INSERT INTO lease VALUES ($1, $2, now() + $3::interval) ON CONFLICT DO NOTHING`, name, someOwner, ttl)
		if err != nil {
			return nil, err
		}
		if tag.RowsAffected() == 1 {
			break
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return func() error {
		_, err := p.pool.Exec(context.Background(), `DELETE FROM lease WHERE name = $1 AND value = $2`, name, someOwner)
		return err
	}, nil
}

func (p lockTableLease) close() error { p.pool.Close(); return nil }

// lockAdvisory needs a connection for each lock. It has no queue that is visible across
// connections, no token and no expiry.
type lockAdvisory struct{ pool *pgxpool.Pool }

func openAdvisory(url string) (locks, error) {
	pool, err := pgxpool.New(context.Background(), url)
	return lockAdvisory{pool}, err
}

func (p lockAdvisory) lock(ctx context.Context, name string) (func() error, error) {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock(hashtextextended($1, 0))`, name); err != nil {
		conn.Release()
		return nil, err
	}
	return func() error {
		defer conn.Release()
		_, err := conn.Exec(context.Background(), `SELECT pg_advisory_unlock(hashtextextended($1, 0))`, name)
		return err
	}, nil
}

func (p lockAdvisory) close() error { p.pool.Close(); return nil }

// startPostgres starts a server in a directory, dir. It syncs to disk, like any server that
// keeps data.
func startPostgres(ctx context.Context, connections int, args ...string) (addr string, conn *pgx.Conn, dir string, stop func(), err error) {
	server, end, err := startIn(func(in string) (*testserver.Server, error) {
		dir = in
		return testserver.StartPostgres(dir, append(args, "-c", "fsync=on", "-c", fmt.Sprint("max_connections=", connections))...)
	})
	if err != nil {
		return "", nil, "", nil, err
	}
	if conn, err = pgx.Connect(ctx, testserver.PostgresURL(server.Addr)); err != nil {
		end()
		return "", nil, "", nil, err
	}
	return server.Addr, conn, dir, func() {
		conn.Close(context.Background())
		end()
	}, nil
}

// postgresTitle describes the server in the rows.
func postgresTitle(ctx context.Context, conn *pgx.Conn) (string, error) {
	var version string
	err := conn.QueryRow(ctx, "SELECT current_setting('server_version')").Scan(&version)
	return "PostgreSQL " + version + " on the loopback, with its defaults, synced to disk at each commit", err
}

func postgresSuite(ctx context.Context, s setup) error {
	addr, conn, dir, stop, err := startPostgres(ctx, 200)
	if err != nil {
		return err
	}
	defer stop()
	url := testserver.PostgresURL(addr, "pool_max_conns=16")
	title, err := postgresTitle(ctx, conn)
	if err != nil {
		return err
	}
	synced, err := syncTime(dir)
	if err != nil {
		return err
	}
	s = s.at(fmt.Sprintf("%s; its disk syncs a page in %s", title, duration(synced)))
	if err := uncontended(ctx, s, "PostgreSQL", tableLease, besideWrites(onPostgres, openPostgresWrites), url, 1, 8); err != nil {
		return err
	}
	if err := sessionPairs(ctx, s, testserver.PostgresURL(addr)); err != nil {
		return err
	}
	if err := txLocks(ctx, s, testserver.PostgresURL(addr)); err != nil {
		return err
	}
	if err := handoff(ctx, s, "PostgreSQL", tableLease, "postgres", onPostgres, url); err != nil {
		return err
	}
	return bloat(ctx, s, conn, url)
}

// syncTime measures how long the disk takes to sync one page.
func syncTime(dir string) (float64, error) {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var took []float64
	for range 50 {
		begin := time.Now()
		if _, err := f.WriteAt(make([]byte, 8192), 0); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(begin)))
	}
	return median(took), nil
}

// bloat reports how large the tables are after many pairs on one name. It turns synchronous
// commit off: the same is written in less time. So the times mean nothing: a grant of holdfast
// waits for the disk in any case, the table lease then does not.
func bloat(ctx context.Context, s setup, conn *pgx.Conn, url string) error {
	if s.pairs == 0 {
		return nil
	}
	title := fmt.Sprintf("PostgreSQL: what is left of %d locks and unlocks of one name, one after another", s.pairs)
	fmt.Fprintf(s.out, "\n%s\n", title)
	for _, c := range []struct {
		contender
		table string
	}{{onPostgres[0], "holdfast_locks"}, {onPostgres[1], "lease"}} {
		l, err := c.open(url + "&options=-csynchronous_commit%3Doff")
		if err != nil {
			return err
		}
		for i := 0; i < s.pairs && err == nil; i++ {
			var unlock func() error
			if unlock, err = l.lock(ctx, "bloat"); err == nil {
				err = unlock()
			}
		}
		var size int64
		failed := err
		err = conn.QueryRow(ctx, "SELECT pg_total_relation_size($1::regclass)", c.table).Scan(&size)
		if err = errors.Join(failed, err, l.close()); err != nil {
			return err
		}
		fmt.Fprintf(s.out, "  %s: table, index and all %d kB\n", c.name, size/1024)
		if err := s.writeFigure(title, c.name, cost("table, index and all", "B"), float64(size)); err != nil {
			return err
		}
	}
	return nil
}
