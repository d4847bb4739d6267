package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"
)

// startRedis starts a redis-server and returns its address. stop ends it.
func startRedis(ctx context.Context) (addr string, stop func(), err error) {
	s, err := startServer(ctx)
	if err != nil {
		return "", nil, err
	}
	return s.addr, s.stop, nil
}

// A redisServer is a redis-server on a free port of the loopback, without
// persistence.
type redisServer struct {
	addr, dir string
	cmd       *exec.Cmd
}

// stop ends the server and removes its directory.
func (s *redisServer) stop() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
	os.RemoveAll(s.dir)
}

// freeze stops the server from running, with its connections open, until thaw.
func (s *redisServer) freeze() { s.cmd.Process.Signal(unix.SIGSTOP) }
func (s *redisServer) thaw()   { s.cmd.Process.Signal(unix.SIGCONT) }

func startServer(ctx context.Context, args ...string) (s *redisServer, err error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("redis-server is needed: run \"make servers\": %w", err)
	}
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	addr := net.JoinHostPort("127.0.0.1", port)

	cmd := exec.Command(program, append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir}, args...)...)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s = &redisServer{addr, dir, cmd}
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer rdb.Close()
	for until := time.Now().Add(30 * time.Second); ; {
		err := rdb.Ping(ctx).Err()
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil || time.Now().After(until) {
			s.stop()
			return nil, fmt.Errorf("redis-server on %s does not answer: %w", addr, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// redisVersion is what the server says it is.
func redisVersion(ctx context.Context, rdb *redis.Client) (string, error) {
	info, err := rdb.Info(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
			return v, nil
		}
	}
	return "", fmt.Errorf("INFO tells no version")
}

// sent is how many commands clients have sent, by the server's own count:
// without those that scripts call, those that set up a connection, and ours.
func sent(ctx context.Context, rdb *redis.Client, inner []string) (int64, error) {
	info, err := rdb.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	all := int64(0)
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ":calls=")
		if !ok {
			continue
		}
		command, _ := strings.CutPrefix(name, "cmdstat_")
		if command == "info" || command == "hello" || strings.HasPrefix(command, "client|") || slices.Contains(inner, command) {
			continue
		}
		digits, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("commandstats: %q: %w", line, err)
		}
		all += n
	}
	return all, nil
}
