package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	goredisadapter "github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/redisstore"
)

// onFleet are the contenders that can lock on a Cluster and behind Sentinel, through one kind
// of client.
var onFleet = []struct {
	name string
	on   func(redis.UniversalClient) (locks, error)
}{
	{"holdfast", func(c redis.UniversalClient) (locks, error) {
		s, err := redisstore.New(c, nil)
		return oursOn(s, err, &holdfast.Options{TTL: ttl}, nil)
	}},
	{"redislock", func(c redis.UniversalClient) (locks, error) {
		return lockRedislock{client: redislock.New(c)}, nil
	}},
	{"redsync", func(c redis.UniversalClient) (locks, error) {
		return lockRedsync{rs: redsync.New(goredisadapter.NewPool(c))}, nil
	}},
}

// fleetSuite measures on a Cluster of three servers, and behind a Sentinel.
func fleetSuite(ctx context.Context, s setup) error {
	cluster, stop, err := startCluster(ctx, 3)
	if err != nil {
		return err
	}
	defer stop()
	sentinel, stop, err := startSentinel(ctx)
	if err != nil {
		return err
	}
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: cluster[0]})
	defer rdb.Close()
	version, err := redisVersion(ctx, rdb)
	if err != nil {
		return err
	}
	s = s.at("Redis " + version + " on the loopback, without persistence and replicas: a Cluster of 3, and one server with one Sentinel")
	for _, f := range []struct {
		what string
		open func() redis.UniversalClient
	}{
		{"Redis Cluster of 3", func() redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster})
		}},
		{"Redis behind Sentinel", func() redis.UniversalClient {
			return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "primary", SentinelAddrs: []string{sentinel}})
		}},
	} {
		if err := fleetTables(ctx, s, f.what, f.open); err != nil {
			return err
		}
	}
	return nil
}

func fleetTables(ctx context.Context, s setup, what string, open func() redis.UniversalClient) error {
	all := map[string][]locks{}
	for _, c := range onFleet {
		for range contendingClients {
			client := open()
			defer client.Close()
			l, err := c.on(client)
			if err != nil {
				return err
			}
			if c.name == "holdfast" {
				defer l.close() // the others have nothing but the client
			}
			// Create connections and scripts before measuring.
			for i := range 64 {
				unlock, err := l.lock(ctx, fmt.Sprintf("bench/%d", i))
				if err == nil {
					err = unlock()
				}
				if err != nil {
					return fmt.Errorf("%s on %s: %w", c.name, what, err)
				}
			}
			all[c.name] = append(all[c.name], l)
		}
	}
	for _, goroutines := range []int{1, 64} {
		var runners []runner
		for _, c := range onFleet {
			runners = append(runners, runner{c.name, func(ctx context.Context) (measure, error) {
				return pairs(ctx, all[c.name][0], goroutines, s.slice)
			}})
		}
		if err := rounds(ctx, s, pairTitle(what, goroutines), reference, pairColumns, runners); err != nil {
			return err
		}
	}
	var runners []runner
	for _, c := range onFleet {
		runners = append(runners, runner{c.name, func(ctx context.Context) (measure, error) {
			return contend(ctx, all[c.name], 1, s.slice)
		}})
	}
	return rounds(ctx, s, fmt.Sprintf("%s: one name, %d clients", what, contendingClients), reference, contendedColumns, runners)
}

// startCluster starts a cluster of n servers without replicas.
func startCluster(ctx context.Context, n int) (addrs []string, stop func(), err error) {
	var stops []func()
	stopAll := func() {
		for _, f := range stops {
			f()
		}
	}
	defer func() {
		if err != nil {
			stopAll()
		}
	}()
	const slots = 1 << 14
	var clients []*redis.Client
	var host, port, bus string
	for i := range n {
		own, err := testserver.FreePort()
		if err != nil {
			return nil, nil, err
		}
		s, end, err := startRedis("--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(own))
		if err != nil {
			return nil, nil, err
		}
		c := redis.NewClient(&redis.Options{Addr: s.Addr})
		stops = append(stops, end, func() { c.Close() })
		if clients = append(clients, c); i == 0 {
			host, port, _ = net.SplitHostPort(s.Addr)
			bus = strconv.Itoa(own)
		}
		addrs = append(addrs, s.Addr)
		for _, command := range []string{
			fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", slots*i/n, slots*(i+1)/n-1), fmt.Sprintf("CLUSTER MEET %s %s %s", host, port, bus),
		} {
			var args []any
			for word := range strings.FieldsSeq(command) {
				args = append(args, word)
			}
			if err := c.Do(ctx, args...).Err(); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", command, err)
			}
		}
	}
	return addrs, stopAll, eventually(ctx, "the cluster works", func() bool {
		for _, c := range clients {
			info, _ := c.ClusterInfo(ctx).Result()
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprint("cluster_known_nodes:", n)) {
				return false
			}
		}
		return true
	})
}

// startSentinel starts a server and a Sentinel that watches it as "primary".
func startSentinel(ctx context.Context) (addr string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return "", nil, err
	}
	s, end, err := startRedis()
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	cmd := exec.Command("redis-server")
	stopAll := func() {
		if cmd.Process != nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
		end()
		os.RemoveAll(dir)
	}
	defer func() {
		if err != nil {
			stopAll()
		}
	}()
	port, err := testserver.FreePort()
	if err != nil {
		return "", nil, err
	}
	host, of, _ := net.SplitHostPort(s.Addr)
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %q\nsentinel monitor primary %s %s 1\n", port, dir, host, of)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return "", nil, err
	}
	cmd.Args = append(cmd.Args, conf, "--sentinel")
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	c := redis.NewSentinelClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer c.Close()
	return addr, stopAll, eventually(ctx, "Sentinel answers", func() bool { return c.Ping(ctx).Err() == nil })
}

func eventually(ctx context.Context, what string, f func() bool) error {
	for until := time.Now().Add(time.Minute); !f(); time.Sleep(20 * time.Millisecond) {
		if ctx.Err() != nil || time.Now().After(until) {
			return fmt.Errorf("after a minute still not: %s", what)
		}
	}
	return nil
}
