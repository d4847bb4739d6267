package pgstore

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// cut makes one kind of statement fail before it is sent, as if it was not answered, until back is called. args returns the arguments of the
// newest one.
func cut(s *Store, statement *string) (args func() []any, back func()) {
	var kept atomic.Pointer[[]any]
	meddle(s, func(sent string, args []any) error {
		if sent != *statement {
			return nil
		}
		kept.Store(&args)
		return errCut
	})
	return func() []any { return *kept.Load() }, func() { meddle(s, func(string, []any) error { return nil }) }
}

// late sends the server a statement that was cut off.
func late(t *testing.T, s *Store, statement string, args []any) {
	t.Helper()
	if err := s.run(t.Context(), statement, args, func() {}, func(func(...any) error) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// knows returns what the store knows of a claim.
func knows(s *Store, id store.ID) (m localClaim, known bool) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	if m := s.claims.of[id]; m != nil {
		return *m, true
	}
	return localClaim{}, false
}

// A claim that has expired is being removed by a statement that may execute at any moment. A caller that asks for it now gets ErrLost,
// whatever its row and its session say.
func TestAnEntryBeingRemovedIsLost(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	kept(t, s, "other") // keeps the session alive
	c := mutex("held")
	c.TTL = time.Minute
	h := mustHold(t, s, c)
	h.TTL = c.TTL
	mustRenew(t, s, h)
	mustHold(t, second(t, s), mutex("waited for"))
	waits := mutex("waited for")
	mustAsk(t, s, waits)
	release := make(chan struct{})
	var held atomic.Int64
	meddle(s, func(statement string, _ []any) error {
		if statement == s.do.release {
			held.Add(1)
			<-release
		}
		return nil
	})
	s.claims.mu.Lock()
	s.claims.of[h.ID].ends, s.claims.of[waits.ID].ends = store.Now(), store.Now()
	s.claims.mu.Unlock()
	s.poke()
	until(t, "both entries are being removed", func() bool { return held.Load() == 2 })
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; !errors.Is(err, store.ErrLost) {
		t.Errorf("renewal: %v, want ErrLost", err)
	}
	if a, err := s.Ask(t.Context(), waits); !errors.Is(err, store.ErrLost) {
		t.Errorf("ask: got %+v, %v, want ErrLost", a, err)
	}
	close(release)
	until(t, "the hold is removed", func() bool { return len(state(t, s, "held").Entries) == 0 })
}

// A statement that moves a hold is not answered, the owner asks for the hold again, and then the statement executes. The owner finds the hold
// and keeps it alive where it is.
func TestAHoldThatMovesLateIsFollowed(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	c := mutex("n")
	h := mustHold(t, s, c)
	h.TTL = c.TTL
	args, _ := cut(s, &s.do.renewFast)
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err == nil {
		t.Fatal("an unanswered renewal got an answer")
	}
	move := args()
	_, back := cut(s, &s.do.renew) // the statement that moves the hold when it is asked for
	if _, err := s.Ask(t.Context(), c); err == nil {
		t.Error("an ask was done beside an unfinished move")
	}
	back()
	mustAsk(t, s, c)
	late(t, s, s.do.renewFast, move)
	in := sessionOf(t, s, "n", h.ID)
	if m, _ := knows(s, h.ID); m.sess == nil || m.sess.ID != in || m.to != nil {
		t.Errorf("the hold is in session %v, but its owner has %+v", in, m)
	}
}

// A hold moves out of a session, the statement is not answered, and the session ends. The hold is lost, and must not stay where it moved to.
func TestAHoldMovedOutOfAnEndedSessionIsRemoved(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	kept(t, s, "other") // keeps the long session alive
	first, c := mustHold(t, s, mutex("n")), mutex("n")
	mustAsk(t, s, c)
	if err := s.Release(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	h := store.Hold{Name: "n", ID: c.ID, Token: mustAsk(t, s, c).Token, TTL: c.TTL}
	short := sessionOf(t, s, "n", c.ID)
	args, back := cut(s, &s.do.renewFast)
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err == nil {
		t.Fatal("an unanswered renewal got an answer")
	}
	back()
	late(t, s, s.do.renewFast, args())
	if in := sessionOf(t, s, "n", h.ID); in == short || in == (session.ID{}) {
		t.Fatalf("the hold did not move: it is in session %v", in)
	}
	sess := s.sessions.Own(short) // the store forgets the session when it learns of its end
	if err := (sessionTable{s}).End(t.Context(), short); err != nil {
		t.Fatal(err)
	}
	sess.Wait(t.Context(), sess.Renew())
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; !errors.Is(err, store.ErrLost) {
		t.Fatalf("renewal: %v, want ErrLost", err)
	}
	until(t, "the hold is removed", func() bool { return len(state(t, s, "n").Entries) == 0 })
}

// An owner that was not called would believe that it holds a broken hold for as long as its session goes on. So the break drops nothing before
// the call.
func TestABreakThatCannotCallTheHolderDropsNothing(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h, _ := kept(t, s, "n")
	other := second(t, s)
	other.db = &meddled{db: other.db}
	_, back := cut(other, &other.do.session.call)
	b := store.Break{Name: "n", ID: h.ID, Token: h.Token, Reason: "it hangs", Now: true}
	if err := other.BreakHold(t.Context(), b); err == nil || store.Definite(err) {
		t.Fatalf("a break with an unanswered call: %v", err)
	}
	if st := state(t, s, "n"); len(st.Entries) != 1 || st.Entries[0].Freed {
		t.Fatalf("the owner got no call, but there is %+v", st.Entries)
	}
	back()
	if err := other.BreakHold(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if st := state(t, s, "n"); len(st.Entries) != 1 || !st.Entries[0].Freed {
		t.Errorf("got entries %+v", st.Entries)
	}
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; !errors.Is(err, store.ErrLost) {
		t.Errorf("renewal: %v, want ErrLost", err)
	}
}

// A waiter behind the hold does not have to wait for its TTL.
func TestAnUnansweredReleaseIsMadeUpFor(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h := mustHold(t, s, mutex("n"))
	_, back := cut(s, &s.do.releaseFast)
	if err := s.Release(t.Context(), h); err == nil || store.Definite(err) {
		t.Fatalf("an unanswered release: %v", err)
	}
	back()
	until(t, "the entry is removed", func() bool { return len(state(t, s, "n").Entries) == 0 })
	until(t, "the store has forgotten the claim", func() bool { _, known := knows(s, h.ID); return !known })
}

// The hold blocks for as long as if the release had been answered: for its minimum hold, and for no lock delay. A claim that was never granted
// has none.
func TestADelayedReleaseKeepsItsTerms(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	waits := mutex("waits")
	waits.LockDelay = time.Hour
	other := second(t, s)
	ahead := mustHold(t, other, mutex("waits"))
	mustAsk(t, s, waits)
	if err := other.Release(t.Context(), ahead); err != nil { // the waiter is granted, and does not know it
		t.Fatal(err)
	}
	c := mutex("delays")
	c.LockDelay = time.Hour
	delays := mustHold(t, s, c)
	c = mutex("lasts")
	c.MinHold = time.Hour
	lasts := mustHold(t, s, c)
	for _, h := range []store.Hold{delays, lasts} {
		mustRenew(t, s, h)
	}
	meddle(s, func(statement string, _ []any) error {
		switch statement {
		case s.do.release, s.do.releaseFast, s.do.releaseNext, s.do.releaseAll:
			return errCut
		}
		return nil
	})
	for _, err := range append(s.ReleaseAll(t.Context(), []store.Hold{delays, lasts}), s.Release(t.Context(), store.Hold{Name: "waits", ID: waits.ID})) {
		if err == nil || store.Definite(err) {
			t.Fatalf("an unanswered release: %v", err)
		}
	}
	meddle(s, func(string, []any) error { return nil })
	for _, h := range []store.Hold{delays, lasts, {ID: waits.ID}} {
		until(t, "the store has forgotten the claim", func() bool { _, known := knows(s, h.ID); return !known })
	}
	mustHold(t, other, mutex("delays"))
	mustHold(t, other, mutex("waits"))
	if a := mustAsk(t, other, mutex("lasts")); a.Granted || a.Until < 30*time.Minute {
		t.Errorf("within the minimum hold: got %+v", a)
	}
}

// Its session goes on, so the hold would keep the name for as long as the process lives.
func TestADeniedReleaseIsMadeUpFor(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	one, _ := kept(t, s, "one")
	two, _ := kept(t, s, "two")
	three, _ := kept(t, s, "three")
	meddle(s, func(statement string, _ []any) error {
		switch statement {
		case s.do.release, s.do.releaseFast, s.do.releaseAll:
			return &pgconn.PgError{Code: "42501"}
		}
		return nil
	})
	for _, err := range append(s.ReleaseAll(t.Context(), []store.Hold{one, two}), s.Release(t.Context(), three)) {
		if !errors.Is(err, store.ErrDenied) {
			t.Fatalf("got %v, want ErrDenied", err)
		}
	}
	meddle(s, func(string, []any) error { return nil })
	for _, name := range []string{"one", "two", "three"} {
		until(t, name+" is removed", func() bool { return len(state(t, s, name).Entries) == 0 })
	}
}

// A session waits only a part of its TTL for the answer to a renewal, so that there is time for another one.
func TestAnUnansweredSessionRenewalIsRepeated(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h, _ := kept(t, s, "n")
	var sent atomic.Int64
	meddle(s, func(statement string, _ []any) error {
		if statement == s.do.session.renew && sent.Add(1) == 1 {
			return errCut
		}
		return nil
	})
	if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; err != nil || sent.Load() < 2 {
		t.Errorf("got %v after %d renewals of its session", err, sent.Load())
	}
}

// Another process adopts a hold that its process uses. It gets the hold only once the owner was called.
func TestAnAdoptionOfAHoldInUseIsReportedToItsOwner(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"repeated", "released"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := newShared(t)
			h, in := kept(t, s, "n")
			other := second(t, s)
			other.db = &meddled{db: other.db}
			_, back := cut(other, &other.do.session.call)
			adopted := h
			adopted.NewID = me.NewID()
			goes := store.Hold{Name: h.Name, ID: adopted.NewID, Token: h.Token}
			if r := other.Renew(t.Context(), []store.Hold{adopted})[0]; r.Err == nil || store.Definite(r.Err) {
				t.Fatalf("an adoption with an unanswered call: %+v", r)
			}
			if err := other.Release(t.Context(), goes); err == nil || store.Definite(err) {
				t.Fatalf("a release before the owner was called: %v, want indeterminate", err)
			}
			if now := sessionOf(t, s, "n", adopted.NewID); now != in {
				t.Fatalf("the hold is in session %v, was in %v", now, in)
			}
			back()
			if how == "repeated" {
				mustRenew(t, other, adopted)
			} else if err := other.Release(t.Context(), goes); err != nil {
				t.Fatal(err)
			}
			if err := s.Renew(t.Context(), []store.Hold{h})[0].Err; !errors.Is(err, store.ErrLost) {
				t.Errorf("renewal: %v, want ErrLost", err)
			}
		})
	}
}

// The owner's process hands the hold on, and gets no answer.
func TestAHoldThatMayHaveAnotherIDIsReadAgain(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h, _ := kept(t, s, "n")
	goes := h
	goes.NewID = store.Process{}.NewID()
	args, back := cut(s, &s.do.renew)
	if r := s.Renew(t.Context(), []store.Hold{goes})[0]; r.Err == nil {
		t.Fatalf("got %+v, want no answer", r)
	}
	back()
	for range 2 {
		mustRenew(t, s, h) // it has not happened yet
	}
	late(t, s, s.do.renew, args())
	if r := s.Renew(t.Context(), []store.Hold{h})[0]; !errors.Is(r.Err, store.ErrLost) {
		t.Errorf("got %+v, want ErrLost, as the hold has another id", r)
	}
}

// The server does not answer for the session within the time that the caller has.
func TestARenewalAnsweredTooLateDoesNotCount(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h, _ := kept(t, s, "n")
	if err := second(t, s).BreakHold(t.Context(), store.Break{Name: "n", ID: h.ID, Token: h.Token, Now: true}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	silent := make(chan struct{})
	defer close(silent)
	meddle(s, func(statement string, _ []any) error {
		if statement == s.do.session.renew {
			cancel()
			<-silent
		}
		return nil
	})
	if r := s.Renew(ctx, []store.Hold{h})[0]; r.Err == nil {
		t.Errorf("got %+v, want no answer, as the hold was broken", r)
	}
}

// A grant that only a notification has reported lasts as long as the queue position.
func TestAPositionLastsNoLongerThanItsSession(t *testing.T) {
	t.Parallel()
	now := store.Now()
	for lasts, less := range map[time.Duration]time.Duration{4 * time.Second: 6 * time.Second, 10 * time.Second: 0, time.Minute: 0} {
		from := placedFrom(&session.State{Renewed: now, Lasts: lasts}, &store.Claim{PositionTTL: 10 * time.Second})
		if now.Sub(from) != less {
			t.Errorf("10 s in a session of %v: counts from %v before, want %v", lasts, now.Sub(from), less)
		}
	}
}
