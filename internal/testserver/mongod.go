package testserver

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// HasMongod reports whether there is a mongod in the PATH. The tests install
// none: no package that they could use brings one.
func HasMongod() bool {
	_, err := exec.LookPath("mongod")
	return err == nil
}

// Mongod starts a MongoDB server for this test. With "--replSet" and a name among
// the arguments it is to be initiated, which this package has no driver for. It
// has test commands, and deletes what is over by a TTL index each second.
func Mongod(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := startMongod(t, t.TempDir(), args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// SharedMongod returns the address of a MongoDB server that all tests of this
// test binary share, made with the arguments of the first who asks.
func SharedMongod(t testing.TB, args ...string) string {
	t.Helper()
	return share(t, "mongod", func(tb fataler, dir string) (*Server, error) { return startMongod(tb, dir, args) })
}

func startMongod(tb fataler, dir string, args []string) (*Server, error) {
	program, err := find("mongod")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	return startOnPort(tb, func(port int) (*Server, error) {
		s := mongodServer(tb, program, dir, data, port, args)
		return s, s.start()
	})
}

func mongodServer(tb fataler, program, dir, data string, port int, args []string) *Server {
	all := append([]string{
		"--port", strconv.Itoa(port), "--bind_ip", "127.0.0.1", "--dbpath", data, "--nounixsocket", "--wiredTigerCacheSizeGB", "0.25",
		"--setParameter", "enableTestCommands=1", "--setParameter", "ttlMonitorSleepSecs=1",
	}, args...)
	return &Server{
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), tb: tb, dir: dir, ready: mongodReady,
		command: func() *exec.Cmd { return exec.Command(program, all...) },
		stop:    os.Kill, // a primary that is asked to end waits for its clients, for fifteen seconds
	}
}

// mongodReady says nil once the server listens, which it does last.
func mongodReady(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		c.Close()
	}
	return err
}
