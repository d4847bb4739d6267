package session_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
)

// clockless is two processes on a server without a clock, and a session of the first.
func clockless(t *testing.T) (owner, other *recordtest.Client, id session.ID) {
	t.Helper()
	m := recordtest.NewMemory(recordtest.Options{Life: session.ByOwnClock, Blind: true})
	owner, other, id = m.Client(), m.Client(), session.NewID()
	if _, err := owner.Begin(t.Context(), id, clocklessTTL); err != nil {
		t.Fatal(err)
	}
	return owner, other, id
}

func leftIs(t *testing.T, c *recordtest.Client, id session.ID, want time.Duration) {
	t.Helper()
	left, err := c.Left(t.Context(), []session.ID{id})
	if err != nil || left[0] != want {
		t.Fatalf("Left: got %v, %v, want %v", left, err, want)
	}
}

func TestASessionWithoutAClockEndsWhenItWasSeenUnchangedForItsTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		owner, other, id := clockless(t)
		time.Sleep(time.Hour)
		leftIs(t, other, id, clocklessTTL) // it is seen for the first time
		time.Sleep(clocklessTTL - time.Second)
		leftIs(t, other, id, time.Second)
		if _, err := owner.Renew(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		leftIs(t, other, id, clocklessTTL)
		time.Sleep(clocklessTTL)
		leftIs(t, other, id, 0)
		if _, err := owner.Renew(t.Context(), id); !errors.Is(err, store.ErrLost) {
			t.Fatalf("got %v, want ErrLost: another process ended the session", err)
		}
	})
}

func TestASessionThatIsRenewedBeforeItIsClosedGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		owner, other, id := clockless(t)
		leftIs(t, other, id, clocklessTTL)
		time.Sleep(clocklessTTL)
		renewed := false
		other.Fates(func(q recordtest.Request) recordtest.Fate {
			if q.Op == recordtest.OpCloseSession {
				_, err := owner.Renew(t.Context(), id)
				renewed = err == nil
			}
			return recordtest.Answered
		})
		leftIs(t, other, id, clocklessTTL)
		if !renewed {
			t.Fatal("the session was not renewed just before its end")
		}
		if _, err := owner.Renew(t.Context(), id); err != nil {
			t.Fatalf("got %v, want nil: the session was renewed in time", err)
		}
	})
}

func TestNothingIsKeptOfASessionThatHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, other, id := clockless(t)
		var first, second session.Unchanged
		left := func(u *session.Unchanged, kept int) {
			t.Helper()
			if _, err := u.Left(t.Context(), other, []session.ID{id}); err != nil || u.SeenForTest() != kept {
				t.Errorf("%v; the state of %d sessions is kept, want %d", err, u.SeenForTest(), kept)
			}
		}
		left(&first, 1)
		left(&second, 1)
		time.Sleep(clocklessTTL)
		left(&first, 0)  // it closes it
		left(&second, 0) // it finds it closed
	})
}

// The read takes long, and the session is renewed meanwhile.
func TestASessionIsSeenUnchangedFromTheAnswerOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		owner, other, id := clockless(t)
		other.Fates(func(q recordtest.Request) recordtest.Fate {
			if q.Op == recordtest.OpReadSession {
				time.Sleep(clocklessTTL / 2)
				if _, err := owner.Renew(t.Context(), id); err != nil {
					t.Error(err)
				}
			}
			return recordtest.Answered
		})
		leftIs(t, other, id, clocklessTTL)
		other.Fates(nil)
		time.Sleep(clocklessTTL - time.Second)
		leftIs(t, other, id, time.Second)
	})
}

func TestAnUnansweredReadEndsNoSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		owner, other, id := clockless(t)
		leftIs(t, other, id, clocklessTTL)
		time.Sleep(clocklessTTL)
		for _, op := range []recordtest.Op{recordtest.OpReadSession, recordtest.OpCloseSession} {
			other.Fates(func(q recordtest.Request) recordtest.Fate {
				if q.Op == op {
					return recordtest.Lost
				}
				return recordtest.Answered
			})
			if left, err := other.Left(t.Context(), []session.ID{id}); !errors.Is(err, recordtest.ErrNoAnswer) {
				t.Errorf("got %v, %v, want no answer to the %s", left, err, op)
			}
		}
		if _, err := owner.Renew(t.Context(), id); err != nil {
			t.Error(err)
		}
	})
}

// A session may be ended early, by its owner or by an operator.
func TestASessionOfAnotherIsAskedForAgainSoon(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	s, _ := open(t, m)
	other, _ := open(t, m)
	sess := present(t, other, time.Hour)
	if err := s.Ask(t.Context(), []session.ID{sess.ID}); err != nil {
		t.Fatal(err)
	}
	until(t, "the state of the session is forgotten", func() bool {
		_, known := s.Known(sess.ID)
		return !known
	})
}

func TestAnErrorOfTheReaderIsNoEnd(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	s, c := open(t, m)
	c.Cut()
	id := session.NewID()
	if err := s.Ask(t.Context(), []session.ID{id}); !errors.Is(err, recordtest.ErrNoAnswer) {
		t.Fatalf("got %v, want no answer", err)
	}
	if _, known := s.Known(id); known {
		t.Fatal("the state is known, although no answer came")
	}
}

// If another answer has reported a session's state, the store need not read it. Such a report ends no session.
func TestASideObservationOfASessionDoesNotEndIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // it is believed for a second
		s, _ := open(t, recordtest.NewMemory(recordtest.Options{}))
		lives, expired := session.NewID(), session.NewID()
		s.Saw(lives, time.Hour)
		s.Saw(expired, -time.Hour)
		if left, known := s.Known(lives); !known || left <= 0 {
			t.Errorf("a session that was seen alive: got %v left, known: %v", left, known)
		}
		if left, known := s.Known(expired); known {
			t.Errorf("an expired session: got %v left, although no process made its end final", left)
		}
	})
}

// An endedBefore is a server that reports how long ago each session has ended.
type endedBefore struct {
	session.Backend
	by time.Duration
}

func (e endedBefore) Left(_ context.Context, ids []session.ID) ([]time.Duration, error) {
	return slices.Repeat([]time.Duration{-e.by}, len(ids)), nil
}

// A lock delay counts from the end of a session, not from when a process finds that end.
func TestItIsKnownForHowLongASessionHasEnded(t *testing.T) {
	t.Parallel()
	s := session.NewSet(endedBefore{recordtest.NewMemory(recordtest.Options{}).Client(), time.Hour}, func() {})
	defer s.Close(t.Context())
	id := session.NewID()
	if err := s.Ask(t.Context(), []session.ID{id}); err != nil {
		t.Fatal(err)
	}
	if left, known := s.Known(id); !known || left > -time.Hour || left < -2*time.Hour {
		t.Errorf("a session that ended an hour ago: got %v left, known: %v", left, known)
	}
}

// A process that has seen a session change knows that it lives. One that has seen it unchanged for its TTL must still close it.
func TestASessionIsInDoubtUntilItWasSeenToChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		owner, other, id := clockless(t)
		set := session.NewSet(other, func() {})
		doubt := func(want time.Duration) {
			t.Helper()
			if d := set.Doubt(id); d != want {
				t.Fatalf("the doubt lasts for %v, want %v", d, want)
			}
		}
		doubt(0) // no process has read it
		leftIs(t, other, id, clocklessTTL)
		doubt(clocklessTTL)
		time.Sleep(time.Second)
		doubt(clocklessTTL - time.Second)
		time.Sleep(clocklessTTL - time.Second)
		if d := set.Doubt(id); d <= 0 || d > time.Second {
			t.Fatalf("the doubt lasts for %v, want one more read", d)
		}
		if _, err := owner.Renew(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		leftIs(t, other, id, clocklessTTL)
		doubt(0)
		time.Sleep(time.Second)
		leftIs(t, other, id, clocklessTTL-time.Second)
		doubt(0)
		// A change since a long time ago does not show that the session lives.
		time.Sleep(10 * clocklessTTL)
		if _, err := owner.Renew(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		leftIs(t, other, id, clocklessTTL)
		doubt(clocklessTTL)
	})
}
