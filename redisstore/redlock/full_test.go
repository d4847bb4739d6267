package redlock

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// Holds are renewed and released, in each way, though the memory of a majority is full. No new claim is granted.
func TestOnFullNodesLeasesAreRenewedAndReleased(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, ...string) *testserver.Server{
		"Redis": testserver.Redis7, "Redis 8": testserver.Redis8, "Valkey 9": testserver.Valkey9,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var admins, clients []*redis.Client
			for range 3 {
				addr := start(t).Addr
				admin := clientsOf(t, addr)[0]
				if err := admin.Do(t.Context(), append([]any{"ACL", "SETUSER", "locks", "reset", "on", ">secret"}, rights(t)...)...).Err(); err != nil {
					t.Fatal(err)
				}
				c := redis.NewClient(&redis.Options{Addr: addr, Username: "locks", Password: "secret", MaxRetries: -1, DialTimeout: longAnswer, ReadTimeout: longAnswer})
				t.Cleanup(func() { c.Close() })
				admins, clients = append(admins, admin), append(clients, c)
			}
			fill := func(most string) {
				t.Helper()
				for _, admin := range admins[:2] {
					if err := admin.ConfigSet(t.Context(), "maxmemory", most).Err(); err != nil {
						t.Fatal(err)
					}
				}
			}
			s := trusting(t, clients, nil)
			t.Cleanup(func() { s.Close() })
			allUp(t, s)
			lone, crowded, waits := mustHold(t, s, mutex("lone")), mustHold(t, s, mutex("crowded")), mutex("crowded")
			mustAsk(t, s, waits)
			gone := mutex("crowded")
			mustAsk(t, s, gone)
			broken := mustHold(t, s, mutex("broken"))
			idle(t, s)

			fill("1")
			for _, c := range []struct {
				name string
				try  bool
			}{{"new", false}, {"new", true}, {"lone", false}} { // a try of a name that is held is refused, and writes nothing
				claim := mutex(c.name)
				claim.Try = c.try
				for _, n := range s.nodes { // each node is asked, and each refuses by itself
					n.mu.Lock()
					n.full = nil
					n.mu.Unlock()
				}
				a, err := s.Ask(t.Context(), claim)
				if !errors.Is(err, store.ErrUnavailable) || store.Definite(err) || !strings.Contains(err.Error(), "maxmemory") {
					t.Errorf("Ask for %q, try %v: got %+v, %v, want indeterminate with the cause", c.name, c.try, a, err)
				}
			}
			renew := func(s *Store) {
				t.Helper()
				for _, r := range s.Renew(t.Context(), []store.Hold{lone, crowded, broken}) {
					if r.Err != nil {
						t.Fatal("renewal:", r.Err)
					}
				}
			}
			for range 20 {
				renew(s)
				mustAsk(t, s, waits) // or its position would expire
				c := mutex("another")
				c.Try = true
				if a, err := s.Ask(t.Context(), c); !errors.Is(err, store.ErrUnavailable) {
					t.Fatalf("Ask between renewals: got %+v, %v", a, err)
				}
			}
			late := trusting(t, clients, nil) // of a process that starts when the nodes are full already
			t.Cleanup(func() { late.Close() })
			renew(late)

			if err := s.BreakHold(t.Context(), store.Break{Name: "broken", ID: broken.ID, Token: broken.Token, Now: true}); err != nil {
				t.Error("BreakHold:", err)
			}
			if err := s.Release(t.Context(), store.Hold{Name: "crowded", ID: gone.ID}); err != nil {
				t.Error("withdrawal:", err)
			}
			mustAsk(t, s, waits)
			if err := s.Release(t.Context(), crowded); err != nil {
				t.Error("release:", err)
			}
			until(t, "the waiter is granted", func() bool {
				a, err := s.Ask(t.Context(), waits)
				if err == nil && a.Granted && a.Token <= crowded.Token {
					t.Errorf("the waiter has token %d after %d, want a larger one", a.Token, crowded.Token)
				}
				return err == nil && a.Granted
			})
			if err := s.Release(t.Context(), lone); err != nil {
				t.Error("release:", err)
			}
			idle(t, s)
			for i, admin := range admins {
				if value, err := admin.Get(t.Context(), s.key("lone")).Result(); err != nil || len(value) != headSize {
					t.Errorf("node %d still has %d bytes of the name, %v", i, len(value), err)
				}
			}

			fill("0")
			anew := mutex("lone") // always the same claim: otherwise each that waits would be ahead of the next
			until(t, "the name is granted again", func() bool {
				a, err := s.Ask(t.Context(), anew)
				return err == nil && a.Granted && a.Token > lone.Token
			})
		})
	}
}
