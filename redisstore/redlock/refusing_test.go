package redlock

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redisstore/internal/redisinfo"
	"github.com/holdfast-go/holdfast/store"
)

// A node that takes no writes, as it is full, read-only or without its required replicas, is asked at intervals whether it takes them again,
// not as fast as it answers. Once it does, it is used again.
func TestAReadOnlyNodeIsLeftInPeace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, refusal, on, off string }{
		{"full", "OOM", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"},
		{"read-only", "READONLY", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
		{"without replicas", "NOREPLICAS", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			servers, s := nodes(t, 3, Options{})
			s.straggle = longAnswer // with two nodes left both are needed, however slow
			admin := clientsOf(t, servers[2].Addr)[0]
			commands := func() int {
				t.Helper()
				info, err := admin.Info(t.Context(), "stats").Result()
				if err != nil {
					t.Fatal(err)
				}
				n, err := strconv.Atoi(redisinfo.Field(info, "total_commands_processed"))
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			holds := []store.Hold{}
			for i := range 20 {
				holds = append(holds, mustHold(t, s, mutex(fmt.Sprint(i))))
			}
			idle(t, s)
			tell(t, admin, c.on)
			for i := range 10 {
				if err := s.Release(t.Context(), holds[i]); err != nil { // two nodes suffice; the third gets the release later
					t.Fatal(err)
				}
				free(t, s, fmt.Sprint("other ", i))
			}
			n := s.nodes[2]
			var err error
			until(t, "the node is out of use, or grants nothing new", func() bool {
				n.mu.Lock()
				defer n.mu.Unlock()
				err = cmp.Or(n.err, n.full)
				return n.state == down || n.full != nil
			})
			if !strings.Contains(err.Error(), c.refusal) || !strings.Contains(err.Error(), servers[2].Addr) {
				t.Errorf("the node is out of use because of %v", err)
			}
			// The time only scales the limit, nothing waits for it: a slow machine sends less.
			before, begun := commands(), time.Now()
			for time.Since(begun) < time.Second {
				free(t, s, "another")
			}
			sent, took := commands()-before, time.Since(begun)
			if sent > 300*(1+int(took/time.Second)) {
				t.Errorf("a node that refuses them got %d commands in %v", sent, took)
			}
			tell(t, admin, c.off)
			until(t, "the node is used again, and the missed releases are done there", func() bool {
				left, err := admin.Get(t.Context(), s.key("0")).Result()
				if err != nil && !errors.Is(err, redis.Nil) {
					t.Fatal(err)
				}
				free(t, s, "new")
				return nodesUp(s) == 3 && len(left) <= headSize && s.nodes[2].grants()
			})
		})
	}
}

// Nor do waiting claims that a full node had no memory for send it more requests: one ask per pause, however many they are. Their grants show
// that the node has memory again.
func TestWaitersThatAFullNodeRefusedLeaveItInPeace(t *testing.T) {
	t.Parallel()
	servers, s := nodes(t, 3, Options{MaxTTL: time.Hour})
	s.straggle = longAnswer
	admin, n := clientsOf(t, servers[2].Addr)[0], s.nodes[2]
	asks := func() int {
		t.Helper()
		info, err := admin.Info(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		_, calls, _ := strings.Cut(redisinfo.Field(info, "cmdstat_evalsha"), "calls=")
		calls, _, _ = strings.Cut(calls, ",")
		count, err := strconv.Atoi(calls)
		if err != nil {
			t.Fatalf("%v in %s", err, info)
		}
		return count
	}
	tell(t, admin, "CONFIG SET maxmemory 1")
	held := mutex("n")
	held.TTL = time.Hour // so that it outlasts all asks
	h := mustHold(t, s, held)
	idle(t, s)
	waits := make([]store.Claim, 50)
	for i := range waits {
		waits[i] = mutex("n")
	}
	askAll := func(before func()) {
		t.Helper()
		for _, c := range waits {
			before()
			if a, err := s.Ask(t.Context(), c); err != nil || a.Granted {
				t.Fatalf("got %+v, %v, want a wait", a, err)
			}
			idle(t, s)
		}
	}
	was := asks()
	now := func() { // ends the node's pause
		n.mu.Lock()
		defer n.mu.Unlock()
		n.again = time.Time{}
	}
	askAll(now) // each is sent, and refused
	if sent := asks() - was; sent < len(waits) {
		t.Fatalf("got only %d of %d asks refused", sent, len(waits))
	}
	was, begun := asks(), time.Now()
	for range 4 {
		askAll(func() {})
	}
	// The time only scales the limit, nothing waits for it.
	if sent, pauses := asks()-was, int(time.Since(begun)/fullPause); sent > pauses+2 {
		t.Errorf("a full node got %d asks in %d pauses", sent, pauses)
	}
	tell(t, admin, "CONFIG SET maxmemory 0")
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	next := 0
	until(t, "the node grants what it refused, and is no longer full", func() bool { // it may be busy
		if next == len(waits) {
			t.Fatal("none of the refused claims showed that the node has memory") // a new claim would show it
		}
		now()
		c := waits[next]
		a := mustAsk(t, s, c)
		if !a.Granted { // its position has expired, so it is behind others until theirs expire
			return false
		}
		h := store.Hold{Name: c.Name, ID: c.ID, Token: a.Token}
		next++
		idle(t, s)
		grants := n.grants()
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		return grants
	})
}
