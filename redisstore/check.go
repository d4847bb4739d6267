package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
)

// The oldest server that has what the scripts use.
const (
	needMajor = 6
	needMinor = 0
)

// Check implements [store.Checker].
func (s *Store) Check(ctx context.Context) (all []store.Finding) {
	servers, err := s.masters(ctx)
	if err != nil {
		return []store.Finding{{About: "servers", Err: s.failed("look for the servers", err)}}
	}
	for _, server := range servers {
		of := ""
		if c, ok := server.(*redis.Client); ok && len(servers) > 1 {
			of = " of " + c.Options().Addr
		}
		for _, f := range s.checkServer(ctx, server) {
			f.About += of
			all = append(all, f)
		}
	}
	return all
}

// checkServer asks a server for all that can be asked of it.
func (s *Store) checkServer(ctx context.Context, server redis.Cmdable) (all []store.Finding) {
	// Once before, so that to connect and log in is no part of the round trip
	// by which the clock is read.
	if err := server.Time(ctx).Err(); err != nil {
		return []store.Finding{{About: "server", Err: s.failed("look at the server", err)}}
	}
	pipe := server.Pipeline()
	asked, clock := pipe.Info(ctx), pipe.Time(ctx)
	sent := time.Now()
	pipe.Exec(ctx) // each command has its own error
	took := time.Since(sent)

	info, err := asked.Result()
	if err != nil {
		err = s.failed("look at the server", err)
	}
	switch {
	case errors.Is(err, store.ErrDenied):
		all = append(all, store.Finding{About: "server", Found: "version, role, persistence and eviction are not known: this user may not ask (+info)"})
	case err != nil:
		return []store.Finding{{About: "server", Err: err}}
	default:
		all = append(all, s.version(info), s.role(info), persistence(info), eviction(info))
	}
	theirs, err := clock.Result()
	if err != nil {
		return append(all, store.Finding{About: "clock", Err: s.failed("read the clock", err)})
	}
	return append(all, store.Finding{About: "clock", Found: besideOurs(theirs.Sub(sent.Add(took/2)), took/2)})
}

// version tells the version of the server, which must not be too old.
func (s *Store) version(info string) store.Finding {
	f := store.Finding{About: "version", Found: "Redis " + field(info, "redis_version")}
	if v := field(info, "valkey_version"); v != "" {
		f.Found = "Valkey " + v
	} else if tooOld(field(info, "redis_version")) {
		f.Err = fmt.Errorf("%w: %s is too old: Redis %d.%d or newer is needed", store.ErrUnsupported, s.address, needMajor, needMinor)
	}
	return f
}

// role tells whether the server takes writes.
func (s *Store) role(info string) store.Finding {
	f := store.Finding{About: "role", Found: fmt.Sprintf("%s, %s replicas", field(info, "role"), field(info, "connected_slaves"))}
	if field(info, "role") == "slave" {
		f.Found = "replica of " + field(info, "master_host")
		f.Err = fmt.Errorf("%w: %s is a replica, which takes no writes: name the server that it follows", store.ErrUnavailable, s.address)
	}
	return f
}

// persistence tells what a restart loses. That it loses something is no
// warning: Describe says so of every Redis.
func persistence(info string) store.Finding {
	f := store.Finding{About: "persistence", Found: "an append-only file: a restart loses what was not synced to it (appendfsync)"}
	if field(info, "aof_enabled") == "0" {
		f.Found = "no append-only file: a restart loses what came after the last snapshot, or all"
	}
	return f
}

// eviction warns of a policy by which the server may drop locks.
func eviction(info string) store.Finding {
	policy := field(info, "maxmemory_policy")
	f := store.Finding{About: "eviction", Found: cmp.Or(policy, "not told")}
	if policy != "" && policy != "noeviction" {
		f.Warning = true
		f.Found = "maxmemory-policy is " + policy + ": when the server's memory is full it may drop locks that are held; set it to noeviction"
		f.Run = "redis-cli CONFIG SET maxmemory-policy noeviction"
	}
	return f
}

// besideOurs tells how far a clock is from this host's, which was read to within
// half a round trip.
func besideOurs(ahead, within time.Duration) string {
	ahead, within = ahead.Round(100*time.Microsecond), max(within.Round(100*time.Microsecond), 100*time.Microsecond)
	switch {
	case ahead.Abs() <= within:
		return fmt.Sprintf("as this host's, to within %v", within)
	case ahead < 0:
		return fmt.Sprintf("%v behind this host's, to within %v", -ahead, within)
	}
	return fmt.Sprintf("%v ahead of this host's, to within %v", ahead, within)
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
