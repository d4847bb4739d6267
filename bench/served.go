package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A served store is one that can be had here.
type served struct {
	name  string // what a child is told, and -on
	title string
	all   []contender // holdfast is the first
	// peer is what the ratios refer to; empty: nobody else can wait.
	peer string
	// start starts servers whose limits allow a thousand clients. It is errNoServer
	// where none can be had.
	start func(ctx context.Context) (running, error)
}

// A running store has been started.
type running struct {
	target string
	count  counter
	stop   func()
}

var stores = []served{
	{"file", "Files", onFiles, "flock(2)", func(context.Context) (running, error) {
		dir, err := os.MkdirTemp("", "holdfast-bench-")
		return running{dir, nil, func() { os.RemoveAll(dir) }}, err
	}},
	{"redis", "Redis", onRedis, reference, func(context.Context) (running, error) {
		server, end, err := startRedis(forMany...)
		if err != nil {
			return running{}, err
		}
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
		return running{server.Addr, countRedis(rdb), func() { rdb.Close(); end() }}, nil
	}},
	{"redlock", "Redlock of 3", onMajority, "redsync", func(ctx context.Context) (running, error) {
		nodes, clients, end, err := startRedlock(ctx, 3, forMany...)
		if err != nil {
			return running{}, err
		}
		var addrs []string
		for _, n := range nodes {
			addrs = append(addrs, n.addr)
		}
		return running{strings.Join(addrs, ","), countRedis(clients...), func() { clients.close(); end() }}, nil
	}},
	{"postgres", "PostgreSQL", onPostgres, tableLease, func(ctx context.Context) (running, error) {
		addr, conn, _, end, err := startPostgres(ctx, 5000, "-c", "shared_preload_libraries=pg_stat_statements")
		if err != nil {
			return running{}, err
		}
		if _, err := conn.Exec(ctx, "CREATE EXTENSION pg_stat_statements"); err != nil {
			end()
			return running{}, err
		}
		return running{testserver.PostgresURL(addr, "pool_max_conns=16"), countPostgres(conn), end}, nil
	}},
	{"mysql", "MariaDB", onMySQL, tableLease, func(context.Context) (running, error) {
		dsn, db, _, end, err := startMariaDB(5000)
		return running{dsn, countMariaDB(db), end}, err
	}},
	{"etcd", "etcd", onEtcd, etcdMutex, func(context.Context) (running, error) {
		addr, end := testserver.ExampleEtcd()
		return running{addr, countEtcd(addr), end}, nil
	}},
	{"zk", "ZooKeeper", onZooKeeper, zkLock, func(context.Context) (running, error) {
		server, end, err := startIn(func(dir string) (*testserver.Server, error) {
			return testserver.StartZooKeeper(dir, "clientPortListenBacklog=4096")
		})
		if err != nil {
			return running{}, err
		}
		return running{server.Addr, countZooKeeper(server.Addr), end}, nil
	}},
	{"nats", "NATS", onNATS, "", func(context.Context) (running, error) {
		server, end, err := startNATS()
		if err != nil {
			return running{}, err
		}
		return running{"nats://" + server.Addr, countNATS(server.Monitor), end}, nil
	}},
	{"mongo", "MongoDB", onMongoDB, "", func(context.Context) (running, error) {
		uri := os.Getenv(mongoEnv)
		if uri == "" {
			return running{}, errNoServer
		}
		return running{uri, nil, func() {}}, nil
	}},
}

// forMany lets a Redis have some connections of each of a thousand clients.
var forMany = []string{"--maxclients", "15000", "--tcp-backlog", "4096"}

// wants reports whether the store is to be measured.
func (s setup) wants(name string) bool { return len(s.on) == 0 || slices.Contains(s.on, name) }

// eachStore measures on one store after the other.
func eachStore(s setup, measure func(served) error) error {
	for _, on := range stores {
		if !s.wants(on.name) {
			continue
		}
		switch err := measure(on); {
		case errors.Is(err, errNoServer):
			fmt.Fprintf(s.out, "\n%s: %v\n", on.title, errNoServer)
		case err != nil:
			return fmt.Errorf("%s: %w", on.title, err)
		}
	}
	return nil
}

// during starts the store's servers for f.
func (on served) during(ctx context.Context, f func(running) error) error {
	at, err := on.start(ctx)
	if err != nil {
		return err
	}
	defer at.stop()
	return f(at)
}

// tryOut locks and unlocks once with each: tables and scripts are there before
// others come.
func tryOut(ctx context.Context, at running, cs ...contender) error {
	for _, c := range cs {
		l, err := c.open(at.target)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		unlock, err := l.lock(ctx, "first")
		if err == nil {
			err = unlock()
		}
		l.close()
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}
