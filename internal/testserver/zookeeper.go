package testserver

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// zooTick is the tick of test servers: a session ends within a tick after its timeout. The
// servers grant all timeouts that a store asks for, from one second to twenty days.
const zooTick = 200 * time.Millisecond

// ZooKeeper starts a ZooKeeper server for this test. The settings are lines added to its
// configuration.
func ZooKeeper(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := startZooKeeper(t, t.TempDir(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// SharedZooKeeper returns the address of a ZooKeeper server that all tests of this test binary
// share. Use a prefix of your own.
func SharedZooKeeper(t testing.TB) string {
	t.Helper()
	return sharedZooKeeper.share(t)
}

var sharedZooKeeper = sharedKind{"zookeeper", func(tb fataler, dir string) (*Server, error) { return startZooKeeper(tb, dir, nil) }}

// ZooKeeperEnsemble starts n ZooKeeper servers that vote together, and returns when all of them
// serve clients.
func ZooKeeperEnsemble(t testing.TB, n int) []*Server {
	t.Helper()
	return zooKeepers(t, n, []string{"initLimit=25", "syncLimit=5"}, func(_, _ int, addr string) string { return addr })
}

// LinkedZooKeepers starts an ensemble in which member i connects to member j through ways[i][j] if j leads. A late
// member is not dropped.
func LinkedZooKeepers(t testing.TB, n int) (all []*Server, ways [][]*Link) {
	t.Helper()
	ways = make([][]*Link, n)
	for i := range ways {
		ways[i] = make([]*Link, n)
	}
	return zooKeepers(t, n, []string{"initLimit=25", "syncLimit=1000"}, func(i, j int, addr string) string {
		ways[i][j] = NewLink(t, addr)
		return ways[i][j].Addr()
	}), ways
}

// zooKeepers starts an ensemble. Member i connects to member j, if j leads, at the address that through returns.
func zooKeepers(t testing.TB, n int, settings []string, through func(i, j int, addr string) string) []*Server {
	t.Helper()
	ports := make([][2]int, n)
	for i := range ports {
		for j := range ports[i] {
			var err error
			if ports[i][j], err = freePort(t); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := make([]*Server, n)
	failed := make(chan error, n)
	for i := range all { // none serves before most of them are running
		port, err := freePort(t)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "data", "myid"), []byte(strconv.Itoa(i+1)), 0o600); err != nil {
			t.Fatal(err)
		}
		members := slices.Clone(settings)
		for j := range n {
			addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[j][0]))
			if i != j {
				addr = through(i, j, addr)
			}
			members = append(members, fmt.Sprintf("server.%d=%s:%d", j+1, addr, ports[j][1]))
		}
		if all[i], err = zooKeeperServer(t, dir, port, members); err != nil {
			t.Fatal(err)
		}
		go func() { failed <- all[i].start() }()
	}
	for range all {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	for _, s := range all {
		t.Cleanup(s.Stop)
	}
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// ZooKeeperLeader returns the index of the leader among the servers.
func ZooKeeperLeader(t testing.TB, all []*Server) int {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for i, s := range all {
			if said, err := zooKeeperSays(s.Addr); err == nil && strings.Contains(said, "Mode: leader") {
				return i
			}
		}
	}
	t.Fatalf("after %v no server is the leader", patience)
	return 0
}

func startZooKeeper(tb fataler, dir string, settings []string) (*Server, error) {
	return startOnPort(tb, func(port int) (*Server, error) {
		s, err := zooKeeperServer(tb, dir, port, settings)
		if err != nil {
			return nil, err
		}
		return s, s.start()
	})
}

// StartZooKeeper starts a ZooKeeper server in a directory, for a program that is not a test.
// Stop ends it and panics if that fails.
func StartZooKeeper(dir string, settings ...string) (*Server, error) {
	return startZooKeeper(panicker{}, dir, settings)
}

// zooJars is Debian's directory with the server's jars.
const zooJars = "/usr/share/java"

func zooKeeperServer(tb fataler, dir string, port int, settings []string) (*Server, error) {
	program, err := find("java")
	if err != nil {
		return nil, err
	}
	_, jar, err := chosen("zookeeper")
	if err != nil {
		return nil, err
	}
	var path []string
	for _, name := range []string{"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "netty-*", "metrics-core", "snappy-java", "commons-cli", "jackson-*"} {
		found, err := filepath.Glob(filepath.Join(filepath.Dir(jar), name+".jar"))
		if err != nil {
			return nil, err
		}
		path = append(path, found...)
	}
	config := append([]string{
		"tickTime=" + strconv.FormatInt(zooTick.Milliseconds(), 10), "minSessionTimeout=1000", "maxSessionTimeout=1728000000", "dataDir=" + filepath.Join(dir, "data"),
		"clientPort=" + strconv.Itoa(port), "clientPortAddress=127.0.0.1", "maxClientCnxns=0",
		"admin.enableServer=false", "4lw.commands.whitelist=*",
	}, settings...)
	file := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(file, []byte(strings.Join(config, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	args := []string{
		"-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dzookeeper.forceSync=no", "-Dznode.container.checkIntervalMs=1000",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", strings.Join(path, ":"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", file,
	}
	return &Server{
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), tb: tb, dir: dir, ready: zooKeeperReady,
		command: func() *exec.Cmd { return exec.Command(program, args...) },
	}, nil
}

// zooKeeperReady returns nil once the server serves clients.
func zooKeeperReady(addr string) error {
	said, err := zooKeeperSays(addr)
	if err == nil && !strings.Contains(said, "Mode: ") {
		err = fmt.Errorf("got the answer %q", said)
	}
	return err
}

func zooKeeperSays(addr string) (string, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(c, "srvr"); err != nil {
		return "", err
	}
	b, err := io.ReadAll(c)
	return string(bytes.TrimSpace(b)), err
}
