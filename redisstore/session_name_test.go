package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

func TestAHoldGoesToAnotherProcessOutOfASession(t *testing.T) {
	t.Parallel()
	open, advance := clocked(t)
	s, other := open(), open()
	holds := inSessions(t, s, "held", fewestTogether, 10*time.Second)
	holds[3].NewID = store.Process{}.NewID()
	mustRenew(t, s, holds)
	if kept(t, s, holds[3].Name) {
		t.Error("the session of the former process keeps the hold")
	}
	adopted := store.Hold{Name: holds[3].Name, ID: holds[3].NewID, Token: holds[3].Token, TTL: 10 * time.Second, NewID: store.NewProcess().NewID()}
	mustRenew(t, other, []store.Hold{adopted})
	advance(time.Second)
	holds[3].NewID = store.ID{}
	for i, r := range s.Renew(t.Context(), holds) {
		if lost := errors.Is(r.Err, store.ErrLost); lost != (i == 3) || !lost && r.Err != nil {
			t.Errorf("renewal %d: %v", i, r.Err)
		}
	}
}

// The owner of a hold learns what happened to it with the next renewal, as without a session.
func TestTheFateOfAHoldInASessionIsInItsNextRenewal(t *testing.T) {
	t.Parallel()
	open, advance := clocked(t)
	s := open()
	s.sessions.fewest = 1
	ctx := t.Context()
	const ttl = 10 * time.Second
	for what, c := range map[string]struct {
		do   func(h store.Hold) error
		want string // part of the error
	}{
		"nothing": {func(store.Hold) error { return nil }, ""},
		"broken": {func(h store.Hold) error {
			return s.BreakHold(ctx, store.Break{Name: h.Name, ID: h.ID, Token: h.Token, Reason: "because"})
		}, "because"},
		"broken now": {func(h store.Hold) error {
			return s.BreakHold(ctx, store.Break{Name: h.Name, ID: h.ID, Token: h.Token, Reason: "because", Now: true})
		}, "because"},
		"broken now, and another has it": {func(h store.Hold) error {
			if err := s.BreakHold(ctx, store.Break{Name: h.Name, ID: h.ID, Token: h.Token, Reason: "because", Now: true}); err != nil {
				return err
			}
			mustHold(t, s, mutex(h.Name))
			return nil
		}, "because"},
		"given back":            {func(h store.Hold) error { return open().Release(ctx, h) }, "lost"},
		"the name forgotten":    {func(h store.Hold) error { return s.client.Del(ctx, s.key(h.Name)).Err() }, "lost"},
		"the session forgotten": {func(store.Hold) error { return s.client.Del(ctx, sessionKeys(t, s)...).Err() }, "lost"},
		"one waits":             {func(h store.Hold) error { _, err := s.Ask(ctx, mutex(h.Name)); return err }, ""},
		"many wait": {func(h store.Hold) (err error) {
			for range usual.fewest + 3 {
				if _, err = s.Ask(ctx, mutex(h.Name)); err != nil {
					break
				}
			}
			return err
		}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			holds := inSessions(t, s, what, 2, ttl)
			mustRenew(t, s, holds)
			if err := c.do(holds[0]); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				advance(time.Second)
				got := s.Renew(ctx, holds)
				if err := got[0].Err; (err == nil) != (c.want == "") || err != nil && !(errors.Is(err, store.ErrLost) && strings.Contains(err.Error(), c.want)) {
					t.Fatalf("renewal: %v, want %q", err, c.want)
				}
				if err := got[1].Err; (err != nil) != (what == "the session forgotten") {
					t.Fatalf("renewal of the other hold: %v", err)
				}
				if c.want == "" && expires(t, s, holds[0].Name) != ttl {
					t.Errorf("after the renewal: got expiry in %v", expires(t, s, holds[0].Name))
				}
			}
		})
	}
}

// The weight and the upgrade token are returned, and an upgrade is granted to a hold in a session.
func TestAHoldInASessionIsUpgraded(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	s.sessions.fewest = 1
	c, reader := mutex("upgraded"), mutex("upgraded")
	c.Weight, reader.Weight = store.Upgradeable, 1
	h := []store.Hold{mustHold(t, s, c)}
	mustRenew(t, s, h)
	r := mustHold(t, s, reader)
	if a, err := s.Change(t.Context(), h[0], 1, store.Full); err != nil || a.Granted {
		t.Fatalf("Change beside a reader: got %+v, %v", a, err)
	}
	if got := s.Renew(t.Context(), h)[0]; got.Err != nil || got.Want != store.Full || got.Weight != store.Upgradeable {
		t.Errorf("while the upgrade is pending: got %+v", got)
	}
	if err := s.Release(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	var token int64
	for i := range 3 {
		got := s.Renew(t.Context(), h)[0]
		if got.Err != nil || got.Weight != store.Full || got.UpgradeToken <= r.Token || token != 0 && got.UpgradeToken != token {
			t.Errorf("renewal %d: got %+v", i, got)
		}
		token = got.UpgradeToken
	}
	if a, err := s.Change(t.Context(), h[0], 2, store.Upgradeable); err != nil || !a.Granted {
		t.Errorf("downgrade: got %+v, %v", a, err)
	}
}

// A renewal of a session does not write the names, so their keys must outlive the session.
func TestTheKeyOfANameOutlivesTheSessionOfItsHold(t *testing.T) {
	t.Parallel()
	o := apart()
	o.TokenRetention = time.Minute
	s := togetherOn(t, clientOf(t, testserver.SharedRedis(t)), o)
	defer s.Close()
	c := mutex("delayed")
	c.LockDelay, c.MinHold = 20*time.Minute, time.Second
	holds := append(inSessions(t, s, "held", 2, time.Minute), mustHold(t, s, c))
	mustRenew(t, s, holds)
	check := func(what string) {
		t.Helper()
		for _, h := range holds {
			want := sessionLife + time.Minute
			if h.Name == c.Name {
				want += c.LockDelay
			}
			if d := s.client.PTTL(t.Context(), s.key(h.Name)).Val(); d < want-slack || d > want+time.Second {
				t.Errorf("%s: the key of %q lives for %v, want %v", what, h.Name, d, want)
			}
		}
		for _, key := range sessionKeys(t, s) {
			if d := s.client.PTTL(t.Context(), key).Val(); d < 2*sessionLife-slack || d > 2*sessionLife+time.Second {
				t.Errorf("%s: a session lives for %v, want %v", what, d, 2*sessionLife)
			}
		}
	}
	check("in a session")
	for _, h := range holds {
		mustAsk(t, s, mutex(h.Name))
	}
	check("a claim waits")
}

// A server that lost writes has granted a name to another process. The former holder gets ErrLost, and nothing of the other enters its
// session, be it with the first renewal or a later one.
func TestASessionTakesInNothingThatAnotherHas(t *testing.T) {
	t.Parallel()
	open, _ := clocked(t)
	s, other := open(), open()
	for _, what := range []string{"first", "later"} {
		var holds []store.Hold
		for i := range fewestTogether + 1 {
			holds = append(holds, mustHold(t, s, mutex(fmt.Sprint(what, " ", i))))
		}
		if what == "later" {
			mustRenew(t, s, holds)
		}
		if err := s.client.Del(t.Context(), s.key(holds[0].Name)).Err(); err != nil {
			t.Fatal(err)
		}
		second := mustHold(t, other, mutex(holds[0].Name))
		for i, r := range s.Renew(t.Context(), holds) {
			if lost := errors.Is(r.Err, store.ErrLost); lost != (i == 0) || !lost && r.Err != nil {
				t.Errorf("%s renewal, hold %d: %v", what, i, r.Err)
			}
			if kept(t, s, holds[i].Name) == (i == 0) {
				t.Errorf("%s renewal: a session keeps %q: %v", what, holds[i].Name, i == 0)
			}
		}
		mustRenew(t, other, []store.Hold{second})
	}
}

// A renewal with the id of a hold and another token, or another name, is lost and keeps nothing: it does not renew the session.
func TestARenewalOfNoHoldKeepsNothingInASession(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	for what, edit := range map[string]func(*store.Hold){
		"another token": func(h *store.Hold) { h.Token++ },
		"another name":  func(h *store.Hold) { h.Name += " of another" },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			open, advance := clocked(t)
			s := open()
			holds := inSessions(t, s, "held", fewestTogether, ttl)
			advance(time.Second)
			others := append([]store.Hold{}, holds...)
			for i := range others {
				edit(&others[i])
			}
			for i, r := range s.Renew(t.Context(), others) {
				if !errors.Is(r.Err, store.ErrLost) {
					t.Errorf("renewal %d: %v, want ErrLost", i, r.Err)
				}
			}
			for _, h := range holds {
				if left := expires(t, s, h.Name); left != ttl-time.Second {
					t.Errorf("%q: got expiry in %v", h.Name, left)
				}
			}
			mustRenew(t, s, holds)
		})
	}
}

// When a session was evicted or deleted, its end is unknown. The lock delay then counts from the grant, and the key of the name lives that
// long.
func TestALockDelayOutlivesTheLossOfItsSession(t *testing.T) {
	t.Parallel()
	o := apart()
	o.TokenRetention = time.Minute
	s := togetherOn(t, clientOf(t, testserver.SharedRedis(t)), o)
	defer s.Close()
	c := mutex("delayed")
	c.LockDelay = 20 * time.Minute
	mustRenew(t, s, []store.Hold{mustHold(t, s, c)})
	if keys := sessionKeys(t, s); len(keys) != 1 || s.client.Del(t.Context(), keys...).Err() != nil {
		t.Fatalf("got sessions %q", keys)
	}
	if a := mustAsk(t, s, mutex(c.Name)); a.Granted || a.Until < c.LockDelay-slack || a.Until > c.LockDelay {
		t.Errorf("another claim: got %+v, want a wait for the delay", a)
	}
	want := c.LockDelay + o.TokenRetention
	if d := s.client.PTTL(t.Context(), s.key(c.Name)).Val(); d < want-slack || d > want+time.Second {
		t.Errorf("the key lives for %v, want %v", d, want)
	}
}

// The longer life of a name's key ends with the hold that a session keeps.
func TestANameReleasedFromASessionIsKeptNoLonger(t *testing.T) {
	t.Parallel()
	o := apart()
	o.TokenRetention = time.Minute
	s := togetherOn(t, clientOf(t, testserver.SharedRedis(t)), o)
	defer s.Close()
	alone, waited := inSessions(t, s, "alone", 1, time.Minute)[0], inSessions(t, s, "waited for", 1, time.Minute)[0]
	w := mutex(waited.Name)
	mustAsk(t, s, w)
	if err := s.Release(t.Context(), store.Hold{Name: w.Name, ID: w.ID}); err != nil {
		t.Fatal(err)
	}
	for _, h := range []store.Hold{alone, waited} {
		if err := s.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if d := s.client.PTTL(t.Context(), s.key(h.Name)).Val(); d < o.TokenRetention-slack || d > o.TokenRetention {
			t.Errorf("the key of %q lives for %v, want %v", h.Name, d, o.TokenRetention)
		}
	}
}

// A session is replaced before it reaches its maximum age, and nobody notices.
func TestASessionIsReplacedInTime(t *testing.T) {
	t.Parallel()
	open, advance := clocked(t)
	s, other := open(), open()
	holds := inSessions(t, s, "held", fewestTogether, longestTogether)
	before := sessionKeys(t, s)
	s.sessions.mu.Lock()
	for _, p := range s.sessions.of {
		p.in.until = p.in.until.Add(-sessionLife) // by our clock
	}
	s.sessions.mu.Unlock()
	mustRenew(t, s, holds)
	if after := sessionKeys(t, s); len(after) != len(before)+1 || !kept(t, s, holds[0].Name) {
		t.Errorf("got %d sessions, then %d", len(before), len(after))
	}
	for range 20 { // by the server's clock
		advance(longestTogether * 3 / 4)
		mustRenew(t, s, holds)
		for _, h := range holds {
			if left := expires(t, other, h.Name); left != longestTogether {
				t.Fatalf("%q: after the renewal: got expiry in %v", h.Name, left)
			}
		}
	}
	if after := sessionKeys(t, s); len(after) < len(before)+2 {
		t.Errorf("a session lasted longer than it can: got %d sessions", len(after))
	}
}
