package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redisstore/internal/redisinfo"
	"github.com/holdfast-go/holdfast/store"
)

// The oldest Redis that supports everything the scripts use.
const (
	needMajor = 6
	needMinor = 0
)

// maxApart is the difference between the servers' clocks above which Check warns. Even with
// the shortest TTLs, a lease ends at least that long before its entry.
const maxApart = 50 * time.Millisecond

// A reading is how far a server's clock is ahead of this host's, plus or minus within,
// which is half a round trip.
type reading struct{ ahead, within time.Duration }

// Check implements [store.Checker]. In a cluster it checks all servers, replicas too,
// because their clocks count when they take over.
func (s *Store) Check(ctx context.Context) (all []store.Finding) {
	servers, err := s.nodes(ctx)
	if err != nil {
		return []store.Finding{{About: "servers", Err: s.failed("look for the servers", err)}}
	}
	var clocks []reading
	for _, server := range servers {
		of := ""
		if c, ok := server.(*redis.Client); ok && len(servers) > 1 {
			of = " of " + c.Options().Addr
		}
		found, clock := s.checkServer(ctx, server)
		for _, f := range found {
			f.About += of
			all = append(all, f)
		}
		if clock != nil {
			clocks = append(clocks, *clock)
		}
	}
	if len(clocks) > 1 {
		all = append(all, besideEachOther(clocks))
	}
	return all
}

// nodes returns all servers, sorted by address.
func (s *Store) nodes(ctx context.Context) (all []redis.Cmdable, err error) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return []redis.Cmdable{s.client}, nil
	}
	var mu sync.Mutex
	var clients []*redis.Client
	err = cluster.ForEachShard(ctx, func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		clients = append(clients, c)
		return nil
	})
	slices.SortFunc(clients, func(a, b *redis.Client) int { return cmp.Compare(a.Options().Addr, b.Options().Addr) })
	for _, c := range clients {
		all = append(all, c)
	}
	if err == nil && len(all) == 0 {
		err = errors.New("the server is not part of a cluster")
	}
	return all, err
}

// checkServer checks one server.
func (s *Store) checkServer(ctx context.Context, server redis.Cmdable) (all []store.Finding, at *reading) {
	// Once before, so that connecting and logging in do not count in the round trip that
	// measures the clock.
	if err := server.Time(ctx).Err(); err != nil && forbids(err.Error()) {
		f := s.rights(ctx, server)
		f.About = "server"
		return []store.Finding{f}, nil
	} else if err != nil {
		return []store.Finding{{About: "server", Err: s.failed("look at the server", err)}}, nil
	}
	pipe := server.Pipeline()
	asked, clock := pipe.Info(ctx), pipe.Time(ctx)
	saves := &redis.MapStringStringCmd{}
	if s.user() == "default" { // other users rarely have the right, and the server logs each refusal
		saves = pipe.ConfigGet(ctx, "save")
	}
	sent := time.Now()
	pipe.Exec(ctx) // each command has its own error
	took := time.Since(sent)

	info, err := asked.Result()
	if err != nil {
		err = s.failed("look at the server", err)
	}
	switch {
	case errors.Is(err, store.ErrDenied):
		all = append(all, store.Finding{About: "server", Warning: true, Run: s.grant("+info"),
			Found: "version, role, persistence, eviction and memory were not checked: this user may not run INFO; grant it +info"})
	case err != nil:
		return []store.Finding{{About: "server", Err: err}}, nil
	default:
		all = append(all, s.version(info), s.role(info), s.persistence(info, neverSaves(saves)), redisinfo.Eviction(info), s.memory(info))
	}
	all = append(all, s.rights(ctx, server))
	theirs, err := clock.Result()
	if err != nil {
		return append(all, store.Finding{About: "clock", Err: s.failed("read the clock", err)}), nil
	}
	at = &reading{theirs.Sub(sent.Add(took / 2)), took / 2}
	return append(all, store.ClockFinding(at.ahead, at.within)), at
}

// besideEachOther reports how far apart the servers' clocks are at least.
func besideEachOther(clocks []reading) store.Finding {
	f := store.Finding{About: "clocks"}
	var apart, within time.Duration
	for _, a := range clocks {
		within = max(within, 2*a.within)
		for _, b := range clocks {
			apart = max(apart, (a.ahead-a.within)-(b.ahead+b.within))
		}
	}
	if f.Warning = apart > maxApart; f.Warning {
		f.Found = fmt.Sprintf("the servers' clocks are %v apart or more: a name that moves to the one ahead, by a fail-over or with its slot, expires too early there, and two can hold it; keep the clocks in step (NTP)",
			apart.Round(time.Millisecond))
		return f
	}
	f.Found = fmt.Sprintf("the servers' clocks agree, to within %v", max((apart+within).Round(100*time.Microsecond), 100*time.Microsecond))
	return f
}

// version reports the version of the server, and an error if it is too old.
func (s *Store) version(info string) store.Finding {
	f := store.Finding{About: "version", Found: redisinfo.Version(info)}
	major, minor, what := needMajor, needMinor, "is needed"
	if s.durable { //mutant:redis-durable-needs-more
		major, minor, what = 7, 2, "is needed for durable=1" // WAITAOF
	}
	if redisinfo.Field(info, "valkey_version") == "" && redisinfo.TooOld(redisinfo.Field(info, "redis_version"), major, minor) {
		f.Err = fmt.Errorf("%w: %s is too old: Redis %d.%d or newer %s", store.ErrUnsupported, s.address, major, minor, what)
	}
	return f
}

// role reports whether the server takes writes, and which replicas it has. In a cluster
// a replica is no error.
func (s *Store) role(info string) store.Finding {
	f := store.Finding{About: "role", Found: redisinfo.Field(info, "role") + ", " + redisinfo.Replicas(info)}
	if redisinfo.Field(info, "role") == "slave" {
		f.Found = "replica of " + net.JoinHostPort(redisinfo.Field(info, "master_host"), redisinfo.Field(info, "master_port"))
		if link := redisinfo.Field(info, "master_link_status"); link != "up" {
			f.Warning = true
			f.Found += ", and does not follow it now (link " + link + "): it would take over without the newest grants"
		}
		if _, ok := s.client.(*redis.ClusterClient); !ok {
			f.Err = fmt.Errorf("%w: %s is a replica, which takes no writes: name the server that it follows", store.ErrUnavailable, s.address)
		}
		return f
	}
	for i := 0; redisinfo.Field(info, fmt.Sprint("slave", i)) != ""; i++ {
		var of struct{ ip, port, state, lag string }
		for part := range strings.SplitSeq(redisinfo.Field(info, fmt.Sprint("slave", i)), ",") {
			switch key, value, _ := strings.Cut(part, "="); key {
			case "ip":
				of.ip = value
			case "port":
				of.port = value
			case "state":
				of.state = value
			case "lag":
				of.lag = value
			}
		}
		f.Found += fmt.Sprintf("; %s is %s, %s s behind", net.JoinHostPort(of.ip, of.port), of.state, of.lag)
	}
	n, err := strconv.Atoi(redisinfo.Field(info, "connected_slaves"))
	switch {
	case err != nil:
	case n > 0 && s.replicas == 0: //mutant:redis-replica-that-lacks-grants
		f.Warning = true
		f.Found += ": one that takes over lacks what it had not received, and two may hold a name until the first one's TTL has passed; set replicas (?replicas=1), or check the token"
	case n < s.replicas:
		f.Warning = true
		f.Found += fmt.Sprintf(": %d must confirm each grant and renewal; until they do, nothing is granted or renewed there", s.replicas)
	}
	return f
}

// neverSaves reports whether the server is known to take no snapshots.
func neverSaves(answer *redis.MapStringStringCmd) bool {
	save, known := answer.Val()["save"]
	return known && save == ""
}

// keepAFile makes a server keep an append-only file.
const keepAFile = "redis-cli CONFIG SET appendonly yes\nredis-cli CONFIG REWRITE"

// persistence reports what a restart loses. Losing something is not a warning, because
// Describe says that of every Redis. Losing everything, even in an orderly restart, is one.
// Replicas make it worse: they follow a primary that comes back empty, and then forget
// everything too.
func (s *Store) persistence(info string, neverSaves bool) store.Finding {
	f := store.Finding{About: "persistence", Found: "an append-only file: a restart loses what was not synced to it (appendfsync)"}
	switch redisinfo.Field(info, "aof_enabled") {
	case "0":
	case "": //mutant:redis-file-unknown
		f.Warning = true
		f.Found = "not checked: the server does not say whether it has an append-only file, without which a restart loses what came after the last snapshot, or all"
		return f
	default:
		if redisinfo.Field(info, "aof_last_write_status") == "err" { //mutant:redis-disk-full
			f.Err = fmt.Errorf("%w: the server cannot write its append-only file, as on a full disk, and takes no writes until it can: free some space on its disk", store.ErrUnavailable)
		}
		if s.durable { //mutant:redis-durable-is-said
			f.Found = "an append-only file: nothing is reported as granted before it is synced to it"
		}
		return f
	}
	f.Found = "no append-only file: a restart loses what came after the last snapshot, or all"
	replicas, _ := strconv.Atoi(redisinfo.Field(info, "connected_slaves"))
	switch {
	case s.durable: //mutant:redis-durable-without-file
		f.Err = fmt.Errorf("%w: %s: durable=1 needs one", store.ErrUnsupported, s.address)
		f.Run = "redis-cli CONFIG SET appendonly yes\nredis-cli CONFIG SET appendfsync always\nredis-cli CONFIG REWRITE"
	case redisinfo.Field(info, "rdb_last_bgsave_status") == "err": //mutant:redis-disk-full-snapshot
		f.Warning = true
		f.Found = "its last snapshot failed, as on a full disk: unless stop-writes-on-bgsave-error is no, the server takes no writes; free some space on its disk"
	case replicas > 0: //mutant:redis-empty-primary
		f.Warning = true
		f.Run = keepAFile
		f.Found = "no append-only file, and replicas: a primary that is restarted before one of them takes its place comes back empty, they follow it, and all locks are forgotten; turn appendonly on, or let nothing restart it"
	case neverSaves && redisinfo.Field(info, "role") != "slave": //mutant:redis-nothing-is-kept
		f.Warning = true
		f.Run = keepAFile
		f.Found = "no append-only file and no snapshots: a restart forgets all locks, a planned one too, and two may hold a name until the first one's TTL has passed; turn appendonly on"
	}
	return f
}

// memory reports whether the server's memory is full.
func (s *Store) memory(info string) store.Finding {
	found, full := redisinfo.Memory(info)
	f := store.Finding{About: "memory", Found: found}
	if full {
		f.Err = fmt.Errorf("%w: %s: its memory is full, so nothing new can be locked until some is free again or maxmemory is raised; what is held can be renewed and released",
			store.ErrUnavailable, s.address)
	}
	return f
}
