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

// HasMongod reports whether there is a mongod in the PATH. The tests install none: no package
// that they could use contains one.
func HasMongod() bool {
	_, err := exec.LookPath("mongod")
	return err == nil
}

// Mongod starts a MongoDB server for this test. If the arguments have "--replSet" and a name,
// the caller must initiate the replica set: this package has no driver for that. The server has
// test commands, and its TTL indexes delete expired documents every second.
func Mongod(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := startMongod(t, t.TempDir(), args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// SharedMongod returns the address of a MongoDB server that all tests of this test binary
// share. It is started with the arguments of the first caller.
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
		stop:    os.Kill, // a primary that is asked to end waits fifteen seconds for its clients
	}
}

// mongodReady returns nil once the server listens, which is the last step of its startup.
func mongodReady(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		c.Close()
	}
	return err
}
