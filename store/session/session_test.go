package session_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds the waiting for what must happen.
var patience = func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("HOLDFAST_TEST_PATIENCE")); err == nil {
		return d
	}
	return 30 * time.Second
}()

func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}

// open is the sessions of a process on a server.
func open(t *testing.T, m *recordtest.Memory) (*session.Set, *recordtest.Client) {
	t.Helper()
	c := m.Client()
	s := session.NewSet(c, func() {})
	t.Cleanup(func() {
		c.Fates(nil)
		s.Close(context.WithoutCancel(t.Context()))
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s, c
}

func present(t *testing.T, s *session.Set, ttl time.Duration) *session.Session {
	t.Helper()
	sess, err := s.Present(t.Context(), ttl)
	if err != nil {
		t.Fatal(err)
	}
	return sess
}

func TestATTLIsRoundedUp(t *testing.T) {
	t.Parallel()
	traits := session.Traits{MinTTL: 2 * time.Second, MaxTTL: time.Hour, Tick: time.Second}
	for ttl, want := range map[time.Duration]time.Duration{
		1: 2 * time.Second, 2 * time.Second: 2 * time.Second, 2*time.Second + 1: 3 * time.Second, time.Hour: time.Hour,
	} {
		if have := traits.Ticks(ttl); have != want {
			t.Errorf("%v is %v, want %v", ttl, have, want)
		}
	}
}

func TestAProcessHasOneSessionForEachTTL(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	s, _ := open(t, m)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { present(t, s, time.Duration(1+i%2)*time.Minute) })
	}
	all.Wait()
	if n := len(m.Sessions()); n != 2 {
		t.Fatalf("%d sessions, want 2", n)
	}
}

func TestASessionIsRenewedAsLongAsItKeepsSomething(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	s, c := open(t, m)
	var renewals atomic.Int32
	c.Fates(func(q recordtest.Request) recordtest.Fate {
		if q.Op == recordtest.OpRenew {
			renewals.Add(1)
		}
		return recordtest.Answered
	})
	until(t, "one is renewed several times", func() bool {
		sess := present(t, s, 500*time.Millisecond)
		sess.Enter()
		defer sess.Leave()
		renewals.Store(0)
		until(t, "it is renewed, or this machine stalled", func() bool { return renewals.Load() > 6 || sess.Over() })
		return !sess.Over()
	})
	until(t, "it has ended, as it keeps nothing", func() bool { return len(m.Sessions()) == 0 })
}

func TestASessionCountsFromTheSendingOfItsRenewal(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	s, c := open(t, m)
	sess := present(t, s, time.Minute)
	var met store.Instant
	c.Fates(func(q recordtest.Request) recordtest.Fate {
		if q.Op == recordtest.OpRenew {
			met = store.Now()
			time.Sleep(20 * time.Millisecond) // on its way
		}
		return recordtest.Answered
	})
	if st := sess.Wait(t.Context(), sess.Renew()); st.Renewed > met {
		t.Fatalf("it counts from %v after it was sent", st.Renewed.Sub(met))
	}
}

// A lost reply, or two, cost no session: each leaves time for another try.
func TestALostReplyLeavesTimeToRenewAgain(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		for _, trip := range []time.Duration{0, d / 100, d / 20, d} {
			left, tries := d-d/session.RenewPart, 0
			for wait := session.PatienceForTest(d, trip); left >= wait; tries++ {
				left -= wait + session.PauseForTest(d)
			}
			if tries < 2 {
				t.Errorf("%d renewals fit into %v, each of %v, at %v for each", tries, d, session.PatienceForTest(d, trip), trip)
			}
		}
	}
}

func TestASessionWhoseRenewalsHangIsRenewedAgainInTime(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	s, c := open(t, m)
	sess := present(t, s, 12*time.Second)
	sess.Enter()
	var renewals atomic.Int32
	c.Fates(func(q recordtest.Request) recordtest.Fate {
		if q.Op == recordtest.OpRenew && renewals.Add(1) == 1 {
			return recordtest.Hangs
		}
		return recordtest.Answered
	})
	before := sess.State().Renewed
	until(t, "it was renewed after one that hung", func() bool { return sess.State().Renewed > before })
	if renewals.Load() < 2 || sess.Over() {
		t.Fatalf("%d renewals, over: %v", renewals.Load(), sess.Over())
	}
}

func TestASessionEndsByTheClockOfItsOwner(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	s, c := open(t, m)
	sess := present(t, s, 100*time.Millisecond)
	sess.Enter()
	c.Fates(func(q recordtest.Request) recordtest.Fate {
		if q.Op == recordtest.OpRenew || q.Op == recordtest.OpEnd {
			return recordtest.Hangs
		}
		return recordtest.Answered
	})
	until(t, "it is over", sess.Over)
	if left, known := s.Known(sess.ID); !known || left > 0 {
		t.Fatalf("known %v, left %v: its claims are lost", known, left)
	}
	if next := present(t, s, 100*time.Millisecond); next == sess {
		t.Fatal("new claims go into a session that is over")
	}
}

func TestASessionThatTheServerEndedIsOver(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	s, _ := open(t, m)
	sess := present(t, s, time.Minute)
	m.Lapse(sess.ID)
	if st := sess.Wait(t.Context(), sess.Renew()); !st.Over {
		t.Fatalf("%+v, want over", st)
	}
}

func TestOnlyASessionThatWasMadeOverIsOver(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	s, _ := open(t, m)
	other, _ := open(t, m)
	lives, dead := present(t, other, time.Minute), present(t, other, 2*time.Minute)
	m.Lapse(dead.ID)
	if err := s.Ask(t.Context(), []session.ID{lives.ID, dead.ID}); err != nil {
		t.Fatal(err)
	}
	if left, known := s.Known(lives.ID); !known || left <= 0 {
		t.Fatalf("one that lives: %v, %v", left, known)
	}
	if left, known := s.Known(dead.ID); !known || left > 0 {
		t.Fatalf("one that has ended: %v, %v", left, known)
	}
}

func TestAWatchTellsOfTheEndOnceItIsSure(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	s, _ := open(t, m)
	other, _ := open(t, m)
	sess := present(t, other, time.Minute)
	told := make(chan time.Duration, 1)
	s.Watch(sess.ID, "key", func() {
		left, _ := s.Known(sess.ID)
		told <- left
	})
	s.Watch(sess.ID, "another", func() { t.Error("told after it was taken back") })
	s.Unwatch(sess.ID, "another")
	m.Lapse(sess.ID)
	select {
	case left := <-told:
		if left > 0 {
			t.Fatalf("told with %v left", left)
		}
	case <-time.After(patience):
		t.Fatal("not told")
	}
}

// A notification that comes during Close may ask for a watch. Close waits for the goroutines
// that there are: one more that began then was a panic now and then.
func TestASetThatIsClosedWatchesNothing(t *testing.T) {
	t.Parallel()
	s, _ := open(t, recordtest.NewMemory(recordtest.Options{}))
	s.Close(t.Context())
	s.Watch(session.NewID(), "key", func() { t.Error("told after Close") })
	if n := s.WatchedForTest(); n != 0 {
		t.Fatalf("%d sessions are watched", n)
	}
}

func TestACallIsToldByTheNextRenewal(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	s, _ := open(t, m)
	other, _ := open(t, m)
	sess := present(t, other, time.Minute)
	if err := s.Call(t.Context(), sess.ID); err != nil {
		t.Fatal(err)
	}
	session.RenewAll(t.Context(), map[*session.Session]bool{sess: true})
	if st := sess.State(); st.Calls != 1 {
		t.Fatalf("%+v, want one call", st)
	}
}

// A renewal may be under way that was sent before.
func TestACallOfAnOwnSessionIsKnownOnceItIsAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		s, c := open(t, m)
		sess := present(t, s, time.Minute)
		renewals := 0
		c.Fates(func(q recordtest.Request) recordtest.Fate {
			if q.Op == recordtest.OpRenew {
				renewals++
				time.Sleep(time.Second)
			}
			return recordtest.Answered
		})
		sess.Renew()
		if err := s.Call(t.Context(), sess.ID); err != nil {
			t.Fatal(err)
		}
		if renewals < 2 {
			t.Errorf("%d renewals: how often it was called was asked before it was", renewals)
		}
	})
}

// What the server that follows has forgotten, or brings back, nobody knows: so nothing more goes into a session of the one before, and it
// ends once all that is known to be in it has left.
func TestASessionIsSuspectOnceItsServerWasReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		m := recordtest.NewMemory(recordtest.Options{})
		s, _ := open(t, m)
		sess, other := present(t, s, ttl), present(t, s, time.Hour)
		sess.Enter()
		time.Sleep(ttl)
		if st := sess.State(); st.Suspect || present(t, s, ttl) != sess {
			t.Fatalf("%+v, on a server that stays", st)
		}
		m.Fork()()
		if st := sess.Wait(t.Context(), sess.Renew()); !st.Suspect || st.Over || !other.State().Suspect {
			t.Fatalf("%+v and %+v, want both suspect, and not over", st, other.State())
		}
		next := present(t, s, ttl)
		if next == sess || next.State().Suspect || s.Begun(ttl) != next {
			t.Fatal("something new goes into a session that is suspect")
		}
		next.Enter()
		time.Sleep(6 * ttl)
		if sess.Over() || next.Over() {
			t.Fatal("a session that keeps something has ended")
		}
		sess.Leave()
		time.Sleep(3 * ttl)
		if left, known := s.Known(sess.ID); known && left > 0 || next.Over() {
			t.Fatalf("it has %v left, though it keeps nothing", left)
		}
	})
}

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

const clocklessTTL = time.Minute

func leftIs(t *testing.T, c *recordtest.Client, id session.ID, want time.Duration) {
	t.Helper()
	left, err := c.Left(t.Context(), []session.ID{id})
	if err != nil || left[0] != want {
		t.Fatalf("Left: %v, %v, want %v", left, err, want)
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
			t.Fatalf("%v, want lost: for another it has ended", err)
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
			t.Fatal("it was not renewed just before it was to be closed")
		}
		if _, err := owner.Renew(t.Context(), id); err != nil {
			t.Fatalf("%v: it was renewed in time", err)
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
				t.Errorf("%v; something is kept of %d sessions, want %d", err, u.SeenForTest(), kept)
			}
		}
		left(&first, 1)
		left(&second, 1)
		time.Sleep(clocklessTTL)
		left(&first, 0)  // it closes it
		left(&second, 0) // it finds it closed
	})
}

// The question takes long, and the session is renewed meanwhile.
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

func TestAReaderThatIsNotAnsweredEndsNoSession(t *testing.T) {
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
				t.Errorf("%v, %v, want no answer to the %s", left, err, op)
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
	until(t, "it is not known any more whether it lives", func() bool {
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
		t.Fatalf("%v, want no answer", err)
	}
	if _, known := s.Known(id); known {
		t.Fatal("it is known what nobody has answered")
	}
}

// Where a server refuses at once, as one that is down, it is not asked without a pause.
func TestASessionThatCannotBeEndedIsEndedAgainAfterAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		s, c := open(t, m)
		var ends atomic.Int32
		c.Fates(func(q recordtest.Request) recordtest.Fate {
			if q.Op != recordtest.OpEnd {
				return recordtest.Answered
			}
			if ends.Add(1) > 1000 { // else no time would ever pass here
				return recordtest.Answered
			}
			return recordtest.Lost
		})
		const ttl = 10 * time.Second
		present(t, s, ttl) // which keeps nothing
		time.Sleep(6 * ttl)
		if n := ends.Load(); n < 2 || n > 60 {
			t.Errorf("it was sent %d times in %v that it is to end, want one in a second", n, 6*ttl)
		}
	})
}

// What a store was told of a session beside something else spares the question, and ends nothing.
func TestWhatIsSeenOfASessionDoesNotEndIt(t *testing.T) {
	t.Parallel()
	s, _ := open(t, recordtest.NewMemory(recordtest.Options{}))
	lives, expired := session.NewID(), session.NewID()
	s.Saw(lives, time.Hour)
	s.Saw(expired, -time.Hour)
	if left, known := s.Known(lives); !known || left <= 0 {
		t.Errorf("of one that was seen alive: %v, %v", left, known)
	}
	if left, known := s.Known(expired); known {
		t.Errorf("of one that had expired: %v, though nobody has made that final", left)
	}
}

// An endedBefore is a server that says of each session for how long it has ended.
type endedBefore struct {
	session.Backend
	by time.Duration
}

func (e endedBefore) Left(_ context.Context, ids []session.ID) ([]time.Duration, error) {
	return slices.Repeat([]time.Duration{-e.by}, len(ids)), nil
}

// A lock delay counts from the end of a session, and not from when somebody finds that.
func TestItIsKnownForHowLongASessionHasEnded(t *testing.T) {
	t.Parallel()
	s := session.NewSet(endedBefore{recordtest.NewMemory(recordtest.Options{}).Client(), time.Hour}, func() {})
	defer s.Close(t.Context())
	id := session.NewID()
	if err := s.Ask(t.Context(), []session.ID{id}); err != nil {
		t.Fatal(err)
	}
	if left, known := s.Known(id); !known || left > -time.Hour || left < -2*time.Hour {
		t.Errorf("of a session that ended an hour ago: %v, %v", left, known)
	}
}
