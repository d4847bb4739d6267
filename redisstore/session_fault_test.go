package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// On a server that will not have sessions, each hold is renewed by itself, and it is not
// asked again soon.
func TestWhereSessionsAreRefusedHoldsAreRenewedByThemselves(t *testing.T) {
	t.Parallel()
	limited := func(keys ...string) func(*testing.T) *redis.Client {
		return func(t *testing.T) *redis.Client {
			server := testserver.Redis(t)
			all := slices.DeleteFunc(rights(t), func(r string) bool { return strings.HasPrefix(r, "~") })
			return user(t, server, "locks", append(all, keys...)...)
		}
	}
	for what, open := range map[string]func(*testing.T) *redis.Client{
		"only names may be read":                limited("~holdfast:{*"),
		"scripts may not read others' sessions": limited("~holdfast:{*", "~holdfast:session:*[1-9a-f]*"),
		"a server of a cluster": func(t *testing.T) *redis.Client {
			return clientOf(t, testserver.RedisCluster(t, 3)[0].Addr)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := open(t)
			s := storeOn(t, client, nil)
			defer s.Close()
			var holds []store.Hold
			for i := 0; len(holds) < 20; i++ {
				c := mutex(fmt.Sprint("held ", i))
				a, err := s.Ask(t.Context(), c)
				if err != nil && strings.Contains(err.Error(), "MOVED") {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				holds = append(holds, store.Hold{Name: c.Name, ID: c.ID, Token: a.Token, TTL: c.TTL})
			}
			mustRenew(t, s, holds)
			refused := s.sessions.apart
			if refused == 0 {
				t.Error("no session was refused")
			}
			mustRenew(t, s, holds)
			if s.sessions.apart != refused {
				t.Error("a refused session was tried again")
			}
			for _, h := range holds {
				if kept(t, s, h.Name) {
					t.Errorf("a session keeps %q", h.Name)
				}
				if err := s.Release(t.Context(), h); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A user who may use some names only is not refused one for good, or granted it, as somebody else's session keeps it: with the
// right that the package comment names it is told how the name stands, and without it, that the right is missing.
func TestAUserOfSomeNamesNeedsToReadForeignSessions(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	holder := storeOn(t, clientOf(t, server.Addr), nil)
	defer holder.Close()
	held := inSessions(t, holder, "jobs", fewestTogether, longestTogether)[0]
	some := append(slices.DeleteFunc(rights(t), func(r string) bool { return strings.HasPrefix(r, "~") }), "~holdfast:{jobs*")
	for _, readable := range []bool{true, false} {
		if readable {
			some = append(some, "~holdfast:session:*")
		} else {
			some = some[:len(some)-1]
		}
		s := storeOn(t, user(t, server, fmt.Sprint("some-", readable), some...), nil)
		defer s.Close()
		c := mutex(held.Name)
		c.Try = true
		a, err := s.Ask(t.Context(), c)
		if a.Granted || errors.Is(err, store.ErrDenied) == readable || readable && err != nil {
			t.Errorf("sessions readable %v: got granted %v, %v", readable, a.Granted, err)
		}
	}
	mustRenew(t, holder, []store.Hold{held})
}

func TestOnAClusterNoSessionIsTried(t *testing.T) {
	t.Parallel()
	s := togetherOn(t, clusterClient(t, testserver.RedisCluster(t, 3)), nil)
	defer s.Close()
	var holds []store.Hold
	for i := range 30 {
		holds = append(holds, mustHold(t, s, mutex(fmt.Sprint("held ", i))))
	}
	mustRenew(t, s, holds)
	if s.sessions.apart != 0 || len(s.sessions.of) != 0 {
		t.Errorf("got sessions refused until %v, and %d holds in sessions", s.sessions.apart, len(s.sessions.of))
	}
}

// Whoever cannot say that a session began leaves it, and whoever cannot say that it was renewed
// renews it again.
func TestHoldsSurviveALostAnswerOfTheirSession(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	p := newProxy(t, server.Addr)
	s := storeOn(t, clientOf(t, p.addr), nil)
	defer s.Close()
	const ttl = longestTogether
	var holds []store.Hold
	for i := range 2 * fewestTogether {
		c := mutex(fmt.Sprint("held ", i))
		c.TTL = ttl
		holds = append(holds, mustHold(t, s, c))
	}
	lose := func(what string) {
		t.Helper()
		p.dropAnswers(1)
		for i, r := range s.Renew(t.Context(), holds) {
			if !errors.Is(r.Err, store.ErrUnavailable) || store.Definite(r.Err) {
				t.Errorf("%s, renewal %d: %v, want indeterminate", what, i, r.Err)
			}
		}
	}
	inSessions(t, storeOn(t, clientOf(t, server.Addr), nil), "before", fewestTogether, ttl) // the server knows the script
	first := len(sessionKeys(t, s))
	lose("the first")
	mustRenew(t, s, holds)
	before := len(sessionKeys(t, s))
	if before != first+2 { // the one that was not answered, and its successor
		t.Errorf("got %d sessions, and %d before", before, first)
	}
	lose("a later one")
	mustRenew(t, s, holds)
	if n := len(sessionKeys(t, s)); n != before {
		t.Errorf("got %d sessions, and %d before", n, before)
	}
	for _, h := range holds {
		if left := expires(t, s, h.Name); !kept(t, s, h.Name) || left < ttl-slack {
			t.Errorf("%q: got expiry in %v", h.Name, left)
		}
		if err := s.Release(t.Context(), h); err != nil {
			t.Error(err)
		}
	}
}

// A fail-over can lose the write by which a hold left its session, though it was answered. So that the session does not keep the name of one
// that was given back for as long as the others are held, it is replaced soon. No server is asked here.
func TestASessionIsReplacedSoonAfterAHoldHasLeftIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		defer client.Close()
		s := storeOn(t, client, nil)
		defer s.Close()
		const ttl = time.Minute
		old := &session{ttl: ttl, until: store.Now().Add(sessionLife), holds: 2 * fewestTogether}
		var holds []store.Hold
		var all []int
		for i := range old.holds {
			c := mutex(fmt.Sprint(i))
			holds, all = append(holds, store.Hold{Name: c.Name, ID: c.ID, Token: 1, TTL: ttl}), append(all, i)
			s.sessions.of[c.ID] = place{in: old, name: c.Name, token: 1}
		}
		renewsOld := func(what string, want bool) {
			t.Helper()
			runs, rest := s.together(holds, all)
			if len(runs) != 1 || len(rest) > 0 || runs[0].begins == want || (runs[0].session == old) != want {
				t.Errorf("%s: got %d runs and %d holds renewed alone, want the session renewed: %v", what, len(runs), len(rest), want)
			}
		}
		time.Sleep(sessionLife / 2)
		renewsOld("all holds are in it", true)
		s.sessions.released(&holds[0], nil)
		all = all[1:]
		renewsOld("one hold was released", true)
		time.Sleep(ttl)
		s.sessions.renewed(holds[1].ID, nil) // by itself: later is no later end
		all = all[1:]
		renewsOld("another hold has left", true)
		time.Sleep((leftFor - 1) * ttl)
		renewsOld("that was a while ago", false)
	})
}

// Of an answer that breaks off it is not known which of the holds went into the session: it is not renewed.
func TestASessionWithAStrangeAnswerIsNotRenewed(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	s := storeOn(t, client, nil)
	defer s.Close()
	var holds []store.Hold
	var all []int
	for i := range 3 * fewestTogether {
		c := mutex(fmt.Sprint(i))
		holds, all = append(holds, store.Hold{Name: c.Name, ID: c.ID, Token: 1, TTL: c.TTL}), append(all, i)
	}
	stands := "H" + strings.Repeat("\x00", 34)
	for what, known := range map[string]int{"whole": len(holds), "broken off": len(holds) - 1} {
		s.sessions.of = map[store.ID]place{}
		runs, _ := s.together(holds, all)
		runs[0].call = done
		runs[0].SetVal("H" + strings.Repeat(stands, known))
		out := make([]store.Renewal, len(holds))
		if rest := s.renewedTogether(t.Context(), runs[0], holds, out); len(rest) > 0 {
			t.Errorf("%s: got %d holds renewed alone", what, len(rest))
		}
		if err := out[len(holds)-1].Err; (err != nil) != (known < len(holds)) {
			t.Errorf("%s: the last renewal: got %v", what, err)
		}
		if runs, _ := s.together(holds[:known], all[:known]); len(runs) != 1 || runs[0].begins != (known < len(holds)) {
			t.Errorf("%s: the next call begins a session: %v", what, runs[0].begins)
		}
	}
}

// A full server begins no session, and goes on with those that are there.
func TestOnAFullServerSessionsAreRenewed(t *testing.T) {
	t.Parallel()
	for name, start := range versions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			direct := clientOf(t, server.Addr)
			s, whole := storeOn(t, user(t, server, "locks", rights(t)...), nil), storeOn(t, direct, nil)
			defer s.Close()
			holds := inSessions(t, s, "held", fewestTogether, longestTogether)
			var others []store.Hold
			for i := range fewestTogether {
				others = append(others, mustHold(t, s, mutex(fmt.Sprint("other ", i))))
			}
			fill(t, direct, true)
			for range 3 {
				mustRenew(t, s, holds)
				mustRenew(t, s, others)
			}
			if n := len(sessionKeys(t, whole)); n != 1 {
				t.Errorf("got %d sessions, want 1", n)
			}
			for _, h := range holds {
				if !kept(t, s, h.Name) {
					t.Errorf("no session keeps %q", h.Name)
				}
			}
			for _, err := range s.ReleaseAll(t.Context(), append(holds, others...)) {
				if err != nil {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
}

// What the replica has not is no renewal, of as many as are renewed together.
func TestASessionIsRenewedOnlyIfReplicasHaveIt(t *testing.T) {
	t.Parallel()
	c := newCouple(t)
	s := confirmed(t, clientOf(t, c.primary.Addr), 1)
	s.sessions.fewest = 1
	var holds []store.Hold
	for i := range 5 {
		holds = append(holds, soonHold(t, s, mutex(fmt.Sprint("held ", i))))
	}
	s.confirmTime = 100 * time.Millisecond
	renewed := func() (err error) {
		for _, r := range s.Renew(t.Context(), holds) {
			err = errors.Join(err, r.Err)
		}
		return err
	}
	for _, what := range []string{"a session that begins", "a session"} {
		c.replica.Freeze()
		for range 2 {
			for _, r := range s.Renew(t.Context(), holds) {
				indeterminate(t, what, r.Err)
			}
		}
		c.replica.Thaw()
		until(t, what+" is confirmed", func() bool { return renewed() == nil })
		if !kept(t, s, holds[0].Name) {
			t.Errorf("%s: the session keeps no hold", what)
		}
	}
	for i, h := range holds {
		if err := s.Release(t.Context(), h); err != nil {
			t.Errorf("release %d: %v", i, err)
		}
	}
}
