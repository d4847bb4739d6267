package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// togetherOn is storeOn for a Store that uses a session even for a single hold.
func togetherOn(t testing.TB, client redis.UniversalClient, o *Options) *Store {
	t.Helper()
	s := storeOn(t, client, o)
	s.sessions.fewest = 1
	return s
}

// clocked returns a function that opens Stores on one prefix. Only advance moves their clock.
func clocked(t testing.TB) (open func() *Store, advance func(time.Duration)) {
	t.Helper()
	return clockedOn(t, clientOf(t, testserver.SharedRedis(t)), apart())
}

// clockedOn is clocked for a given client.
func clockedOn(t testing.TB, client redis.UniversalClient, o *Options) (open func() *Store, advance func(time.Duration)) {
	t.Helper()
	var now atomic.Int64
	now.Store(time.Now().UnixMicro())
	return func() *Store {
		s, err := newStore(client, o, now.Load, usual)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}, func(d time.Duration) { now.Add(d.Microseconds()) }
}

// mustRenew renews the holds in one call.
func mustRenew(t testing.TB, s *Store, holds []store.Hold) {
	t.Helper()
	for i, r := range s.Renew(t.Context(), holds) {
		if r.Err != nil {
			t.Fatalf("renewal of %q: %v", holds[i].Name, r.Err)
		}
		if r.TTL != holds[i].TTL || r.From != 0 || r.Weight == 0 {
			t.Fatalf("renewal of %q: got %+v", holds[i].Name, r)
		}
	}
}

// inSessions returns n holds that sessions keep.
func inSessions(t testing.TB, s *Store, what string, n int, ttl time.Duration) (holds []store.Hold) {
	t.Helper()
	for i := range n {
		c := mutex(fmt.Sprint(what, " ", i))
		c.TTL = ttl
		holds = append(holds, mustHold(t, s, c))
	}
	mustRenew(t, s, holds)
	for _, h := range holds {
		if !kept(t, s, h.Name) {
			t.Fatalf("no session keeps %q", h.Name)
		}
	}
	return holds
}

// kept reports whether a session keeps the first entry of a name.
func kept(t testing.TB, s *Store, name string) bool {
	t.Helper()
	all, err := s.client.MGet(t.Context(), s.key(name)).Result() // the only read that its user may do
	if err != nil {
		t.Fatal(err)
	}
	v, _ := all[0].(string)
	return len(v) >= headSize+entrySize && v[headSize+entrySize-1] == 7
}

// sessionKeys returns the keys of the sessions.
func sessionKeys(t testing.TB, s *Store) []string {
	t.Helper()
	keys, err := s.client.Keys(t.Context(), glob.Replace(s.prefix)+"session:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// expires returns when the first entry of a name expires.
func expires(t testing.TB, s *Store, name string) time.Duration {
	t.Helper()
	st := state(t, s, name)
	if len(st.Entries) == 0 {
		t.Fatalf("%q has no entries", name)
	}
	return st.Entries[0].Expires
}

// free reports whether another process can acquire the name.
func free(t testing.TB, s *Store, name string) bool {
	t.Helper()
	c := storetest.Mutex(store.NewProcess(), name)
	c.Try = true
	a := mustAsk(t, s, c)
	if a.Granted {
		if err := s.Release(t.Context(), store.Hold{Name: name, ID: c.ID, Token: a.Token}); err != nil {
			t.Fatal(err)
		}
	}
	return a.Granted
}

// This runs the whole contract with all renewals by sessions.
func TestStoreBySessions(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	client := user(t, server, "locks", rights(t)...)
	storetest.Run(t, func(t *testing.T) store.Store { return togetherOn(t, client, nil) })
	for _, d := range denials(t, server) {
		if !strings.HasPrefix(d, "command client|") {
			t.Errorf("the server refused %s", d)
		}
	}
}

// A hold that nobody renews expires when it would without a session, though the session goes on for the others.
func TestAnUnrenewedHoldExpiresWhileItsSessionGoesOn(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	for what, abandon := range map[string]func(*testing.T, *Store, store.Hold){
		"not renewed": func(*testing.T, *Store, store.Hold) {},
		"unanswered release": func(t *testing.T, s *Store, h store.Hold) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := s.Release(ctx, h); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		},
		"broken": func(t *testing.T, s *Store, h store.Hold) {
			if err := s.BreakHold(t.Context(), store.Break{Name: h.Name, ID: h.ID, Token: h.Token, Reason: "x"}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			open, advance := clocked(t)
			s, other := open(), open()
			holds := inSessions(t, s, "held", 3*fewestTogether, ttl)
			one, rest := holds[0], holds[1:]
			abandon(t, s, one)
			for range 4 { // 9.6 s
				advance(ttl * 24 / 100)
				mustRenew(t, s, rest)
			}
			advance(ttl*4/100 - time.Millisecond)
			if free(t, other, one.Name) {
				t.Error("the name was free before its time")
			}
			advance(time.Millisecond)
			if !free(t, other, one.Name) {
				t.Errorf("the name is not free after its TTL: %+v", state(t, other, one.Name))
			}
			for _, h := range rest {
				if left := expires(t, other, h.Name); left != ttl-ttl*4/100 {
					t.Fatalf("%q: got expiry in %v", h.Name, left)
				}
			}
			if err := s.Renew(t.Context(), holds)[0].Err; !errors.Is(err, store.ErrLost) {
				t.Errorf("renewal of the session: %v, want ErrLost", err)
			}
		})
	}
}

func TestASessionThatHasEndedIsNotRenewed(t *testing.T) {
	t.Parallel()
	open, advance := clocked(t)
	s := open()
	holds := inSessions(t, s, "held", fewestTogether, 10*time.Second)
	advance(10*time.Second - time.Microsecond)
	mustRenew(t, s, holds)
	advance(10 * time.Second)
	for i, r := range s.Renew(t.Context(), holds) {
		if !errors.Is(r.Err, store.ErrLost) {
			t.Errorf("renewal %d: %v, want ErrLost", i, r.Err)
		}
	}
	if !free(t, open(), holds[0].Name) {
		t.Error("the name is not free")
	}
	var late []store.Hold // those whose first renewal comes too late
	for i := range fewestTogether {
		late = append(late, mustHold(t, s, mutex(fmt.Sprint("late ", i))))
	}
	advance(late[0].TTL)
	for i, r := range s.Renew(t.Context(), late) {
		if !errors.Is(r.Err, store.ErrLost) {
			t.Errorf("first renewal %d: %v, want ErrLost", i, r.Err)
		}
	}
}

// A hold was lost, or withdrawn, but its entry is still there, as the server's clock was set forward and back.
func TestASessionThatMayKeepWhatIsLostIsNotRenewed(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	for what, lose := range map[string]func(*testing.T, *Store, store.Hold){
		"released": func(t *testing.T, s *Store, h store.Hold) {
			if err := s.Release(t.Context(), h); !errors.Is(err, store.ErrLost) {
				t.Errorf("release: %v, want ErrLost", err)
			}
		},
		"withdrawn": func(t *testing.T, s *Store, h store.Hold) {
			if h.Token = 0; s.Release(t.Context(), h) != nil {
				t.Error("release of nothing failed")
			}
		},
		"renewed": func(t *testing.T, s *Store, h store.Hold) {
			if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; !errors.Is(err, store.ErrLost) {
				t.Errorf("renewal: %v, want ErrLost", err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			open, advance := clocked(t)
			s := open()
			c := mutex("delayed")
			c.LockDelay, c.TTL = time.Hour, ttl
			one := mustHold(t, s, c)
			var rest []store.Hold
			for i := range 2 * fewestTogether {
				c := mutex(fmt.Sprint("held ", i))
				c.TTL = ttl
				rest = append(rest, mustHold(t, s, c))
			}
			mustRenew(t, s, append([]store.Hold{one}, rest...))
			if !kept(t, s, one.Name) {
				t.Fatal("no session keeps the hold")
			}
			advance(ttl + time.Second)
			lose(t, s, one)
			advance(-2 * time.Second)
			mustRenew(t, s, rest)
			if left := expires(t, s, one.Name); left != time.Second {
				t.Errorf("the lost hold expires in %v, want 1s", left)
			}
		})
	}
}

func TestNoExpiryInASessionMovesBack(t *testing.T) {
	t.Parallel()
	open, advance := clocked(t)
	s := open()
	holds := inSessions(t, s, "held", fewestTogether, 10*time.Second)
	advance(-4 * time.Second)
	mustRenew(t, s, holds)
	if left := expires(t, s, holds[0].Name); left != 14*time.Second {
		t.Errorf("got expiry in %v, want 14 s", left)
	}
	for i := range holds {
		holds[i].TTL = time.Second
	}
	mustRenew(t, s, holds)
	if left := expires(t, s, holds[0].Name); left != 14*time.Second {
		t.Errorf("renewed for less: got expiry in %v, want 14 s", left)
	}
}

// A hold that cannot go into a session, or would change by that, is renewed by itself.
func TestAHoldASessionCannotKeepIsRenewedByItself(t *testing.T) {
	t.Parallel()
	const ttl = time.Minute
	open, advance := clocked(t)
	s := open()
	var holds []store.Hold
	add := func(name string, edit func(*store.Claim)) {
		c := mutex(name)
		c.TTL = ttl
		edit(&c)
		h := mustHold(t, s, c)
		h.TTL = ttl
		holds = append(holds, h)
	}
	for i := range fewestTogether {
		add(fmt.Sprint("ordinary ", i), func(*store.Claim) {})
	}
	add("long delay", func(c *store.Claim) { c.LockDelay = 3 * time.Hour })
	add("longer already", func(c *store.Claim) { c.TTL = time.Hour })
	add("somebody waits", func(*store.Claim) {})
	add("shared", func(c *store.Claim) { c.Weight = 1 })
	add("shared", func(c *store.Claim) { c.Weight = 1 })
	mustAsk(t, s, mutex("somebody waits"))
	advance(time.Second)
	for range 2 {
		mustRenew(t, s, holds)
		for _, h := range holds {
			want := ttl
			if h.Name == "longer already" {
				want = time.Hour - time.Second
			}
			if left := expires(t, s, h.Name); left != want {
				t.Errorf("%q: got expiry in %v", h.Name, left)
			}
			if is := kept(t, s, h.Name); is != strings.HasPrefix(h.Name, "ordinary") {
				t.Errorf("a session keeps %q: %v", h.Name, is)
			}
		}
	}
	all := make([]int, len(holds))
	for i := range all {
		all[i] = i
	}
	s.sessions.fewest = 1
	if runs, rest := s.together(holds, all); len(runs) != 1 || runs[0].begins || len(rest) != len(holds)-fewestTogether {
		t.Errorf("the session is tried again soon: got %d runs, %d holds renewed alone", len(runs), len(rest))
	}
	for i := range holds {
		holds[i].TTL = longestTogether + time.Second
	}
	mustRenew(t, s, holds)
	if kept(t, s, holds[0].Name) {
		t.Error("a session keeps a hold with a long TTL")
	}
}

// Two Stores of one process have each put the same hold into a session.
func TestARenewalCountsOnlyInTheSessionThatTheEntryNames(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	open, advance := clocked(t)
	s, other := open(), open()
	holds := inSessions(t, s, "held", fewestTogether, ttl)
	advance(time.Second)
	mustRenew(t, other, holds)
	advance(3 * time.Second)
	mustRenew(t, s, holds)
	for _, h := range holds {
		if left := expires(t, s, h.Name); left != ttl {
			t.Errorf("%q: after the renewal: got expiry in %v", h.Name, left)
		}
	}
}
