package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

// startRedis starts a redis-server on a free loopback port, without persistence. stop ends it.
func startRedis(args ...string) (s *testserver.Server, stop func(), err error) {
	return startIn(func(dir string) (*testserver.Server, error) { return testserver.StartRedis(dir, args...) })
}

// startIn starts a server in a temporary directory, which stop removes. The server may run as
// another user, so the parent directory is opened to that user.
func startIn(start func(dir string) (*testserver.Server, error)) (s *testserver.Server, stop func(), err error) {
	outer, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, nil, err
	}
	dir := filepath.Join(outer, "server")
	if err = os.Mkdir(dir, 0o700); err == nil {
		s, err = start(dir)
	}
	if err != nil {
		os.RemoveAll(outer)
		return nil, nil, err
	}
	return s, func() {
		s.Stop()
		os.RemoveAll(outer)
	}, nil
}

// redisVersion returns the version that the server reports.
func redisVersion(ctx context.Context, rdb *redis.Client) (string, error) {
	info, err := rdb.Info(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	return redisTold(info, "redis_version")
}

// redisTitle describes the server in rows on a single server.
func redisTitle(ctx context.Context, rdb *redis.Client) (string, error) {
	version, err := redisVersion(ctx, rdb)
	return "Redis " + version + " on the loopback, without persistence", err
}

// redisTold returns the value of one line of INFO.
func redisTold(info, what string) (string, error) {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), what+":"); ok {
			return v, nil
		}
	}
	return "", fmt.Errorf("INFO does not have %s", what)
}

// sent returns how many commands clients have sent, from the server's own count. It leaves out
// the commands that scripts call, those that set up a connection or read the server's
// configuration, and the bench's own.
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
		if command == "info" || command == "hello" || strings.HasPrefix(command, "client|") || strings.HasPrefix(command, "config|") || slices.Contains(inner, command) {
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
