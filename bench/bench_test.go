package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/mongosim"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// A bench starts itself as child processes, and does so too when it is a test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == childArg || os.Args[1] == faultyArg) {
		main()
		return
	}
	flag.Set("test.parallel", "6") // most of them wait most of the time
	os.Exit(m.Run())
}

// Every suite runs to its end with every contender and prints a line for each of them. No test judges the figures.
func TestSuitesRun(t *testing.T) {
	for name, rows := range map[string][]string{
		"memory":     {"holdfast", leaseAlone, "sync.Mutex", "channel of one slot", "64 goroutines", "bytes a held name"},
		"file":       {"holdfast", "flock(2)", theWrites, "hand-off p50"},
		"etcd":       {"holdfast", etcdMutex, barePut, theWrites, "hand-off p50", "locks/s"},
		"zk":         {"holdfast", zkLock, bareNode, "hand-off p50", "locks/s"},
		"nats":       {"holdfast", bareCreate, theWrites, "hand-off p50"},
		"s3":         {"holdfast", bareConditional, "hand-off p50"},
		"dynamodb":   {"holdfast", barePutItem, "hand-off p50"},
		"azblob":     {"holdfast", barePutBlob, "hand-off p50"},
		"kubernetes": {"holdfast", bareLease, "hand-off p50"},
		"redis":      {"holdfast, context.Background()", "redislock", "redsync", "rueidislock", "SET NX + delete", theWrites, ping, "hand-off p50", overRelease},
		"poll":       {"holdfast, 10 waiters", "holdfast, 1000 waiters", pollServer},
		"postgres":   {"holdfast", "table lease", theWrites, "advisory lock", "holdfast, LockTx", bareTxLock, "hand-off p50", "kB"},
		"mysql":      {"MariaDB 1", "holdfast", "table lease", theWrites, "GET_LOCK", "hand-off p50", "MariaDB: one hot name, 8 clients", "statements/s"},
		"mysql9":     {"MySQL"}, // or why there is no server
		"crowd":      {"holdfast", "redislock", "redsync", "rueidislock", "100 goroutines of one process", "two processes of 50"},
		"many":       append(onAll(": 4 come at once for one name, in 2 processes"), "holdfast", "flock(2)", "redislock", "redsync", tableLease, "GET_LOCK", etcdMutex, zkLock, "requests/lock"),
		"hot":        append(onAll(": one hot name, 2 processes"), "holdfast", "rueidislock", "redsync", "advisory lock", etcdMutex, zkLock, "requests/lock", "least/most"),
		"scale":      {"holdfast, memory", "holdfast, Redis", "holdfast, Files", "holdfast, PostgreSQL", "holdfast, NATS", "writes/s", "frozen for half of the TTL: ", "for twice the TTL: 20 of 20 lost", "1 subscription"},
		"command":    {runLean, runWhole, twoAlone, "flock", "timeout", "on Redis", "process 1", "package initialisation"},
		"faults":     {"| holdfast | ", "redislock", "redsync", "rueidislock"},
		"fleet":      {"holdfast", "redislock", "redsync", "Redis Cluster of 3: one name", "Redis behind Sentinel: uncontended", "longest wait"},
		"redlock":    {"holdfast", "redsync", "one 50 ms slow", "one dead", "8 clients of 2 goroutines", "longest wait"},
	} {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains([]string{"memory", "file", "redis"}, name) {
				testserver.AtNight(t)
			}
			if name != "memory" { // this suite sets GOMAXPROCS
				t.Parallel()
			}
			var out, objects strings.Builder
			s := setup{rounds: 1, slice: 20 * time.Millisecond, turns: 2, held: 20, pairs: 20, hot: 2, comers: []int{4}, each: 2, ttl: 4 * time.Second, seeds: 1, proveFor: 2 * time.Second, out: &out, rows: json.NewEncoder(&objects)}
			if err := run(t.Context(), s, name); err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				if !strings.Contains(out.String(), row) {
					t.Errorf("%s is missing in:\n%s", row, out.String())
				}
			}
			t.Log(out.String())
			if name != "faults" { // this suite has a table of its own
				complete(t, name, objects.String())
			}
		})
	}
}

// complete checks that there are rows for programs, and that each has the required fields.
func complete(t *testing.T, suite, objects string) {
	t.Helper()
	rows, err := readRows(strings.NewReader(objects))
	if err != nil || len(rows) == 0 {
		t.Fatalf("got %d rows, %v", len(rows), err)
	}
	for _, r := range rows {
		wrong := r.Suite != suite || r.Row == "" || strings.Contains(r.Version, "version unknown")
		if r.Missing == "" {
			wrong = wrong || r.Contender == "" || r.Column == "" || r.Value == nil || r.Rounds != 1 || suite != "memory" && suite != "scale" && r.Server == ""
		}
		if wrong {
			t.Errorf("got %+v", r)
		}
	}
}

// onAll returns the expected row of each store that has a server here.
func onAll(what string) (rows []string) {
	for _, on := range stores {
		if on.name != "mongo" && on.name != "mysql9" { // these servers may be missing
			rows = append(rows, on.title+what)
		}
	}
	return rows
}

// The suite of MongoDB runs to its end on a stand-in. That shows no more.
func TestTheSuiteOfMongoDBRuns(t *testing.T) {
	uri := os.Getenv(mongoEnv)
	if uri == "" {
		uri = mongosim.Start(t, mongosim.Options{}).URI()
	}
	for uri, rows := range map[string][]string{
		uri: {"holdfast", bareInsert, "64 goroutines", "hand-off p50"},
		"":  {"MongoDB: not measured, as no server is named"},
	} {
		t.Setenv(mongoEnv, uri)
		var out strings.Builder
		if err := run(t.Context(), setup{rounds: 1, slice: 20 * time.Millisecond, turns: 2, held: 1, hot: 1, each: 1, ttl: time.Second, seeds: 1, proveFor: time.Second, out: &out}, "mongo"); err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if !strings.Contains(out.String(), row) {
				t.Errorf("%s is missing in:\n%s", row, out.String())
			}
		}
	}
}

func TestUnknownSuiteIsRefused(t *testing.T) {
	err := run(t.Context(), setup{rounds: 1, slice: 1, turns: 1, held: 1, hot: 1, each: 1, ttl: 1, seeds: 1, proveFor: 1}, "nonsense")
	if err == nil || !strings.Contains(err.Error(), "memory, file, redis, poll, postgres, mysql, mysql9, redlock, fleet, etcd, zk, nats, mongo, s3, dynamodb, azblob, kubernetes, crowd, many, hot, scale, command, faults") {
		t.Errorf("got %v, want an error that lists the suites", err)
	}
}

// The counted commands equal those of clients that MONITOR shows between the two reads of the count; MONITOR marks the
// commands of scripts. The server does one thing at a time, so both see the same.
func TestSentCountsWhatClientsSend(t *testing.T) {
	server, stop, err := startRedis()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	addr := server.Addr
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	for _, c := range onRedis {
		t.Run(c.name, func(t *testing.T) {
			l, err := c.open(addr)
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			pair(t, l) // opens connections and loads scripts

			mon := monitor(t, addr)
			before, err := sent(t.Context(), rdb, c.inner)
			if err != nil {
				t.Fatal(err)
			}
			for range 5 {
				pair(t, l)
			}
			after, err := sent(t.Context(), rdb, c.inner)
			if err != nil {
				t.Fatal(err)
			}
			want := mon.between(t, c.name == "holdfast")
			if got := after - before; got != int64(want) || got < 5 {
				t.Errorf("counted %d commands, but MONITOR saw %d of clients", got, want)
			}
		})
	}
}

func pair(t *testing.T, l locks) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	unlock, err := l.lock(ctx, "counted")
	if err == nil {
		err = unlock()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A monitoring is a connection on which the server reports all commands.
type monitoring struct {
	net.Conn
	lines *bufio.Reader
}

func monitor(t *testing.T, addr string) monitoring {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(5 * time.Minute))
	m := monitoring{c, bufio.NewReader(c)}
	fmt.Fprint(c, "MONITOR\r\n")
	if line, err := m.lines.ReadString('\n'); err != nil || line != "+OK\r\n" {
		t.Fatalf("MONITOR: %q, %v", line, err)
	}
	return m
}

// between counts the commands that clients sent between two calls of sent, except those that sent does not count. With
// looks, the contender checks the server once, beside its first lock and perhaps some time later. Then the commands of
// that check are not counted either: reading the clock, which scripts read too, and testing whether the user may run
// the scripts and may publish.
func (m monitoring) between(t *testing.T, looks bool) (n int) {
	t.Helper()
	for calls := 0; ; {
		line, err := m.lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		lower := strings.ToLower(line)
		switch {
		case strings.Contains(lower, `] "info" "commandstats"`):
			if calls++; calls == 2 {
				return n
			}
		case calls == 0, strings.Contains(lower, " lua] "), strings.Contains(lower, `] "info"`),
			strings.Contains(lower, `] "hello"`), strings.Contains(lower, `] "client"`):
		case looks && (strings.Contains(lower, `] "time"`) || strings.Contains(lower, `] "publish"`) || strings.Contains(lower, "holdfast doctor") && !strings.Contains(lower, `] "eval`)):
		default:
			n++
		}
	}
}
