package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/mysqlstore"
)

var onMySQL = []contender{
	onStore(openOnMySQL),
	{name: tableLease, open: openMySQLLease},
	{name: "GET_LOCK", open: openGetLock},
}

func openMySQLPool(dsn string) (*sql.DB, error) {
	db, err := sql.Open("mysql", dsn)
	if err == nil {
		db.SetMaxIdleConns(16)
	}
	return db, err
}

func openOnMySQL(dsn string, o *holdfast.Options) (ours, error) {
	db, err := openMySQLPool(dsn)
	if err != nil {
		return ours{}, err
	}
	s, err := mysqlstore.New(db, nil)
	return oursOn(s, err, o, func() { db.Close() })
}

// lockMySQLLease inserts a row, and deletes it if it is still its own. It waits by
// asking again each 10 ms.
type lockMySQLLease struct{ db *sql.DB }

func openMySQLLease(dsn string) (locks, error) {
	db, err := openMySQLPool(dsn)
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(`CREATE TABLE IF NOT EXISTS lease (name VARBINARY(255) PRIMARY KEY, value VARBINARY(32) NOT NULL, expires DATETIME(6) NOT NULL)`)
	return lockMySQLLease{db}, err
}

func (p lockMySQLLease) lock(ctx context.Context, name string) (func() error, error) {
	const value = "0123456789abcdef0123456789abcdef"
	for {
		result, err := p.db.ExecContext(ctx, `INSERT IGNORE INTO lease VALUES (?, ?, UTC_TIMESTAMP(6) + INTERVAL ? SECOND)`, name, value, int(ttl.Seconds()))
		var deadlock *mysql.MySQLError
		if err != nil && !(errors.As(err, &deadlock) && deadlock.Number == 1213) { // which the server asks to try again
			return nil, err
		}
		if err == nil {
			if n, _ := result.RowsAffected(); n == 1 {
				break
			}
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return func() error {
		_, err := p.db.Exec(`DELETE FROM lease WHERE name = ? AND value = ?`, name, value)
		return err
	}, nil
}

func (p lockMySQLLease) close() error { return p.db.Close() }

// lockGetLock has a connection a lock: no queue that anybody could see, no token,
// no time after which it is over.
type lockGetLock struct{ db *sql.DB }

func openGetLock(dsn string) (locks, error) {
	db, err := openMySQLPool(dsn)
	return lockGetLock{db}, err
}

func (p lockGetLock) lock(ctx context.Context, name string) (func() error, error) {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var got int
	if err := conn.QueryRowContext(ctx, `SELECT GET_LOCK(?, 1000)`, name).Scan(&got); err != nil || got != 1 {
		conn.Close()
		return nil, fmt.Errorf("GET_LOCK: %d, %w", got, err)
	}
	return func() error {
		defer conn.Close()
		_, err := conn.ExecContext(context.Background(), `DO RELEASE_LOCK(?)`, name)
		return err
	}, nil
}

func (p lockGetLock) close() error { return p.db.Close() }

// startMariaDB starts a server that waits for its disk, in dir. The connections
// interpolate parameters, which is good for all but ours, which has none.
func startMariaDB(connections int) (dsn string, db *sql.DB, dir string, stop func(), err error) {
	server, end, err := startIn(func(in string) (*testserver.Server, error) {
		dir = in
		return testserver.StartMariaDB(dir, "--innodb-flush-method=fsync", "--innodb-log-file-size=96M", fmt.Sprint("--max-connections=", connections))
	})
	if err != nil {
		return "", nil, "", nil, err
	}
	dsn = testserver.MariaDBDSN(server.Addr, "interpolateParams=true")
	if db, err = openMySQLPool(dsn); err != nil {
		end()
		return "", nil, "", nil, err
	}
	return dsn, db, dir, func() {
		db.Close()
		end()
	}, nil
}

func mysqlSuite(ctx context.Context, s setup) error {
	dsn, db, dir, stop, err := startMariaDB(500)
	if err != nil {
		return err
	}
	defer stop()
	var version string
	if err := db.QueryRowContext(ctx, "SELECT @@version").Scan(&version); err != nil {
		return err
	}
	synced, err := syncTime(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\nMariaDB %s on the loopback, with its defaults; its disk syncs a page in %s\n", version, duration(synced))
	if err := uncontended(ctx, s, "MariaDB", tableLease, onMySQL, dsn, 1, 8); err != nil {
		return err
	}
	if err := handoff(ctx, s, "MariaDB", tableLease, "mysql", onMySQL, dsn); err != nil {
		return err
	}
	return manyWait(ctx, s, db, dsn)
}

const manyWaiters = 50

// manyWait counts what the server is sent while many wait for one name, each with
// a locker and connections of its own.
func manyWait(ctx context.Context, s setup, db *sql.DB, dsn string) error {
	var runners []runner
	for _, c := range onMySQL[:2] { // GET_LOCK waits in the server
		var all []locks
		defer func() {
			for _, l := range all {
				l.close()
			}
		}()
		for range manyWaiters + 1 {
			l, err := c.open(dsn)
			if err != nil {
				return err
			}
			all = append(all, l)
		}
		runners = append(runners, runner{c.name, func(ctx context.Context) (measure, error) {
			unlock, err := all[0].lock(ctx, "held")
			if err != nil {
				return nil, err
			}
			waiting, leave := context.WithCancel(ctx)
			var wg sync.WaitGroup
			for _, l := range all[1:] {
				wg.Go(func() { l.lock(waiting, "held") })
			}
			// Until the pauses of those that look have grown.
			time.Sleep(min(10*s.slice, 5*time.Second))
			before, err := questions(ctx, db)
			if err == nil {
				begun := time.Now()
				time.Sleep(min(24*s.slice, 7*time.Second)) // two thirds of a position's time
				var after float64
				after, err = questions(ctx, db)
				before = (after - before) / time.Since(begun).Seconds()
			}
			leave()
			wg.Wait()
			return measure{"statements/s": before}, first(err, unlock())
		}})
	}
	few := s
	few.rounds = min(s.rounds, 3)
	return rounds(ctx, few, fmt.Sprintf("MariaDB: %d wait for one name that is held: statements at the server", manyWaiters), tableLease,
		[]column{{name: "statements/s", print: count, ratio: true}}, runners)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// questions is how many statements the server was sent.
func questions(ctx context.Context, db *sql.DB) (n float64, err error) {
	var name string
	err = db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n)
	return n, err
}
