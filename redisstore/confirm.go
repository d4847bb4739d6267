package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// confirmTime bounds the wait for replicas, unless a quarter of the client's ReadTimeout is
// shorter. A server checks this timeout only ten times a second.
const confirmTime = 500 * time.Millisecond

// syncTime bounds the wait for the server's disk, unless half of the client's ReadTimeout is
// shorter. A server with appendfsync everysec can need about a second.
const syncTime = 1500 * time.Millisecond

// A destination is a server that a pipeline is sent to.
type destination struct {
	server redis.UniversalClient
	asking bool // the name is moving to this server: commands need ASKING
}

// sendConfirmed is send for a Store whose grants must be confirmed by replicas or by the
// server's disk. WAIT and WAITAOF cover only the writes of their own connection, so they
// follow the commands in the same pipeline to the same server. If a cluster redirects a
// command, it was not run, and is sent to the other server with its own WAIT.
func (s *Store) sendConfirmed(ctx context.Context, commands []*command) {
	todo := map[destination][]*command{}
	for _, c := range commands {
		to, err := s.home(ctx, c)
		if err != nil {
			c.SetErr(err)
			continue
		}
		todo[to] = append(todo[to], c)
	}
	for range 3 {
		next := map[destination][]*command{}
		for to, some := range todo {
			s.pipeline(ctx, to, some)
			for _, c := range some {
				if to, ok := s.redirected(ctx, c); ok {
					c.StringCmd = redis.NewStringCmd(ctx, c.args...)
					next[to] = append(next[to], c)
				}
			}
		}
		if todo = next; len(todo) == 0 {
			return
		}
	}
	for _, some := range todo {
		for _, c := range some {
			c.SetErr(errors.New("the cluster sends it from server to server"))
		}
	}
}

// home returns the server of the command's key, as far as the client knows.
func (s *Store) home(ctx context.Context, c *command) (destination, error) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return destination{server: s.client}, nil
	}
	master, err := cluster.MasterForKey(ctx, c.key())
	return destination{server: master}, err
}

// redirected returns the server to which the cluster has redirected the command. A
// redirected command was not run.
func (s *Store) redirected(ctx context.Context, c *command) (destination, bool) {
	if _, ok := s.client.(*redis.ClusterClient); !ok || c.Err() == nil {
		return destination{}, false
	}
	addr, moved := redis.IsMovedError(c.Err())
	ask := false
	if !moved {
		if addr, ask = redis.IsAskError(c.Err()); !ask {
			return destination{}, false
		}
	}
	servers, err := s.masters(ctx)
	if err != nil {
		return destination{}, false
	}
	if moved { // the client has just learned the new server
		to, err := s.home(ctx, c)
		return to, err == nil
	}
	for _, server := range servers {
		if server.Options().Addr == addr {
			return destination{server, true}, true
		}
	}
	return destination{}, false
}

// pipeline sends the commands to one server and sets the outcome of each. A grant or a
// renewal counts only if enough replicas have it and, with Durable, if it is on the
// server's disk.
func (s *Store) pipeline(ctx context.Context, to destination, commands []*command) {
	if err := s.canSync(ctx, to.server); err != nil { //mutant:redis-durable-asked-before
		for _, c := range commands {
			c.SetErr(err)
		}
		return
	}
	bound, syncBound := s.confirmTime, s.syncTime
	if client, ok := to.server.(*redis.Client); ok {
		if t := client.Options().ReadTimeout; t > 0 {
			bound = min(bound, t/4) //mutant:redis-wait-bounded
			syncBound = min(syncBound, t/2)
		}
	}
	pipe := to.server.Pipeline()
	for _, c := range commands {
		if to.asking {
			pipe.Do(ctx, "asking")
		}
		pipe.Process(ctx, c)
	}
	wait := redis.NewIntCmd(ctx, "wait", s.replicas, bound.Milliseconds())
	if s.replicas > 0 {
		pipe.Process(ctx, wait) //mutant:redis-wait-on-its-connection
	}
	sync := redis.NewIntSliceCmd(ctx, "waitaof", 1, 0, syncBound.Milliseconds())
	if s.durable {
		pipe.Process(ctx, sync)
	}
	pipe.Exec(ctx) // each command has its own error
	got, err := wait.Result()
	if err == nil && got < int64(s.replicas) { //mutant:redis-replicas-suffice
		err = fmt.Errorf("%d of the %d replicas that must confirm it have, within %v", got, s.replicas, bound)
	}
	if err == nil && s.durable { //mutant:redis-disk-is-judged
		err = notSynced(sync, syncBound)
	}
	if err == nil {
		return
	}
	for _, c := range commands {
		if c.Err() == nil && c.gives() {
			c.SetErr(err)
		}
	}
}

// gives reports whether the answer grants something or extends it, so that the owner relies
// on it.
func (c *command) gives() bool {
	return c.script.gives != "" && strings.ContainsAny(c.Val()[:min(1, len(c.Val()))], c.script.gives) //mutant:redis-confirms-what-gives
}
