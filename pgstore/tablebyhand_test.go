package pgstore

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// waited returns a hold that was granted in the queue: the session in which it waited keeps it.
func waited(t *testing.T, s *Store, c store.Claim) store.Hold {
	t.Helper()
	ahead := mustHold(t, s, mutex(c.Name))
	mustAsk(t, s, c)
	if err := s.Release(t.Context(), ahead); err != nil {
		t.Fatal(err)
	}
	h := mustHold(t, s, c)
	if sessionOf(t, s, c.Name, h.ID) == (session.ID{}) {
		t.Fatal("the claim is in no session: the test shows nothing")
	}
	return h
}

// lastsAlone fails the test unless the hold has an expiry of its own, that far away.
func lastsAlone(t *testing.T, s *Store, h store.Hold, d time.Duration) {
	t.Helper()
	if in := sessionOf(t, s, h.Name, h.ID); in != (session.ID{}) {
		t.Errorf("%s: the hold is in session %v, want none", h.Name, in)
	}
	if e := state(t, s, h.Name).Entries[0]; e.Expires > d || e.Expires < d-time.Minute/2 {
		t.Errorf("%s: the hold lasts %v, want %v", h.Name, e.Expires, d)
	}
}

// The process of a lease that is renewed by hand dies in the last minute of an hour. The lock is free within a minute, though the holds that
// its process renews automatically are kept for an hour.
func TestAHoldRenewedByHandHasAnExpiryOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	mustHold(t, second(t, s), mutex("there")) // creates the table
	mustAsk(t, s, mutex("there"))             // keeps the short session alive
	for name, take := range map[string]func(store.Claim) store.Hold{
		"free": func(c store.Claim) store.Hold { return mustHold(t, s, c) }, "waited for": func(c store.Claim) store.Hold { return waited(t, s, c) },
		"asked for again": func(c store.Claim) store.Hold {
			waited(t, s, c)
			return mustHold(t, s, c) // as after a poll that found the grant
		},
	} {
		c := mutex(name)
		c.TTL = time.Hour
		h := take(c)
		h.TTL, h.ByHand = c.TTL, true
		for range 2 {
			if r := mustRenew(t, s, h); r.TTL != time.Hour {
				t.Errorf("%s: got %+v", name, r)
			}
			lastsAlone(t, s, h, time.Hour)
		}
		h.ByHand = false // it stays by hand, whoever renews it
		mustRenew(t, s, h)
		lastsAlone(t, s, h, time.Hour)
	}
	dead(s)
	expire(t, s, "waited for")
	mustHold(t, second(t, s), mutex("waited for"))
}

// A hold of which only some renewals are by hand stays in its session: a request under way could put it there at any time.
func TestAHoldThatWasSentIntoASessionStaysThere(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h, in := kept(t, s, "n")
	h.ByHand, h.Owner = true, "says something new" // so that its row is written
	mustRenew(t, s, h)
	if now := sessionOf(t, s, "n", h.ID); now != in {
		t.Errorf("the hold is in session %v, want %v", now, in)
	}
}

// A claim may have a shorter TTL than the session in which it waited.
func TestAHoldRenewedByHandLastsAsLongAsReported(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	for _, name := range []string{"alone", "with others"} {
		c := mutex(name)
		c.TTL, c.PositionTTL = time.Minute, 10*time.Second
		h := waited(t, s, c)
		if name != "alone" { // the full statement, as there is another entry
			other := mutex(name)
			other.PositionTTL = minTTL / 2
			mustAsk(t, s, other)
			expire(t, s, name)
		}
		m, _ := knows(s, h.ID)
		h.TTL, h.ByHand = minTTL, true
		mustRenew(t, s, h)
		left := state(t, s, name).Entries[0].Expires
		if reported := m.until.Sub(store.Now()); reported < time.Second || left < reported || left > c.TTL {
			t.Errorf("%s: the hold expires in %v, but its owner relies on %v", name, left, reported)
		}
	}
}

// A renewal by hand that was not answered takes a hold out of the session in which it waited. From then on that session does not renew it.
func TestAHoldThatLeavesItsSessionLateHasLeftIt(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	mustHold(t, second(t, s), mutex("there"))
	mustAsk(t, s, mutex("there")) // keeps the session alive
	for _, what := range []string{"renewed", "asked for"} {
		c := mutex(what)
		c.TTL = c.PositionTTL // so that it is renewed where it waited
		h := waited(t, s, c)
		h.TTL, h.ByHand = c.TTL, true
		args, back := cut(s, &s.do.renewFast)
		if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err == nil {
			t.Fatal("an unanswered renewal got an answer")
		}
		back()
		if h.ByHand = false; what == "renewed" {
			mustRenew(t, s, h)
		} else {
			mustAsk(t, s, c)
		}
		if in := sessionOf(t, s, what, h.ID); in != (session.ID{}) {
			t.Errorf("%s: the hold is in session %v, want none, as the renewal would take it out", what, in)
		}
		late(t, s, s.do.renewFast, args())
		if m, _ := knows(s, h.ID); m.sess != nil {
			t.Errorf("%s: the owner still keeps session %v for the hold", what, m.sess.ID)
		}
	}
}
