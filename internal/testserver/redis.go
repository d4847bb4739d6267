package testserver

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Redis starts a Redis server for this test, without persistence unless args
// (as on its command line, "--appendonly", "yes") say otherwise.
func Redis(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := startRedis(t, t.TempDir(), args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// SharedRedis returns the address of a Redis server that all tests of this
// test binary share: use names of your own, and do not configure it.
func SharedRedis(t testing.TB) string {
	t.Helper()
	return share(t, "redis", func(tb fataler, dir string) (*Server, error) {
		return startRedis(tb, dir, nil)
	}).Addr
}

// startRedis tries again on another port when somebody took the free one.
func startRedis(tb fataler, dir string, args []string) (*Server, error) {
	program, err := find("redis-server")
	if err != nil {
		return nil, err
	}
	for range 5 {
		var port int
		if port, err = freePort(); err != nil {
			return nil, err
		}
		s := &Server{
			Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
			tb:   tb, dir: dir, ready: redisReady,
			command: func() *exec.Cmd {
				own := []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir}
				return exec.Command(program, append(own, args...)...)
			},
		}
		if err = s.start(); err == nil {
			return s, nil
		}
		if !strings.Contains(err.Error(), "in use") {
			break
		}
	}
	return nil, err
}

// redisReady says nil once the server answers a PING, be it with a refusal to
// who has not logged in.
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
