package pgstore

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// frees breaks a hold at once.
func frees(t *testing.T, by *Store, h store.Hold, reason string) {
	t.Helper()
	if err := by.BreakHold(t.Context(), store.Break{Name: h.Name, ID: h.ID, Token: h.Token, Reason: reason, Now: true}); err != nil {
		t.Fatal(err)
	}
}

// A session keeps the hold, so its renewals write nothing. The next waiter has the lock while the first owner does not know of it, and after
// that.
func TestAHoldFreedInASessionIsLostWithItsReason(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	other := second(t, s)
	h, _ := kept(t, s, "n")
	w := mutex("n")
	mustAsk(t, other, w) // it waits
	frees(t, other, h, "it hangs")
	a := mustAsk(t, other, w)
	if !a.Granted || a.Token <= h.Token {
		t.Fatalf("the next claim: got %+v", a)
	}
	next := store.Hold{Name: "n", ID: w.ID, Token: a.Token, TTL: w.TTL}
	for range 2 {
		storetest.IsLostFor(t, "it hangs", s.Renew(t.Context(), []store.Hold{h})[0].Err, "the renewal")
		mustRenew(t, other, next)
	}
	if st := state(t, s, "n"); len(st.Entries) != 2 || !st.Entries[0].Freed || st.Entries[0].ID != h.ID || st.Entries[1].Freed {
		t.Errorf("got entries %+v", st.Entries)
	}
	storetest.IsLostFor(t, "it hangs", s.Release(t.Context(), h), "the release")
	mustRenew(t, other, next)
	if st := state(t, s, "n"); len(st.Entries) != 1 || st.Entries[0].ID != w.ID {
		t.Errorf("after the release: got entries %+v", st.Entries)
	}
}

// Its process removes it once it would have expired, though the session goes on.
func TestAFreedHoldIsRemovedFromALiveSession(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h, _ := kept(t, s, "n")
	frees(t, second(t, s), h, "it hangs")
	storetest.IsLostFor(t, "it hangs", s.Renew(t.Context(), []store.Hold{h})[0].Err, "the renewal")
	s.claims.mu.Lock()
	s.claims.of[h.ID].ends = store.Now() // a TTL later
	s.claims.mu.Unlock()
	s.poke()
	until(t, "the hold is removed", func() bool { return len(state(t, s, "n").Entries) == 0 })
}

// The statements that release the only entry of a name, each in its way, do not take a freed entry for a hold.
func TestAFreedHoldIsReleasedAsLost(t *testing.T) {
	t.Parallel()
	for what, by := range map[string]way{"alone": alone, "next": next, "beside": beside} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newShared(t)
			h := mustHold(t, s, mutex("n"))
			frees(t, second(t, s), h, "it hangs")
			s.ways.set("n", by)
			storetest.IsLostFor(t, "it hangs", s.Release(t.Context(), h), "the release")
			if st := state(t, s, "n"); len(st.Entries) != 0 {
				t.Errorf("got entries %+v", st.Entries)
			}
		})
	}
	t.Run("with others", func(t *testing.T) {
		t.Parallel()
		s := newShared(t)
		holds := []store.Hold{mustHold(t, s, mutex("a")), mustHold(t, s, mutex("b")), mustHold(t, s, mutex("c"))}
		frees(t, second(t, s), holds[1], "it hangs")
		errs := s.ReleaseAll(t.Context(), holds)
		if errs[0] != nil || errs[2] != nil {
			t.Errorf("the other holds: %v", errs)
		}
		storetest.IsLostFor(t, "it hangs", errs[1], "the release")
	})
}

// Nobody waits behind an entry that is freed and alone, and its limit and weight block nothing.
func TestAClaimOnAFreedNameIsGrantedAtOnce(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h := mustHold(t, s, mutex("n"))
	frees(t, second(t, s), h, "it hangs")
	for range 3 {
		c := mutex("n")
		c.Limit, c.Weight = 3, 1
		mustHold(t, second(t, s), c)
	}
	c := mutex("n")
	c.Limit, c.Weight, c.Try = 3, 1, true
	if a := mustAsk(t, s, c); a.Granted || a.Holding != 3 || len(a.Holders) != 3 {
		t.Errorf("got %+v, want a refusal by three holders", a)
	}
}

// A break whose reply was lost is repeated. The hold is then freed already, and its owner learns the reason.
func TestAnUnansweredBreakNowIsRepeated(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h, _ := kept(t, s, "n")
	other := second(t, s)
	other.db = &meddled{db: other.db}
	b := store.Break{Name: "n", ID: h.ID, Token: h.Token, Reason: "it hangs", Now: true}
	sent, args := 0, []any(nil)
	meddle(other, func(statement string, of []any) error {
		if statement != other.do.breaks {
			return nil
		}
		if sent++; sent < 2 {
			return nil
		}
		args = of
		return errCut
	})
	if err := other.BreakHold(t.Context(), b); err == nil || store.Definite(err) {
		t.Fatalf("an unanswered break: %v", err)
	}
	if st := state(t, s, "n"); len(st.Entries) != 1 || st.Entries[0].Broken != b.Reason || st.Entries[0].Freed {
		t.Fatalf("before the call of the owner: got entries %+v, want the hold not freed", st.Entries)
	}
	meddle(other, func(string, []any) error { return nil })
	late(t, other, other.do.breaks, args)
	if a := mustAsk(t, other, mutex("n")); !a.Granted {
		t.Errorf("the next claim: got %+v", a)
	}
	storetest.IsLostFor(t, "it hangs", s.Renew(t.Context(), []store.Hold{h})[0].Err, "the renewal")
	if err := other.BreakHold(t.Context(), b); !errors.Is(err, store.ErrLost) {
		t.Errorf("a break of a freed hold: %v, want ErrLost", err)
	}
}

// The hold was released. It blocks until the instant of its grant, as the clock was set back.
func TestAHoldThatHasEndedIsDroppedByABreakNow(t *testing.T) {
	t.Parallel()
	now := time.Now().UnixMicro()
	s := tableAt(t, nil, &now)
	h := mustHold(t, s, mutex("n"))
	now -= time.Second.Microseconds()
	if err := s.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if st := state(t, s, "n"); len(st.Entries) != 1 {
		t.Fatalf("released before the time of its grant: got %+v", st)
	}
	if err := s.BreakHold(t.Context(), store.Break{Name: "n", ID: h.ID, Token: h.Token, Now: true}); err != nil {
		t.Fatal(err)
	}
	if st := state(t, s, "n"); len(st.Entries) != 0 {
		t.Errorf("after BreakHold with Now: got entries %+v", st.Entries)
	}
}

// The comparison found this, with the seed 2695761801: the freed hold stayed until its grant ended, as other holds do.
func TestAFreedHoldThatIsReleasedIsDroppedAfterTheClockWentBack(t *testing.T) {
	t.Parallel()
	now := time.Now().UnixMicro()
	s := tableAt(t, nil, &now)
	h := mustHold(t, s, mutex("n"))
	if err := s.BreakHold(t.Context(), store.Break{Name: "n", ID: h.ID, Token: h.Token, Now: true}); err != nil {
		t.Fatal(err)
	}
	now -= time.Second.Microseconds()
	if err := s.Release(t.Context(), h); !errors.Is(err, store.ErrLost) {
		t.Errorf("release of a freed hold: %v, want %v", err, store.ErrLost)
	}
	if st := state(t, s, "n"); len(st.Entries) != 0 {
		t.Errorf("the hold is still listed: %+v", st)
	}
}
