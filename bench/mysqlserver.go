package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A mySQLKind is a server with the MySQL protocol.
type mySQLKind struct {
	title string
	suite string // the store's name
	begin func(dir, connections string) (*testserver.Server, error)
}

var (
	mariaDB = mySQLKind{"MariaDB", "mysql", func(dir, connections string) (*testserver.Server, error) {
		return testserver.StartMariaDB(dir, "--innodb-flush-method=fsync", "--innodb-log-file-size=96M", "--max-connections="+connections)
	}}
	mySQL = mySQLKind{"MySQL", "mysql9", func(dir, connections string) (*testserver.Server, error) {
		return testserver.StartMySQL9(dir, "--innodb-flush-method=fsync", "--innodb-redo-log-capacity=100M", "--max-connections="+connections)
	}}
)

// A mySQLServer runs until stop is called.
type mySQLServer struct {
	dsn   string
	title string // its version and settings
	db    *sql.DB
	stop  func()
}

// start starts a server that syncs to disk. The connections interpolate parameters, which helps
// all contenders but holdfast, which has no parameters.
func (kind mySQLKind) start(ctx context.Context, connections int) (s mySQLServer, err error) {
	var dir string
	server, end, err := startIn(func(in string) (*testserver.Server, error) {
		dir = in
		return kind.begin(in, fmt.Sprint(connections))
	})
	if errors.Is(err, testserver.ErrUnreachable) {
		return s, fmt.Errorf("%w: %w", errNoServer, err)
	}
	if err != nil {
		return s, err
	}
	s.dsn = testserver.MariaDBDSN(server.Addr, "interpolateParams=true")
	if s.db, err = openMySQLPool(s.dsn); err != nil {
		end()
		return s, err
	}
	s.stop = func() {
		s.db.Close()
		end()
	}
	var version string
	err = s.db.QueryRowContext(ctx, "SELECT @@version").Scan(&version)
	var synced float64
	if err == nil {
		synced, err = syncTime(dir)
	}
	if err != nil {
		s.stop()
		return s, err
	}
	s.title = fmt.Sprintf("%s %s on the loopback, with its defaults, synced to disk at each commit; its disk syncs a page in %s", kind.title, version, duration(synced))
	return s, nil
}

func mariaDBSuite(ctx context.Context, s setup) error { return mariaDB.tables(ctx, s) }

func mySQLSuite(ctx context.Context, s setup) error { return mySQL.tables(ctx, s) }

func (kind mySQLKind) tables(ctx context.Context, s setup) error {
	server, err := kind.start(ctx, 500)
	if errors.Is(err, errNoServer) {
		return s.absent(kind.title, err.Error())
	}
	if err != nil {
		return err
	}
	defer server.stop()
	s = s.at(server.title)
	if err := uncontended(ctx, s, kind.title, tableLease, besideWrites(onMySQL, openMySQLWrites), server.dsn, 1, 8); err != nil {
		return err
	}
	if err := handoff(ctx, s, kind.title, tableLease, kind.suite, onMySQL, server.dsn); err != nil {
		return err
	}
	if err := hotClients(ctx, s, kind.title, tableLease, onMySQL, server.dsn); err != nil {
		return err
	}
	return manyWait(ctx, s, kind, server)
}

const manyWaiters = 50

// manyWait counts the statements that the server receives while many clients wait for one name,
// each with its own locker and connections.
func manyWait(ctx context.Context, s setup, kind mySQLKind, server mySQLServer) error {
	var runners []runner
	for _, c := range onMySQL[:2] { // GET_LOCK waits in the server
		var all []locks
		defer func() {
			for _, l := range all {
				l.close()
			}
		}()
		for range manyWaiters + 1 {
			l, err := c.open(server.dsn)
			if err != nil {
				return err
			}
			all = append(all, l)
		}
		held := 0
		runners = append(runners, runner{c.name, func(ctx context.Context) (measure, error) {
			// The table lease may get the name late, by a statement whose caller has given up. So each round has its own.
			held++
			name := fmt.Sprint("held ", held)
			unlock, err := all[0].lock(ctx, name)
			if err != nil {
				return nil, err
			}
			waiting, leave := context.WithCancel(ctx)
			var wg sync.WaitGroup
			for _, l := range all[1:] {
				wg.Go(func() { l.lock(waiting, name) })
			}
			// Wait until the pollers' pauses have grown.
			time.Sleep(min(10*s.slice, 5*time.Second))
			before, err := questions(ctx, server.db)
			if err == nil {
				begun := time.Now()
				time.Sleep(min(24*s.slice, 7*time.Second)) // two thirds of the lifetime of a queue position
				var after float64
				after, err = questions(ctx, server.db)
				before = (after - before) / time.Since(begun).Seconds()
			}
			leave()
			wg.Wait()
			return measure{"statements/s": before}, first(err, unlock())
		}})
	}
	few := s.atMost(3)
	return rounds(ctx, few, fmt.Sprintf("%s: %d wait for one name that is held: statements at the server", kind.title, manyWaiters), tableLease,
		[]column{{name: "statements/s", unit: "1/s", better: less, print: count, ratio: true}}, runners)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// questions returns how many statements the server has received.
func questions(ctx context.Context, db *sql.DB) (n float64, err error) {
	var name string
	err = db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n)
	return n, err
}
