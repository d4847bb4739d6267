package redisstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// fall is a server that returns with its state of a while ago, or another server with that state.
type fall struct {
	t        *testing.T
	open     func() *Store // their clock is advance's
	advance  func(time.Duration)
	now      func() store.Instant // also the clock of a process
	remember func()               // later writes will be lost
	fall     func()
}

// falls are the ways in which a Redis loses acknowledged writes.
var falls = map[string]func(*testing.T) *fall{
	"a replica without the writes took over": func(t *testing.T) *fall {
		c := newCouple(t)
		front := newProxy(t, c.primary.Addr)
		f := falling(t, clientOf(t, front.addr))
		f.remember = func() {
			follows(t, c.primary, c.replica)
			c.cut(t)
		}
		f.fall = func() {
			c.promote(t)
			front.lead(c.replica.Addr)
			front.cut()
		}
		return f
	},
	"the server came back with an old file": func(t *testing.T) *fall {
		server := testserver.Redis(t)
		client := clientOf(t, server.Addr)
		f := falling(t, client)
		f.remember = func() {
			if err := client.Save(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		f.fall = func() {
			server.Kill()
			server.Restart()
		}
		return f
	},
}

func falling(t *testing.T, client *redis.Client) *fall {
	f := &fall{t: t}
	open, advance := clockedOn(t, client, nil)
	begin, since := store.Now(), time.Duration(0)
	f.open = open
	f.advance = func(d time.Duration) {
		since += d
		advance(d)
	}
	f.now = func() store.Instant { return begin.Add(since) }
	return f
}

// renew renews the holds in one call once the server answers for all of them, and returns which are lost.
func (f *fall) renew(s *Store, holds []store.Hold) (lost map[string]bool) {
	f.t.Helper()
	until(f.t, "the server answers", func() bool {
		lost = map[string]bool{}
		answered := true
		for i, r := range s.Renew(f.t.Context(), holds) {
			if errors.Is(r.Err, store.ErrLost) {
				lost[holds[i].Name] = true
			} else if r.Err != nil {
				answered = false
			}
		}
		return answered
	})
	return lost
}

// takes makes another process acquire a name, unless somebody holds it.
func (f *fall) takes(s *Store, name string) (h store.Hold, ok bool) {
	f.t.Helper()
	c := storetest.Mutex(store.NewProcess(), name)
	c.Try, c.TTL = true, time.Hour
	until(f.t, "the server answers", func() bool {
		a, err := s.Ask(f.t.Context(), c)
		h, ok = store.Hold{Name: name, ID: c.ID, Token: a.Token, TTL: c.TTL}, a.Granted
		return err == nil
	})
	return h, ok
}

// A grant that the server lost is lost for its holder with the next renewal, even if a session renews it. A process that was granted the name
// since then keeps it. What the server still has goes on.
func TestAForgottenGrantIsLostEvenIfASessionKeptIt(t *testing.T) {
	t.Parallel()
	for how, start := range falls {
		for _, alone := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, in a session of its own: %v", how, alone), func(t *testing.T) {
				t.Parallel()
				f := start(t)
				s := f.open()
				const ttl = time.Minute
				remembered := inSessions(t, s, "remembered", 2*fewestTogether, ttl)
				f.remember()
				if !alone {
					s.sessions.mu.Lock()
					for _, p := range s.sessions.of {
						p.in.until = 0 // the next holds go into a session that includes it
					}
					s.sessions.mu.Unlock()
				}
				all := remembered
				for i := range fewestTogether {
					c := mutex(fmt.Sprint("forgotten ", i))
					c.TTL = ttl
					all = append(all, mustHold(t, s, c))
				}
				for range 2 {
					mustRenew(t, s, all)
				}
				forgotten := all[len(remembered):]
				for _, h := range all {
					if !kept(t, s, h.Name) {
						t.Fatalf("no session keeps %q", h.Name)
					}
				}
				f.advance(time.Second)
				f.fall()

				other := f.open()
				var second []store.Hold
				for i, h := range forgotten {
					if i%2 == 1 {
						continue // nobody asks for it
					}
					o, ok := f.takes(other, h.Name)
					if !ok || o.Token <= h.Token {
						t.Fatalf("another claim: granted %q %v, with token %d after %d", h.Name, ok, o.Token, h.Token)
					}
					second = append(second, o)
				}
				for n := range 3 {
					lost := f.renew(s, all)
					for i, h := range all {
						if want := i >= len(remembered); lost[h.Name] != want {
							t.Errorf("renewal %d of %q: got lost %v, want %v", n, h.Name, lost[h.Name], want)
						}
					}
					if lost := f.renew(other, second); len(lost) > 0 {
						t.Errorf("the second holders lost %v", lost)
					}
					f.advance(ttl * 3 / 4)
				}
				for _, h := range remembered {
					if _, ok := f.takes(other, h.Name); ok || !kept(t, s, h.Name) {
						t.Errorf("%q: another claim is granted %v, a session keeps it %v", h.Name, ok, kept(t, s, h.Name))
					}
				}
			})
		}
	}
}

// A release that the server lost leaves a hold that belongs to nobody. The name becomes free though the session that kept the hold goes on for
// others. A process that was granted the name since has lost it with its next renewal.
func TestAForgottenReleaseKeepsNoNameInALiveSession(t *testing.T) {
	t.Parallel()
	for how, start := range falls {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			s, other := f.open(), f.open()
			const ttl = time.Minute
			s.sessions.now = f.now
			holds := inSessions(t, s, "held", 2*fewestTogether, ttl)
			f.remember()
			before := s.sessions.of[holds[2].ID].in
			gone, rest := holds[:2], holds[2:]
			for _, err := range s.ReleaseAll(t.Context(), gone) {
				if err != nil {
					t.Fatal(err)
				}
			}
			next, ok := f.takes(other, gone[0].Name)
			if !ok {
				t.Fatal("the released name is held")
			}
			mustRenew(t, s, rest)
			f.fall()

			if lost := f.renew(s, rest); len(lost) > 0 {
				t.Fatalf("got %v lost", lost)
			}
			if s.sessions.of[rest[0].ID].in != before {
				t.Fatal("the hold is in another session")
			}
			if lost := f.renew(other, []store.Hold{next}); !lost[next.Name] {
				t.Error("a forgotten grant was renewed, want ErrLost")
			}
			for _, h := range gone {
				if _, ok := f.takes(other, h.Name); ok {
					t.Fatalf("%q is free at once: the server forgot nothing", h.Name)
				}
			}
			for range 4 * (leftFor + 1) {
				f.advance(ttl / 4)
				mustRenew(t, s, rest)
			}
			for _, h := range gone {
				if _, ok := f.takes(other, h.Name); !ok {
					t.Errorf("%q has no holder, but is not free", h.Name)
				}
			}
			for _, h := range rest {
				if _, ok := f.takes(other, h.Name); ok {
					t.Errorf("%q has two holders", h.Name)
				}
			}
		})
	}
}
