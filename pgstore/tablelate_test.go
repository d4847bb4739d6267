package pgstore

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The owner of an ask that was not answered asks again.
func TestAnUnansweredAskIsNotRemovedAtOnce(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := second(t, s)
	h := mustHold(t, other, mutex("n"))
	mustAsk(t, s, mutex("other")) // the store then knows the server's time
	s.seen.set("n", inUse)
	_, back := cut(s, &s.do.askBehind)
	claim := mutex("n")
	if _, err := s.Ask(t.Context(), claim); err == nil || store.Definite(err) {
		t.Fatalf("an unanswered ask: %v", err)
	}
	back()
	s.due(store.Now())
	if m, known := knows(s, claim.ID); !known || m.out {
		t.Errorf("the entry is being removed: %+v", m)
	}
	if a := mustAsk(t, s, claim); a.Granted || a.Holding != 1 {
		t.Errorf("%+v", a)
	}
	if err := other.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if a := mustAsk(t, s, claim); !a.Granted {
		t.Errorf("%+v", a)
	}
}

// If the name is free, a late grant would keep it for its TTL.
func TestALateGrantIsRemoved(t *testing.T) {
	t.Parallel()
	inTime(t, func(mostLate time.Duration) bool {
		s := newShared(t)
		mustHold(t, second(t, s), mutex("other")) // creates the table; this store has not heard the server's time
		s.claims.mu.Lock()
		s.claims.late = mostLate
		s.claims.mu.Unlock()
		args, back := cut(s, &s.do.askFast)
		claim := mutex("n")
		claim.TTL = time.Hour
		sent := store.Now()
		if _, err := s.Ask(t.Context(), claim); err == nil || store.Definite(err) {
			t.Fatalf("an unanswered ask: %v", err)
		}
		back()
		if err := s.Release(t.Context(), store.Hold{Name: "n", ID: claim.ID}); err != nil {
			t.Fatal(err)
		}
		late(t, s, s.do.askFast, args())
		if store.Now().Sub(sent) > mostLate { // nobody expects it any more
			return false
		}
		until(t, "the late entry is removed", func() bool { return len(state(t, s, "n").Entries) == 0 })
		return true
	})
}

// An ask took a queue position and then failed, and the release is not answered either. The session goes on, so the position would stay for
// good.
func TestTheEntryOfAFailedAskIsRemoved(t *testing.T) {
	t.Parallel()
	inTime(t, func(mostLate time.Duration) bool {
		s := newShared(t)
		other := second(t, s)
		h, _ := kept(t, other, "n")
		mustHold(t, other, mutex("other"))
		waits := mutex("other")
		mustAsk(t, s, waits) // it keeps the short session alive
		s.claims.late = mostLate
		s.seen.set("n", inUse)
		_, back := cut(s, &s.do.session.left)
		claim := mutex("n")
		if a, err := s.Ask(t.Context(), claim); err == nil {
			t.Fatalf("an ask that could not read the holder's session: got %+v", a)
		}
		if st := state(t, other, "n"); len(st.Entries) != 2 {
			return false
		}
		back()
		until(t, "the ask can no longer arrive", func() bool {
			m, _ := knows(s, claim.ID)
			s.claims.mu.Lock()
			defer s.claims.mu.Unlock()
			return m.late < s.claims.serverNow()
		})
		_, back = cut(s, &s.do.release)
		if err := s.Release(t.Context(), store.Hold{Name: "n", ID: claim.ID}); err == nil || store.Definite(err) {
			t.Fatalf("an unanswered release: %v", err)
		}
		back()
		until(t, "the entry is removed", func() bool {
			st := state(t, other, "n")
			return len(st.Entries) == 1 && st.Entries[0].ID == h.ID
		})
		return true
	})
}

// Our clock may drift, and the server's may be set.
func TestTheClockFollowsTheServerBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &claims{}
		server := int64(1_700_000_000_000_000)
		c.hear(server)
		for _, step := range []struct{ passed, server time.Duration }{
			{30 * 24 * time.Hour, 30*24*time.Hour - 52*time.Second}, // 20 ppm
			{2 * time.Second, -time.Hour},
		} {
			time.Sleep(step.passed)
			server += step.server.Microseconds()
			c.hear(server)
			if ahead := c.serverNow() - server; ahead != 0 {
				t.Errorf("the estimate is %d µs ahead of the server's clock", ahead)
			}
		}
	})
}

// The entry of an unanswered ask is removed for as long as the ask may still arrive, by our clock and by the server's.
func TestALateAskIsExpectedByBothClocks(t *testing.T) {
	t.Parallel()
	now := store.Now()
	c := &claims{now: 1_700_000_000_000_000, heard: now}
	for _, one := range []struct {
		what  string
		m     localClaim
		least time.Duration
	}{
		{"the server's clock was set back", localClaim{comes: now.Add(time.Second), late: c.now + 5_000_000}, 4 * time.Second},
		{"the server's clock was set forward", localClaim{comes: now.Add(5 * time.Second), late: c.now + 1}, 4 * time.Second},
		{"the ask was for a free name", localClaim{comes: now.Add(5 * time.Second)}, 4 * time.Second},
	} {
		if left := c.expects(&one.m); left < one.least {
			t.Errorf("%s: the ask is expected for %v, want %v", one.what, left, one.least)
		}
	}
	if left := c.expects(&localClaim{}); left > 0 {
		t.Errorf("all asks were answered, but one is expected for %v", left)
	}
}

// The server does not listen. An ask that was not sent leaves no entry, and the store does not remember it for the rest of the outage.
func TestAnAskThatWasNotSentIsForgotten(t *testing.T) {
	t.Parallel()
	s := tableOn(t, poolOn(t, "127.0.0.1:1"), nil)
	defer s.Close()
	claim := mutex("n")
	if a, err := s.Ask(t.Context(), claim); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("got %+v, %v", a, err)
	}
	if err := s.Release(t.Context(), store.Hold{Name: "n", ID: claim.ID}); !errors.Is(err, store.ErrUnavailable) {
		t.Fatal(err)
	}
	if m, known := knows(s, claim.ID); known {
		t.Errorf("the store still knows the claim: %+v", m)
	}
}

// An ask for which nobody waits any more takes no queue position: no session's end would remove it.
func TestAnAskThatComesTooLateAddsNoEntry(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := second(t, s)
	h := mustHold(t, other, mutex("n"))
	mustAsk(t, s, mutex("n"))
	s.claims.late = -time.Minute
	if a, err := s.Ask(t.Context(), mutex("n")); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %+v, %v, want ErrUnavailable", a, err)
	}
	if st := state(t, s, "n"); len(st.Entries) != 2 || st.Entries[0].ID != h.ID {
		t.Errorf("got entries %+v", st.Entries)
	}
}

// inTime tries what must be done before an ask arrives too late, and allows more time for as long as this machine was too slow.
func inTime(t *testing.T, f func(late time.Duration) (inTime bool)) {
	t.Helper()
	longer(t, 2*time.Second, "an ask arrived too late for a queue position", f)
}

// longer tries what must be done within a time, and doubles that for as long as this machine was too slow.
func longer(t *testing.T, d time.Duration, slow string, f func(d time.Duration) (inTime bool)) {
	t.Helper()
	for ; !f(d); d *= 2 {
		if d > patience {
			t.Fatalf("this machine is too slow: each time %s", slow)
		}
	}
}

// An ask that was not answered, and was given up, arrives at the server when its claim has already been removed.
func TestAnAskThatArrivesLateIsRemoved(t *testing.T) {
	t.Parallel()
	inTime(t, func(mostLate time.Duration) bool {
		s := newShared(t)
		other := second(t, s)
		h := mustHold(t, other, mutex("n"))
		mustAsk(t, s, mutex("other"))
		claim := mutex("n")
		s.seen.set("n", inUse)
		s.claims.late = mostLate
		var args []any
		var mu sync.Mutex
		var asks, taken atomic.Int64
		meddle(s, func(statement string, sent []any) error {
			switch statement {
			case s.do.askBehind:
				if asks.Add(1) == 1 {
					mu.Lock()
					defer mu.Unlock()
					args = sent
					return errCut
				}
			case s.do.release:
				taken.Add(1)
			}
			return nil
		})
		if _, err := s.Ask(t.Context(), claim); err == nil || store.Definite(err) {
			t.Fatalf("an unanswered ask: %v", err)
		}
		if err := s.Release(t.Context(), store.Hold{Name: "n", ID: claim.ID}); err != nil {
			t.Fatal(err)
		}
		until(t, "the entry is removed, and the removal answered", func() bool {
			m, known := knows(s, claim.ID)
			return !known || taken.Load() > 1 && m.busy == 0 // not known: this machine was too slow, and nobody expects the ask any more
		})
		late(t, s, s.do.askBehind, args)
		if st := state(t, s, "n"); len(st.Entries) == 1 {
			return false
		}
		until(t, "the late entry is removed", func() bool {
			st := state(t, other, "n")
			return len(st.Entries) == 1 && st.Entries[0].ID == h.ID
		})
		return true
	})
}

// An ask that was not answered is repeated, granted and released. Only then the first one arrives, while somebody else holds the name: its
// queue position would belong to nobody, in a session that goes on.
func TestALateAskAfterItsReleaseIsRemoved(t *testing.T) {
	t.Parallel()
	inTime(t, func(first time.Duration) bool {
		s := newShared(t)
		other := second(t, s)
		ahead := mustHold(t, other, mutex("n"))
		mustHold(t, other, mutex("other"))
		mustAsk(t, s, mutex("other")) // keeps the short session alive
		s.claims.late = first
		s.seen.set("n", inUse)
		args, back := cut(s, &s.do.askBehind)
		claim := mutex("n")
		if _, err := s.Ask(t.Context(), claim); err == nil || store.Definite(err) {
			t.Fatalf("an unanswered ask: %v", err)
		}
		back()
		if err := other.Release(t.Context(), ahead); err != nil {
			t.Fatal(err)
		}
		s.claims.mu.Lock()
		s.claims.late = mostLate // the second ask may take its time
		s.claims.mu.Unlock()
		if err := s.Release(t.Context(), mustHold(t, s, claim)); err != nil {
			t.Fatal(err)
		}
		h := mustHold(t, other, mutex("n"))
		late(t, s, s.do.askBehind, args())
		if st := state(t, other, "n"); len(st.Entries) == 1 {
			return false
		}
		until(t, "the late entry is removed", func() bool {
			st := state(t, other, "n")
			return len(st.Entries) == 1 && st.Entries[0].ID == h.ID
		})
		return true
	})
}
