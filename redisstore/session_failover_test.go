package redisstore

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// Behind Sentinel a session continues on the promoted replica, if replicas have confirmed it: nothing is lost, nobody else is granted a lock,
// and no name is written.
func TestAConfirmedSessionSurvivesASentinelFailOver(t *testing.T) {
	t.Parallel()
	c, url, watching := sentinels(t)
	s, other := openAt(t, url+"?replicas=1"), openAt(t, url)
	defer s.Close()
	defer other.Close()
	var holds []store.Hold
	for i := range 2 * fewestTogether {
		one := mutex(fmt.Sprint("held ", i))
		one.TTL = 10 * time.Minute
		holds = append(holds, soonHold(t, s, one))
	}
	renewed := func() bool {
		for i, r := range s.Renew(t.Context(), holds) {
			if errors.Is(r.Err, store.ErrLost) {
				t.Fatalf("hold %d: %v", i, r.Err)
			}
			if r.Err != nil {
				return false
			}
		}
		return true
	}
	until(t, "replicas confirm a session", renewed)
	sessions := func() []string {
		var keys []string
		until(t, "the server answers", func() (ok bool) {
			var err error
			keys, err = s.client.Keys(t.Context(), "holdfast:session:*").Result()
			return err == nil
		})
		slices.Sort(keys)
		return keys
	}
	before := sessions()
	c.primary.Kill()
	if renewed() {
		t.Error("renewed without an answer")
	}
	testserver.TakeOverSoon(watching...)
	for _, one := range watching {
		watcher := redis.NewSentinelClient(&redis.Options{Addr: one.Addr})
		defer watcher.Close()
		until(t, "each Sentinel knows the new primary", func() bool {
			addr, err := watcher.GetMasterAddrByName(t.Context(), "primary").Result()
			return err == nil && net.JoinHostPort(addr[0], addr[1]) == c.replica.Addr
		})
		if err := watcher.Set(t.Context(), "primary", "down-after-milliseconds", "60000").Err(); err != nil { // patient again
			t.Fatal(err)
		}
	}
	until(t, "the store has connected to the new primary", func() bool {
		return s.client.Ping(t.Context()).Err() == nil // the old connections have ended
	})
	c.primary.Restart() // as a replica, or nothing is confirmed
	host, port, _ := net.SplitHostPort(c.replica.Addr)
	if err := clientOf(t, c.primary.Addr).Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil { // Sentinel would do it some time later
		t.Fatal(err)
	}
	until(t, "the new server has renewed and confirmed the session", renewed)
	if after := sessions(); !slices.Equal(after, before) {
		t.Errorf("got sessions %q, want %q", after, before)
	}
	for _, h := range holds {
		if !kept(t, s, h.Name) {
			t.Errorf("no session keeps %q", h.Name)
		}
		try := mutex(h.Name)
		try.Try = true
		if a := mustAsk(t, other, try); a.Granted {
			t.Errorf("%q has two holders", h.Name)
		}
	}
}

// After a fail-over that lost the begin of a session, or its newest renewals, each name costs one write.
func TestAfterAFailOverThatLostASessionItsHoldsGoOn(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"its beginning", "its replacement"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := newCouple(t)
			front := newProxy(t, c.primary.Addr)
			s := storeOn(t, clientOf(t, front.addr), nil)
			defer s.Close()
			var holds []store.Hold
			for i := range 2 * fewestTogether {
				one := mutex(fmt.Sprint("held ", i))
				one.TTL = 10 * time.Minute
				holds = append(holds, mustHold(t, s, one))
			}
			if what == "its replacement" {
				mustRenew(t, s, holds)
			}
			follows(t, c.primary, c.replica)
			c.cut(t)
			s.sessions.mu.Lock()
			for _, p := range s.sessions.of {
				p.in.until = 0 // so that it is replaced now
			}
			s.sessions.mu.Unlock()
			mustRenew(t, s, holds)
			if len(sessionKeys(t, storeOn(t, clientOf(t, c.replica.Addr), nil))) == len(sessionKeys(t, s)) {
				t.Error("the replica knows the session")
			}
			c.promote(t)
			front.lead(c.replica.Addr)
			front.cut()
			until(t, "all holds are renewed", func() bool {
				for i, r := range s.Renew(t.Context(), holds) {
					if errors.Is(r.Err, store.ErrLost) {
						t.Fatalf("hold %d: %v", i, r.Err)
					}
					if r.Err != nil {
						return false
					}
				}
				return true
			})
			mustRenew(t, s, holds)
			for _, h := range holds {
				if !kept(t, s, h.Name) {
					t.Errorf("no session keeps %q", h.Name)
				}
				if left := expires(t, s, h.Name); left < h.TTL-slack {
					t.Errorf("%q: got expiry in %v", h.Name, left)
				}
			}
		})
	}
}
