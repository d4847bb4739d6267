package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
)

// The oldest server that has what the scripts use.
const (
	needMajor = 6
	needMinor = 0
)

// Check implements [store.Checker]. What the user may not ask the server is
// not checked, and no failure. An error matches store.ErrUnsupported if the
// server is too old.
func (s *Store) Check(ctx context.Context) ([]string, error) {
	info, err := s.client.Info(ctx, "server").Result()
	if err != nil {
		if denied(err) {
			return nil, nil
		}
		return nil, s.failed("look at the server", err)
	}
	if version := field(info, "redis_version"); tooOld(version) {
		return nil, fmt.Errorf("%w: %s is Redis %s: %d.%d or newer is needed", store.ErrUnsupported, s.address, version, needMajor, needMinor)
	}
	var warnings []string
	if policy, err := s.policy(ctx); err != nil {
		return nil, s.failed("look at the server", err)
	} else if policy != "" && policy != "noeviction" {
		warnings = append(warnings, fmt.Sprintf("%s has maxmemory-policy %s: when its memory is full it may drop locks that are held; set it to noeviction", s.address, policy))
	}
	return warnings, nil
}

// policy is the server's maxmemory-policy, or empty where the user may not
// know.
func (s *Store) policy(ctx context.Context) (string, error) {
	memory, err := s.client.Info(ctx, "memory").Result()
	if err == nil {
		if p := field(memory, "maxmemory_policy"); p != "" {
			return p, nil
		}
	}
	config, err := s.client.ConfigGet(ctx, "maxmemory-policy").Result()
	if err != nil && denied(err) {
		return "", nil
	}
	return config["maxmemory-policy"], err
}

// denied reports whether the server refuses the command to this user, or to
// all, as some hosts do.
func denied(err error) bool {
	text := err.Error()
	_, server := err.(redis.Error)
	return server && (strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "unknown command"))
}

// field is the value of a line of INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// tooOld is false of a version that it cannot read.
func tooOld(version string) bool {
	a, rest, _ := strings.Cut(version, ".")
	b, _, _ := strings.Cut(rest, ".")
	major, err := strconv.Atoi(a)
	minor, _ := strconv.Atoi(b)
	return err == nil && (major < needMajor || major == needMajor && minor < needMinor)
}
