package pgstore

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/session"
)

// replaced makes the server of a store of newShared report another identity, and has the store learn of it.
func replaced(t *testing.T, s *Store) {
	t.Helper()
	s.db.(*meddled).server.Add(1)
	heard(t, s)
}

// heard makes a store renew its sessions.
func heard(t *testing.T, s *Store) {
	t.Helper()
	for _, id := range s.sessions.IDs() {
		if sess := s.sessions.Own(id); sess != nil {
			sess.Wait(t.Context(), sess.Renew())
		}
	}
}

// Each hold is written once, all of them by one statement, and from then on everything is as before.
func TestEachHoldIsWrittenOnceWhenItsServerWasReplaced(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	a, in := kept(t, s, "a")
	b, _ := kept(t, s, "b")
	replaced(t, s)
	var wrote atomic.Int64
	meddle(s, func(statement string, _ []any) error {
		if statement == s.do.renewFast || statement == s.do.renew {
			wrote.Add(1)
		}
		return nil
	})
	for range 3 {
		for _, r := range s.Renew(t.Context(), []store.Hold{a, b}) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	if n := wrote.Load(); n != 1 {
		t.Errorf("got %d statements that renewed the holds, want one", n)
	}
	if now := sessionOf(t, s, "a", a.ID); now == in || now == (session.ID{}) || now != sessionOf(t, s, "b", b.ID) {
		t.Errorf("the hold is in session %v, was in %v", now, in)
	}
}

// The hold was once renewed by hand for longer than its TTL is now. Its lease must not end earlier for that.
func TestAHoldRenewedForLongerSurvivesAServerChange(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h, _ := kept(t, s, "n")
	long := h
	long.TTL = time.Hour
	mustRenew(t, s, long)
	replaced(t, s)
	mustRenew(t, s, h)
	heard(t, s)
	mustRenew(t, s, h)
}

// A hold that has no other session to move into stays where it is, if it is there.
func TestAHoldIsKeptWithoutASessionOnTheNewServer(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	h, in := kept(t, s, "n")
	gone, _ := kept(t, s, "gone")
	run(t, poolOf(s), "DELETE FROM "+tableOf(s)+" WHERE name = 'gone'")
	_, back := cut(s, &s.do.session.begin)
	replaced(t, s)
	all := s.Renew(t.Context(), []store.Hold{h, gone})
	if all[0].Err != nil || !errors.Is(all[1].Err, store.ErrLost) {
		t.Errorf("got %+v, want ErrLost for the deleted row", all)
	}
	if now := sessionOf(t, s, "n", h.ID); now != in {
		t.Errorf("the hold is in session %v, was in %v", now, in)
	}
	back()
	mustRenew(t, s, h)
	if now := sessionOf(t, s, "n", h.ID); now == in {
		t.Error("the hold stays in a suspect session")
	}
}

// A statement that takes a hold out of a session is not answered, and the server is replaced once more. Wherever the hold is, it is kept.
func TestAHoldIsKeptIfItsServerIsReplacedDuringAMove(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{false, true} {
		s := newShared(t)
		h, _ := kept(t, s, "n")
		replaced(t, s)
		args, back := cut(s, &s.do.renewFast)
		if r := s.Renew(t.Context(), []store.Hold{h})[0]; r.Err == nil || store.Definite(r.Err) {
			t.Fatalf("got %+v, want an indeterminate error", r)
		}
		between := args()
		back()
		if done {
			late(t, s, s.do.renewFast, between)
		}
		replaced(t, s)
		mustRenew(t, s, h)
		in := sessionOf(t, s, "n", h.ID)
		late(t, s, s.do.renewFast, between)
		if now := sessionOf(t, s, "n", h.ID); now != in || anySuspect(s.sessions.Own(in)) {
			t.Errorf("the hold is in session %v, want %v", now, in)
		}
		mustRenew(t, s, h)
	}
}

// suspectWaiter returns a claim that waits behind a hold of another process, in a session whose server was replaced.
func suspectWaiter(t *testing.T) (s, other *Store, h store.Hold, w store.Claim, in session.ID) {
	t.Helper()
	s = newShared(t)
	other = second(t, s)
	h, _ = kept(t, other, "n")
	w = mutex("n")
	mustAsk(t, s, w)
	in = sessionOf(t, s, "n", w.ID)
	replaced(t, s)
	return s, other, h, w, in
}

// Only an ask takes the position out of the session, so a poll must not replace the ask.
func TestAPollOfAPositionInASuspectSessionIsNotAsGoodAsAnAsk(t *testing.T) {
	t.Parallel()
	s, _, _, w, in := suspectWaiter(t)
	if a, err := s.Poll(t.Context(), w); err != nil || a.Granted || a.From != 0 {
		t.Fatalf("got %+v, %v", a, err)
	}
	if a := mustAsk(t, s, w); a.Granted || a.From == 0 {
		t.Fatalf("%+v", a)
	}
	if now := sessionOf(t, s, "n", w.ID); now == in || now == (session.ID{}) {
		t.Errorf("the position is in session %v, was in %v", now, in)
	}
	if a, err := s.Poll(t.Context(), w); err != nil || a.Granted || a.From == 0 {
		t.Errorf("got %+v, %v", a, err)
	}
}

// Whatever becomes of the statement, and whenever it executes: the claim is granted next, and its hold can be renewed.
func TestAPositionThatLeavesASuspectSessionLateIsFollowed(t *testing.T) {
	t.Parallel()
	s, other, h, w, _ := suspectWaiter(t)
	args, back := cut(s, &s.do.askMove)
	if a, err := s.Ask(t.Context(), w); err == nil || store.Definite(err) {
		t.Fatalf("got %+v, %v, want an indeterminate error", a, err)
	}
	back()
	late(t, s, s.do.askMove, args())
	if err := other.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	e := state(t, other, "n").Entries[0]
	s.heard(&store.Notification{Name: "n", ID: w.ID, Token: e.Token, N: 1})
	granted := store.Hold{Name: "n", ID: w.ID, Token: e.Token, TTL: w.TTL}
	mustRenew(t, s, granted)
	mustRenew(t, s, granted)
	in := sessionOf(t, s, "n", w.ID)
	late(t, s, s.do.askMove, args())
	if now := sessionOf(t, s, "n", w.ID); now != in {
		t.Errorf("the position is in session %v, want %v", now, in)
	}
}

// The same holds for a repeated ask when the server is replaced once more.
func TestAPositionIsKeptIfItsServerIsReplacedDuringAMove(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{false, true} {
		s, other, h, w, _ := suspectWaiter(t)
		args, back := cut(s, &s.do.askMove)
		if a, err := s.Ask(t.Context(), w); err == nil || store.Definite(err) {
			t.Fatalf("got %+v, %v, want an indeterminate error", a, err)
		}
		between := args()
		back()
		if done {
			late(t, s, s.do.askMove, between)
		}
		replaced(t, s)
		if a := mustAsk(t, s, w); a.Granted || a.From == 0 {
			t.Fatalf("%+v", a)
		}
		in := sessionOf(t, s, "n", w.ID)
		late(t, s, s.do.askMove, between)
		if now := sessionOf(t, s, "n", w.ID); now != in || anySuspect(s.sessions.Own(in)) {
			t.Errorf("the position is in session %v, want %v", now, in)
		}
		if err := other.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if a := mustAsk(t, s, w); !a.Granted {
			t.Errorf("%+v", a)
		}
	}
}

// Until the move is answered, the position ends with the earlier of the two sessions. That is no earlier than its owner was promised.
func TestAPositionDoesNotMoveIntoASessionThatEndsBeforeIt(t *testing.T) {
	t.Parallel()
	s, _, _, w, in := suspectWaiter(t)
	if _, err := s.sessions.Present(t.Context(), w.PositionTTL); err != nil {
		t.Fatal(err)
	}
	s.claims.mu.Lock()
	s.claims.of[w.ID].until = store.Now().Add(w.PositionTTL + time.Second) // as if it had been renewed since
	s.claims.mu.Unlock()
	_, back := cut(s, &s.do.session.renew)
	if a, err := s.Ask(t.Context(), w); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %+v, %v, want ErrUnavailable", a, err)
	}
	if now := sessionOf(t, s, "n", w.ID); now != in {
		t.Errorf("the position moved into session %v, which ends before it", now)
	}
	back()
}

// A session that keeps only entries that are gone must end, and with it the entries in it that no process knows.
func TestAPositionThatIsGoneKeepsNoSession(t *testing.T) {
	t.Parallel()
	s, _, _, w, _ := suspectWaiter(t)
	run(t, poolOf(s), "DELETE FROM "+tableOf(s))
	if a, err := s.Ask(t.Context(), w); !errors.Is(err, store.ErrLost) {
		t.Fatalf("got %+v, %v, want ErrLost", a, err)
	}
	if m, known := knows(s, w.ID); !known || m.sess != nil {
		t.Errorf("got known: %v, and in a session: %v", known, m.sess)
	}
	if a, err := s.Ask(t.Context(), w); !errors.Is(err, store.ErrLost) {
		t.Errorf("second ask: got %+v, %v, want ErrLost for good", a, err)
	}
}

// The store does not know whether two moves were done: the first one was. The next renewal finds the hold where that has put it.
func TestAHoldIsFoundAfterTwoUnansweredMoves(t *testing.T) {
	t.Parallel()
	for _, second := range []bool{false, true} {
		s := newShared(t)
		h, _ := kept(t, s, "n")
		var sent, args = "", []any(nil)
		meddle(s, func(statement string, with []any) error {
			if statement == s.do.renewFast || statement == s.do.renew {
				sent, args = statement, with
				return errCut
			}
			return nil
		})
		for _, done := range []bool{true, second} {
			replaced(t, s)
			if r := s.Renew(t.Context(), []store.Hold{h})[0]; r.Err == nil || store.Definite(r.Err) {
				t.Fatalf("got %+v, want an indeterminate error", r)
			}
			if done {
				of := tableOn(t, poolOf(s), &Options{Schema: s.schema})
				late(t, of, sent, args)
				of.Close()
			}
		}
		meddle(s, func(string, []any) error { return nil })
		replaced(t, s)
		mustRenew(t, s, h)
		if in := sessionOf(t, s, "n", h.ID); anySuspect(s.sessions.Own(in)) {
			t.Errorf("the hold is still in session %v", in)
		}
		mustRenew(t, s, h)
	}
}

// The same holds for a position.
func TestAPositionIsFoundAfterTwoUnansweredMoves(t *testing.T) {
	t.Parallel()
	s, other, h, w, _ := suspectWaiter(t)
	for _, done := range []bool{true, false} {
		args, back := cut(s, &s.do.askMove)
		if a, err := s.Ask(t.Context(), w); err == nil || store.Definite(err) {
			t.Fatalf("got %+v, %v, want an indeterminate error", a, err)
		}
		between := args()
		back()
		if done {
			late(t, s, s.do.askMove, between)
		}
		replaced(t, s)
	}
	if a := mustAsk(t, s, w); a.Granted || a.From == 0 {
		t.Fatalf("%+v", a)
	}
	if in := sessionOf(t, s, "n", w.ID); anySuspect(s.sessions.Own(in)) {
		t.Errorf("the position is still in session %v", in)
	}
	if err := other.Release(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if a := mustAsk(t, s, w); !a.Granted {
		t.Errorf("%+v", a)
	}
}
