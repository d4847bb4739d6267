package testserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Redis starts a Redis server for this test, without persistence unless args
// (as on its command line, "--appendonly", "yes") say otherwise.
func Redis(t testing.TB, args ...string) *Server {
	t.Helper()
	return redisOf(t, "", args)
}

// redisOf starts a server of this program for this test; "" is the chosen one.
func redisOf(t testing.TB, program string, args []string) *Server {
	t.Helper()
	s, err := startRedis(t, t.TempDir(), program, args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// SharedRedis returns the address of a Redis server that all tests of this test binary share.
// Use names of your own, and do not configure the server.
func SharedRedis(t testing.TB) string {
	t.Helper()
	return sharedRedis("redis").share(t)
}

// sharedRedis is a separate Redis server for each kind.
func sharedRedis(kind string) sharedKind {
	return sharedKind{kind, func(tb fataler, dir string) (*Server, error) { return startRedis(tb, dir, "", nil) }}
}

// SharedRedises returns the addresses of n independent Redis servers that all tests of this
// test binary share, as with SharedRedis.
func SharedRedises(t testing.TB, n int) []string {
	t.Helper()
	all := make([]string, n)
	for i := range all {
		all[i] = sharedRedis("redis-" + strconv.Itoa(i+1)).share(t)
	}
	return all
}

// RedisCluster starts a cluster of n Redis servers for this test, without replicas, and returns
// when all of them report that the cluster works.
func RedisCluster(t testing.TB, n int) []*Server {
	t.Helper()
	masters, _ := redisCluster(t, "", n, false)
	return masters
}

// RedisClusterWithReplicas starts a cluster of n Redis servers with one replica each:
// replicas[i] is of masters[i], and takes over some seconds after its master has ended. It
// returns when all of them report that the cluster works.
func RedisClusterWithReplicas(t testing.TB, n int) (masters, replicas []*Server) {
	t.Helper()
	masters, replicas = RedisCalmClusterWithReplicas(t, n)
	TakeOverSoon(masters...)
	TakeOverSoon(replicas...)
	return masters, replicas
}

// RedisCalmClusterWithReplicas is RedisClusterWithReplicas, but no replica takes over because
// the machine stalls for a few seconds.
func RedisCalmClusterWithReplicas(t testing.TB, n int) (masters, replicas []*Server) {
	t.Helper()
	return redisCluster(t, "", n, true)
}

// TakeOverSoon makes servers of a calm cluster, or calm Sentinels, act soon after a server has
// ended.
func TakeOverSoon(all ...*Server) {
	for _, s := range all {
		s.redisDo("%s", s.hasten)
	}
}

// redisCluster starts a cluster of servers of this program; "" is the chosen one.
func redisCluster(t testing.TB, program string, n int, replicated bool, args ...string) (masters, replicas []*Server) {
	t.Helper()
	const slots = 1 << 14
	var all []*Server
	bus := map[*Server]int{}
	start := func() *Server {
		dir, busPort := t.TempDir(), 0
		s, err := startOnPort(t, func(port int) (_ *Server, err error) {
			if busPort, err = freePort(t); err != nil {
				return nil, err
			}
			return redisServer(t, dir, program, port, append(append(ownRedis(dir, port), args...), "--cluster-enabled", "yes", "--cluster-node-timeout", "15000",
				"--cluster-port", strconv.Itoa(busPort), "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")...)
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Stop)
		s.hasten = "CONFIG SET cluster-node-timeout 2000"
		all, bus[s] = append(all, s), busPort
		return s
	}
	for range n {
		masters = append(masters, start())
	}
	for range n {
		if replicated {
			replicas = append(replicas, start())
		}
	}
	meet := func(s *Server, others []*Server) { // faster than waiting for their gossip
		for _, other := range others {
			if host, port, _ := net.SplitHostPort(other.Addr); other != s {
				s.redisDo("CLUSTER MEET %s %s %d", host, port, bus[other])
			}
		}
	}
	for i, s := range all {
		// Servers with the same epoch would dispute slots that are moved.
		s.redisDo("CLUSTER SET-CONFIG-EPOCH %d", i+1)
		if i < n {
			s.redisDo("CLUSTER ADDSLOTSRANGE %d %d", slots*i/n, slots*(i+1)/n-1)
		}
		meet(s, all[:i])
	}
	for _, s := range all {
		met := time.Now()
		s.until("the cluster works", func() bool {
			if time.Since(met) > 5*time.Second { // a server that was not heard in time is forgotten
				meet(s, all)
				met = time.Now()
			}
			nodes := s.redisDo("CLUSTER NODES")
			return strings.Contains(s.redisDo("CLUSTER INFO"), "cluster_state:ok") && strings.Count(nodes, " connected") == len(all) &&
				!strings.Contains(nodes, "handshake")
		})
	}
	for i, s := range replicas {
		id := masters[i].redisDo("CLUSTER MYID")
		s.redisDo("CLUSTER REPLICATE %s", strings.TrimSpace(id))
	}
	for i, s := range replicas {
		s.follows(masters[i])
	}
	for _, s := range all {
		s.until("the cluster reports its replicas", func() bool {
			slots := s.redisDo("CLUSTER SLOTS")
			for _, r := range replicas {
				_, port, _ := net.SplitHostPort(r.Addr)
				if !strings.Contains(slots, ":"+port+"\r\n") {
					return false
				}
			}
			return true
		})
	}
	return masters, replicas
}

// RedisReplica starts a replica of the primary, of the same version, and returns when it
// follows the primary.
func RedisReplica(t testing.TB, primary *Server, args ...string) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(primary.Addr)
	s := redisOf(t, primary.program, append([]string{"--replicaof", host + " " + port, "--repl-diskless-sync-delay", "0"}, args...))
	s.follows(primary)
	return s
}

func (s *Server) follows(primary *Server) {
	s.tb.Helper()
	s.until("the replica follows its primary", func() bool {
		return strings.Contains(s.redisDo("INFO replication"), "master_link_status:up") &&
			strings.Contains(primary.redisDo("INFO replication"), "state=online")
	})
}

// RedisSentinel starts a Sentinel for this test. It watches the primary under the name
// "primary", and promotes its replica soon after the primary has ended. RedisSentinel returns
// when the Sentinel knows that replica.
func RedisSentinel(t testing.TB, primary *Server) *Server {
	t.Helper()
	return RedisSentinels(t, primary, 1)[0]
}

// RedisSentinels starts n Sentinels, a majority of which must agree, and returns when they know
// each other.
func RedisSentinels(t testing.TB, primary *Server, n int) []*Server {
	t.Helper()
	all := RedisCalmSentinels(t, primary, n)
	TakeOverSoon(all...)
	return all
}

// RedisCalmSentinels is RedisSentinels, but they do not act because the machine stalls for a
// few seconds.
func RedisCalmSentinels(t testing.TB, primary *Server, n int) []*Server {
	t.Helper()
	var all []*Server
	for range n {
		all = append(all, redisSentinel(t, primary, n/2+1))
	}
	for _, s := range all {
		knows(s, n)
	}
	return all
}

// knows waits until the Sentinel knows the replica and the other n-1 Sentinels.
func knows(s *Server, n int) {
	s.tb.Helper()
	s.until("Sentinel knows the replica", func() bool {
		return strings.Contains(s.redisDo("SENTINEL REPLICAS primary"), "slave")
	})
	s.until("the Sentinels know of each other", func() bool {
		return strings.Count(s.redisDo("SENTINEL SENTINELS primary"), "\nrunid\r\n") == n-1
	})
}

func redisSentinel(t testing.TB, primary *Server, quorum int, args ...string) *Server {
	t.Helper()
	dir := t.TempDir()
	host, port, _ := net.SplitHostPort(primary.Addr)
	s, err := startOnPort(t, func(own int) (*Server, error) {
		conf := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %q\nsentinel monitor primary %s %s %d\n"+
			"sentinel down-after-milliseconds primary 60000\nsentinel failover-timeout primary 2000\n", own, dir, host, port, quorum)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			return nil, err
		}
		return redisServer(t, dir, primary.program, own, append([]string{conf, "--sentinel"}, args...)...)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	s.redisDo("SENTINEL DEBUG tilt-trigger 600000") // otherwise it decides nothing for 30 s after the machine has stalled for two
	s.hasten = "SENTINEL SET primary down-after-milliseconds 500"
	return s
}

// StartRedis starts a Redis server in a directory, without persistence, for a program that is
// not a test. Stop ends it and panics if that fails.
func StartRedis(dir string, args ...string) (*Server, error) {
	return startRedis(panicker{}, dir, "", args)
}

func startRedis(tb fataler, dir, program string, args []string) (*Server, error) {
	return startOnPort(tb, func(port int) (*Server, error) {
		return redisServer(tb, dir, program, port, append(ownRedis(dir, port), args...)...)
	})
}

// ownRedis returns the arguments of a server without persistence.
func ownRedis(dir string, port int) []string {
	return []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir}
}

func redisServer(tb fataler, dir, program string, port int, args ...string) (*Server, error) {
	s, err := newRedis(tb, dir, program, port, args...)
	if err != nil {
		return nil, err
	}
	return s, s.start()
}

// newRedis returns a server that has not been started.
func newRedis(tb fataler, dir, program string, port int, args ...string) (*Server, error) {
	if program == "" {
		var err error
		if _, program, err = chosen("redis"); err != nil {
			return nil, err
		}
	}
	return &Server{
		program: program,
		Addr:    net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		tb:      tb, dir: dir, ready: redisReady,
		command: func() *exec.Cmd { return exec.Command(program, args...) },
	}, nil
}

// redisReady returns nil once the server answers a PING, even if only to refuse an
// unauthenticated client.
func redisReady(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(line, "+PONG") && !strings.HasPrefix(line, "-NOAUTH") && !strings.HasPrefix(line, "-NOPERM") {
		return fmt.Errorf("PING was answered with %q", strings.TrimSpace(line))
	}
	return nil
}

// redisDo sends a command, its words separated by spaces, and returns the server's raw answer.
// It is for the few commands that a test server needs before a client can use it.
func (s *Server) redisDo(format string, args ...any) string {
	s.tb.Helper()
	command := fmt.Sprintf(format, args...)
	c, err := net.DialTimeout("tcp", s.Addr, patience)
	if err != nil {
		s.tb.Fatalf("%s: %v", command, err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(c, "%s\r\n", command); err != nil {
		s.tb.Fatalf("%s: %v", command, err)
	}
	answer, err := redisReply(bufio.NewReader(c))
	if err != nil || strings.HasPrefix(answer, "-") {
		s.tb.Fatalf("%s: %s %v", command, answer, err)
	}
	return answer
}

// redisReply reads one answer. An answer with several parts is returned as lines.
func redisReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return line, err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch line[0] {
	case '$':
		b := make([]byte, n+len("\r\n"))
		_, err := io.ReadFull(r, b)
		return string(b), err
	case '*':
		line = ""
		for range n {
			part, err := redisReply(r)
			if line += part; err != nil {
				return line, err
			}
		}
	}
	return line, nil
}
