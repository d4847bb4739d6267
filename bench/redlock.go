package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	goredisadapter "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redisstore/redlock"
)

// A redlockNode is a server and the delay of its connections.
type redlockNode struct {
	addr string
	late time.Duration // the delay of each answer
}

func (n redlockNode) client(o redis.Options) *redis.Client {
	o.Addr = n.addr
	if n.late > 0 {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return lateConn{c, n.late}, nil
		}
	}
	return redis.NewClient(&o)
}

// A lateConn delays what it receives.
type lateConn struct {
	net.Conn
	late time.Duration
}

func (c lateConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	time.Sleep(c.late)
	return n, err
}

type manyClients []*redis.Client

func (all manyClients) close() {
	for _, c := range all {
		c.Close()
	}
}

func clientsOf(nodes []redlockNode, o redis.Options) (all manyClients) {
	for _, n := range nodes {
		all = append(all, n.client(o))
	}
	return all
}

func openOurRedlock(nodes []redlockNode, o *holdfast.Options) (ours, error) {
	clients := clientsOf(nodes, redis.Options{MaxRetries: -1, DialerRetries: 1})
	s, err := redlock.New(clients, nil)
	return oursOn(s, err, o, clients.close)
}

type redsyncOnRedlock struct {
	lockRedsync
	clients manyClients
}

func (r redsyncOnRedlock) close() error { r.clients.close(); return nil }

func openRedsyncRedlock(nodes []redlockNode) (locks, error) {
	clients := clientsOf(nodes, redis.Options{})
	var pools []redsyncredis.Pool
	for _, c := range clients {
		pools = append(pools, goredisadapter.NewPool(c))
	}
	return redsyncOnRedlock{lockRedsync{rs: redsync.New(pools...)}, clients}, nil
}

var onRedlock = []struct {
	name string
	open func([]redlockNode) (locks, error)
}{
	{"holdfast", func(nodes []redlockNode) (locks, error) { return openOurRedlock(nodes, &holdfast.Options{TTL: ttl}) }},
	{"redsync", openRedsyncRedlock},
}

// onMajority are the contenders on healthy servers. The addresses are separated by commas.
var onMajority = []contender{
	onStore(func(target string, o *holdfast.Options) (ours, error) { return openOurRedlock(nodesAt(target), o) }, oursInRedis...),
	{name: "redsync", inner: []string{"get", "del"}, open: func(target string) (locks, error) { return openRedsyncRedlock(nodesAt(target)) }},
}

func nodesAt(target string) (nodes []redlockNode) {
	for addr := range strings.SplitSeq(target, ",") {
		nodes = append(nodes, redlockNode{addr: addr})
	}
	return nodes
}

// startRedlock starts n independent servers, and returns clients of them.
func startRedlock(ctx context.Context, n int, args ...string) (nodes []redlockNode, clients manyClients, stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, f := range stops {
			f()
		}
	}
	for range n {
		server, end, err := startRedis(args...)
		if err != nil {
			stop()
			return nil, nil, nil, err
		}
		stops = append(stops, end)
		nodes = append(nodes, redlockNode{addr: server.Addr})
	}
	clients = clientsOf(nodes, redis.Options{})
	if err = redlock.Trust(ctx, clients, nil); err != nil { // they are new, and hold no locks
		clients.close()
		stop()
	}
	return nodes, clients, stop, err
}

// redlockSuite measures majorities of independent servers.
func redlockSuite(ctx context.Context, s setup) error {
	nodes, clients, stop, err := startRedlock(ctx, 5)
	if err != nil {
		return err
	}
	defer stop()
	version, err := redisVersion(ctx, clients[0])
	clients.close()
	if err != nil {
		return err
	}
	s = s.at("Redis " + version + " on the loopback, up to 5 independent servers without persistence")
	slow, dead := slices.Clone(nodes[:3]), slices.Clone(nodes[:3])
	slow[2].late = 50 * time.Millisecond
	dead[2].addr = "127.0.0.1:1"
	for _, t := range []struct {
		title string
		nodes []redlockNode
	}{
		{"3 nodes", nodes[:3]}, {"5 nodes", nodes},
		{"3 nodes, one 50 ms slow", slow}, {"3 nodes, one dead", dead},
	} {
		if err := redlockPairs(ctx, s, t.title, t.nodes); err != nil {
			return err
		}
	}
	for _, n := range []int{3, 5} {
		for _, goroutines := range []int{1, s.each} {
			title := fmt.Sprintf("Redlock: one name, %d nodes, %d clients of %d goroutines", n, contendingClients, goroutines)
			if err := redlockContended(ctx, s, title, nodes[:n], goroutines); err != nil {
				return err
			}
		}
	}
	return nil
}

func redlockPairs(ctx context.Context, s setup, title string, nodes []redlockNode) error {
	var runners []runner
	for _, c := range onRedlock {
		l, err := c.open(nodes)
		if err != nil {
			return err
		}
		defer l.close()
		// Create connections and scripts before measuring.
		unlock, err := l.lock(ctx, "bench/first")
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if err := unlock(); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		runners = append(runners, runner{c.name, func(ctx context.Context) (measure, error) {
			return singlePairs(ctx, l, s.slice)
		}})
	}
	return rounds(ctx, s, "Redlock: uncontended lock and unlock, "+title, "redsync", []column{rate("pairs/s"), elapsed("p50"), elapsed("p99")}, runners)
}

// singlePairs locks and unlocks one name for d, and at least five times.
func singlePairs(ctx context.Context, l locks, d time.Duration) (measure, error) {
	var took []time.Duration
	start := time.Now()
	for begun := start; begun.Sub(start) < d || len(took) < 5; {
		unlock, err := l.lock(ctx, "bench/pair")
		if err == nil {
			err = unlock()
		}
		if err != nil {
			return nil, err
		}
		ended := time.Now()
		took = append(took, ended.Sub(begun))
		begun = ended
	}
	slices.Sort(took)
	return measure{
		"pairs/s": float64(len(took)) / time.Since(start).Seconds(),
		"p50":     float64(took[len(took)/2]), "p99": float64(took[len(took)*99/100]),
	}, nil
}

func redlockContended(ctx context.Context, s setup, title string, nodes []redlockNode, goroutines int) error {
	var runners []runner
	for _, c := range onRedlock {
		var all []locks
		for range contendingClients {
			l, err := c.open(nodes)
			if err != nil {
				return err
			}
			defer l.close()
			all = append(all, l)
		}
		runners = append(runners, runner{c.name, func(ctx context.Context) (measure, error) {
			return contend(ctx, all, goroutines, 4*s.slice)
		}})
	}
	return rounds(ctx, s, title, "redsync", contendedColumns, runners)
}
