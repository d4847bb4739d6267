package redisstore

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// syncs are the arguments of a server that syncs its writes to disk before it answers.
var syncs = []string{"--appendonly", "yes", "--appendfsync", "always"}

// A grant is reported once the primary's disk and the replica have it. If either is missing it is indeterminate.
func TestADurableStoreNeedsDiskAndReplicas(t *testing.T) {
	t.Parallel()
	for name, start := range syncing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := start(t, syncs...)
			replica := testserver.RedisReplica(t, primary)
			client := clientOf(t, primary.Addr)
			s := durable(t, client, 1)
			soonHold(t, s, mutex("both"))
			lacks := func(what, name string) {
				t.Helper()
				_, err := s.Ask(t.Context(), mutex(name))
				if !errors.Is(err, store.ErrUnavailable) || store.Definite(err) || !strings.Contains(err.Error(), what) {
					t.Errorf("Ask: %v, want indeterminate for the %s", err, what)
				}
			}
			replica.Freeze()
			lacks("replica", "no replica")
			replica.Thaw()
			soonHold(t, s, mutex("both again"))
			if err := client.ConfigSet(t.Context(), "appendfsync", "no").Err(); err != nil {
				t.Fatal(err)
			}
			s.syncTime = 100 * time.Millisecond
			until(t, "the replica confirms, but not the disk", func() bool {
				_, err := s.Ask(t.Context(), mutex("no disk"))
				return err != nil && !store.Definite(err) && strings.Contains(err.Error(), "disk")
			})
		})
	}
}

func TestADurableStoreBehindASentinel(t *testing.T) {
	t.Parallel()
	for name, start := range syncing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := start(t, syncs...)
			testserver.RedisReplica(t, primary)
			sentinel := testserver.RedisCalmSentinels(t, primary, 1)[0]
			s, err := Open("redis+sentinel://"+sentinel.Addr+"/primary?replicas=1&durable=1", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			soonHold(t, s, mutex("n"))
			if n := syncsAsked(t, primary); n < 2 {
				t.Errorf("got %d requests to sync, want at least 2", n)
			}
		})
	}
}

// Each server of a cluster is asked separately for its disk, and whether it supports that.
func TestADurableStoreOfACluster(t *testing.T) {
	t.Parallel()
	servers := testserver.Redis8Cluster(t, 3, syncs...)
	client := clusterClient(t, servers)
	s := durable(t, client, 0)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		h := soonHold(t, s, mutex(name))
		until(t, "the renewal is on the disk", func() bool {
			err := s.Renew(t.Context(), []store.Hold{h})[0].Err
			if err != nil && store.Definite(err) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	for _, server := range servers {
		if n := syncsAsked(t, server); n < 3 {
			t.Errorf("%s got %d requests to sync, want at least 3", server.Addr, n)
		}
	}
	of := clientOf(t, servers[0].Addr)
	if err := of.ConfigSet(t.Context(), "appendfsync", "no").Err(); err != nil {
		t.Fatal(err)
	}
	s.syncTime = 100 * time.Millisecond
	var unsynced int
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		c := mutex("of " + name)
		node, err := client.MasterForKey(t.Context(), s.key(c.Name))
		if err != nil {
			t.Fatal(err)
		}
		syncs := node.Options().Addr != servers[0].Addr
		until(t, "the server reports whether the write is on the disk", func() bool { // a server that syncs may be slow
			_, err := s.Ask(t.Context(), c)
			if err != nil && (store.Definite(err) || !strings.Contains(err.Error(), "disk")) {
				t.Fatalf("%v, want indeterminate for the disk", err)
			}
			return (err == nil) == syncs
		})
		if !syncs {
			unsynced++
		}
	}
	if unsynced == 0 {
		t.Error("no name is on the server that does not sync")
	}
}

func TestWithoutTheRightToSyncNothingIsAsked(t *testing.T) {
	t.Parallel()
	server := testserver.Redis8(t, syncs...)
	without := durable(t, user(t, server, "locks", rights(t)...), 0)
	if _, err := without.Ask(t.Context(), mutex("n")); !errors.Is(err, store.ErrDenied) {
		t.Errorf("without +waitaof: %v, want ErrDenied", err)
	}
	if denied := denials(t, server); !slices.Contains(denied, "command waitaof") {
		t.Errorf("the server refused %q", denied)
	}
	if n := clientOf(t, server.Addr).DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("got %d keys written, want none", n)
	}
	soonHold(t, durable(t, user(t, server, "more", append(rights(t), "+waitaof")...), 0), mutex("m"))
}

func TestTheCheckReportsWhetherAServerCanBeDurable(t *testing.T) {
	t.Parallel()
	can := durable(t, clientOf(t, testserver.Redis8(t, syncs...).Addr), 0)
	for about, want := range map[string]string{"version": "Redis 8", "persistence": "nothing is reported as granted before it is synced"} {
		if f := found(t, can, about); f.Level() != store.LevelOK || !strings.Contains(f.Text(), want) {
			t.Errorf("%s: got %s %q, want %q", about, f.Level(), f.Text(), want)
		}
	}
	cannot := durable(t, clientOf(t, testserver.Redis8(t).Addr), 0)
	if f := found(t, cannot, "persistence"); !errors.Is(f.Err, store.ErrUnsupported) || !strings.Contains(f.Text(), "durable=1") || !strings.Contains(f.Run, "appendonly yes") {
		t.Errorf("without a file: got %s %q, run %q", f.Level(), f.Text(), f.Run)
	}
	for version, ok := range map[string]bool{"7.0.15": false, "7.2.0": true} {
		f := can.version("redis_version:" + version + "\r\n")
		if ok && f.Err != nil || !ok && (!errors.Is(f.Err, store.ErrUnsupported) || !strings.Contains(f.Text(), "7.2")) {
			t.Errorf("%s: got %s %q", version, f.Level(), f.Text())
		}
	}
}
