//go:build linux || darwin

package prove

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

func addrs(servers []*testserver.Server) string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr)
	}
	return strings.Join(all, ",")
}

// onCluster is the URL of a cluster, which gives its clients addresses that no URL has. They are dialed through the
// proxies of the processes, too, or the run would fail.
func onCluster(t *testing.T) (url string) {
	t.Helper()
	return "redis+cluster://" + testserver.RedisCluster(t, 3)[0].Addr
}

func behindSentinel(t *testing.T) (url string) {
	t.Helper()
	primary := testserver.Redis(t, "--repl-diskless-sync-delay", "0")
	testserver.RedisReplica(t, primary)
	return "redis+sentinel://" + addrs(testserver.RedisCalmSentinels(t, primary, 3)) + "/primary?replicas=1"
}

// tell sends a command to each of the servers.
func tell(t *testing.T, servers []*testserver.Server, command ...any) {
	t.Helper()
	for _, s := range servers {
		c := redis.NewClient(&redis.Options{Addr: s.Addr})
		if err := c.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
}

// comes waits for a condition that must come true.
func comes(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("after a minute still waiting for this: %s", what)
			return
		}
	}
}

// role is the role that a server reports; empty if it does not answer.
func role(t *testing.T, s *testserver.Server) string {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	defer c.Close()
	info, err := c.Info(t.Context(), "replication").Result()
	if err != nil {
		return ""
	}
	if strings.Contains(info, "role:master") {
		return "master"
	}
	if strings.Contains(info, "master_link_status:up") {
		return "replica"
	}
	return "alone"
}

// A fleet is two servers that can replace each other, and the watchers that decide when. They never do so because this
// machine stalls.
type fleet struct {
	one, other *testserver.Server
	deciders   []*testserver.Server
	calm       []any // the command that restores their patience
}

// replace kills the master of the two, and waits until the other is the master and all watchers say so. The function
// that it returns restarts the killed server as a replica.
func (f *fleet) replace(t *testing.T, watching ...*testserver.Server) (back func()) {
	t.Helper()
	one, other := f.one, f.other
	if role(t, one) != "master" {
		one, other = other, one
	}
	one.Kill()
	deciders := slices.DeleteFunc(slices.Clone(f.deciders), func(s *testserver.Server) bool { return s == one })
	testserver.TakeOverSoon(deciders...)
	comes(t, "another node has become the master", func() bool {
		for _, w := range watching {
			c := redis.NewSentinelClient(&redis.Options{Addr: w.Addr})
			defer c.Close()
			addr, err := c.GetMasterAddrByName(t.Context(), "primary").Result()
			if err != nil || net.JoinHostPort(addr[0], addr[1]) != other.Addr {
				return false
			}
		}
		return role(t, other) == "master"
	})
	tell(t, deciders, f.calm...)
	return func() {
		one.Restart()
		comes(t, "the old master is a replica", func() bool { return role(t, one) == "replica" })
	}
}

func TestAFailOverVoidsOnlyWhatItMust(t *testing.T) {
	t.Parallel()
	t.Run("behind Sentinel", func(t *testing.T) {
		t.Parallel()
		primary := testserver.Redis(t, "--repl-diskless-sync-delay", "0")
		replica := testserver.RedisReplica(t, primary)
		watching := testserver.RedisCalmSentinels(t, primary, 3)
		f := fleet{primary, replica, watching, []any{"SENTINEL", "SET", "primary", "down-after-milliseconds", 60_000}}
		url := "redis+sentinel://" + addrs(watching) + "/primary"
		struckServer(t, url, map[Fault]func() func(){failover: func() func() { return f.replace(t, watching...) }})
	})
	t.Run("on a cluster", func(t *testing.T) {
		t.Parallel()
		masters, replicas := testserver.RedisCalmClusterWithReplicas(t, 3)
		f := fleet{masters[0], replicas[0], slices.Concat(masters, replicas), []any{"CONFIG", "SET", "cluster-node-timeout", 15_000}}
		url := "redis+cluster://" + addrs(masters)
		struckServer(t, url, map[Fault]func() func(){failover: func() func() { return f.replace(t) }})
	})
}
