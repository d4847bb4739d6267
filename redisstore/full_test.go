package redisstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
)

// fill makes the server refuse whatever needs memory, until the test undoes it.
func fill(t testing.TB, client *redis.Client, full bool) {
	t.Helper()
	most := "0"
	if full {
		most = "1"
	}
	if err := client.ConfigSet(t.Context(), "maxmemory", most).Err(); err != nil {
		t.Fatal(err)
	}
}

// Holds are renewed and released, in each way, and no new claim is granted.
func TestOnAFullServerLeasesAreRenewedAndReleased(t *testing.T) {
	t.Parallel()
	for name, start := range versions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			direct := clientOf(t, server.Addr)
			open, _ := clockedOn(t, user(t, server, "locks", rights(t)...), nil) // or the waiter would expire, and the server had no memory for it to come again
			s := open()
			s.pingEvery = longAnswer // nor is a message missed
			notifications := make(chan store.Notification, 100)
			if err := s.Watch(t.Context(), me, func(h store.Notification) { notifications <- h }); err != nil {
				t.Fatal(err)
			}
			lone, crowded, waits := mustHold(t, s, mutex("lone")), mustHold(t, s, mutex("crowded")), mutex("crowded")
			mustAsk(t, s, waits)
			gone := mutex("crowded")
			mustAsk(t, s, gone)
			u, r := mutex("shared"), mutex("shared")
			u.Weight, r.Weight = store.Upgradeable, 1
			up, reader := mustHold(t, s, u), mustHold(t, s, r)
			broken := mustHold(t, s, mutex("broken"))
			if err := s.Release(t.Context(), mustHold(t, s, mutex("idle"))); err != nil {
				t.Fatal(err)
			}

			line, tree := []store.Hold{}, []store.Hold{} // one entry fewer than a hash has, and one more
			for i := range usual.fewest + 1 {
				one := mutex("tree")
				one.Limit, one.Weight = 1000, 1
				tree = append(tree, mustHold(t, s, one))
				if one.Name = "line"; i < usual.fewest {
					line = append(line, mustHold(t, s, one))
				}
			}

			fill(t, direct, true)
			for _, name := range []string{"line", "tree"} {
				one := mutex(name)
				one.Limit, one.Weight = 1000, 1
				before := direct.Dump(t.Context(), s.key(name)).Val()
				if a, err := s.Ask(t.Context(), one); !errors.Is(err, store.ErrUnavailable) || store.Definite(err) {
					t.Errorf("one more of many, %s: got %+v, %v, want indeterminate", name, a, err)
				}
				if after := direct.Dump(t.Context(), s.key(name)).Val(); after != before {
					t.Errorf("one more of many, %s: the value was written", name)
				}
			}
			for _, holds := range [][]store.Hold{line, tree} {
				for _, r := range s.Renew(t.Context(), holds) {
					if r.Err != nil {
						t.Errorf("renewal of one of many: %v", r.Err)
					}
				}
				for _, err := range s.ReleaseAll(t.Context(), holds) {
					if err != nil {
						t.Errorf("release of one of many: %v", err)
					}
				}
			}
			for _, try := range []bool{false, true} {
				for _, name := range []string{"new", "idle", "lone"} {
					c := mutex(name)
					if c.Try = try; name == "lone" && try {
						continue // it is refused, and writes nothing
					}
					a, err := s.Ask(t.Context(), c)
					if !errors.Is(err, store.ErrUnavailable) || store.Definite(err) || !strings.Contains(err.Error(), "maxmemory") {
						t.Errorf("Ask for %q, try %v: got %+v, %v, want indeterminate with the cause", name, try, a, err)
					}
				}
			}
			size := func() int64 { return direct.StrLen(t.Context(), s.key("lone")).Val() }
			before := size()
			for i := range 20 {
				for _, r := range s.Renew(t.Context(), []store.Hold{lone, crowded, up, reader, broken}) {
					if r.Err != nil {
						t.Fatalf("renewal %d: %v", i, r.Err)
					}
				}
			}
			if after := size(); after != before {
				t.Errorf("a renewal makes %d bytes of %d", after, before)
			}
			longer := lone
			longer.TTL = time.Hour
			if err := s.Renew(t.Context(), []store.Hold{longer})[0].Err; err != nil {
				t.Errorf("a longer renewal: %v", err)
			}
			if left := state(t, s, "lone").Entries[0].Expires; left < 30*time.Minute {
				t.Errorf("the hold expires in %v, but was renewed for an hour", left)
			}
			again := mutex("lone")
			again.ID = lone.ID
			if a, err := s.Ask(t.Context(), again); err != nil || a.Token != lone.Token {
				t.Errorf("the same ask again: got %+v, %v", a, err)
			}
			if a, err := s.Change(t.Context(), up, 1, store.Full); err != nil || a.Granted {
				t.Errorf("upgrade beside a reader: got %+v, %v", a, err)
			}
			if err := s.Release(t.Context(), reader); err != nil {
				t.Errorf("release of the reader: %v", err)
			}
			if a, err := s.Change(t.Context(), up, 1, store.Full); err != nil || !a.Granted {
				t.Errorf("upgrade: got %+v, %v", a, err)
			}
			if a, err := s.Change(t.Context(), up, 2, store.Upgradeable); err != nil || !a.Granted {
				t.Errorf("downgrade: got %+v, %v", a, err)
			}
			if err := s.BreakHold(t.Context(), store.Break{Name: "broken", ID: broken.ID, Token: broken.Token, Now: true}); err != nil {
				t.Errorf("BreakHold: %v", err)
			}
			if err := s.Release(t.Context(), store.Hold{Name: "crowded", ID: gone.ID}); err != nil {
				t.Errorf("withdrawal: %v", err)
			}
			if err := s.Release(t.Context(), crowded); err != nil {
				t.Errorf("release: %v", err)
			}
			until(t, "the waiter is notified", func() bool {
				select {
				case h := <-notifications:
					return h.ID == waits.ID
				default:
					return false
				}
			})
			if a, err := s.Ask(t.Context(), waits); err != nil || !a.Granted || a.Token <= crowded.Token {
				t.Errorf("the waiter: got %+v, %v", a, err)
			}
			for _, h := range []store.Hold{lone, up} {
				if err := s.Release(t.Context(), h); err != nil {
					t.Errorf("release of %q: %v", h.Name, err)
				}
				if n := len(state(t, s, h.Name).Entries); n != 0 {
					t.Errorf("got %d entries of %q left, want none", n, h.Name)
				}
			}

			fill(t, direct, false)
			if h := mustHold(t, s, mutex("lone")); h.Token <= lone.Token {
				t.Errorf("got token %d after %d, want a larger one", h.Token, lone.Token)
			}
		})
	}
}
