package session_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/testwait"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
var patience = testwait.Patience

// until waits for what must happen.
var until = testwait.Until

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
			t.Errorf("TTL %v: got %v, want %v", ttl, have, want)
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
		t.Fatalf("got %d sessions, want 2", n)
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
	until(t, "the session is renewed several times", func() bool {
		sess := present(t, s, 500*time.Millisecond)
		sess.Enter()
		defer sess.Leave()
		renewals.Store(0)
		until(t, "the session is renewed, or ended because this machine stalled", func() bool { return renewals.Load() > 6 || sess.Over() })
		return !sess.Over()
	})
	until(t, "the session has ended, as it keeps nothing", func() bool { return len(m.Sessions()) == 0 })
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
		t.Fatalf("the session counts from %v after its renewal was sent", st.Renewed.Sub(met))
	}
}

// One or two lost replies lose no session: each leaves time for another try.
func TestALostReplyLeavesTimeToRenewAgain(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		for _, trip := range []time.Duration{0, d / 100, d / 20, d} {
			left, tries := d-d/session.RenewPart, 0
			for wait := session.PatienceForTest(d, trip); left >= wait; tries++ {
				left -= wait + session.PauseForTest(d)
			}
			if tries < 2 {
				t.Errorf("only %d renewals fit into %v, each of %v, with a round trip of %v", tries, d, session.PatienceForTest(d, trip), trip)
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
	until(t, "the session is renewed after a renewal that hung", func() bool { return sess.State().Renewed > before })
	if renewals.Load() < 2 || sess.Over() {
		t.Fatalf("%d renewals, want at least 2; the session has ended: %v", renewals.Load(), sess.Over())
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
	until(t, "the session has ended", sess.Over)
	if left, known := s.Known(sess.ID); !known || left > 0 {
		t.Fatalf("known: %v, %v left; want it known to have ended", known, left)
	}
	if next := present(t, s, 100*time.Millisecond); next == sess {
		t.Fatal("the present session is the one that has ended")
	}
}

func TestASessionThatTheServerEndedHasEnded(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	s, _ := open(t, m)
	sess := present(t, s, time.Minute)
	m.Lapse(sess.ID)
	if st := sess.Wait(t.Context(), sess.Renew()); !st.Over {
		t.Fatalf("got %+v, want ended", st)
	}
}

func TestOnlyAFinalizedSessionHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // it is believed for a second
		m := recordtest.NewMemory(recordtest.Options{})
		s, _ := open(t, m)
		other, _ := open(t, m)
		lives, dead := present(t, other, time.Minute), present(t, other, 2*time.Minute)
		m.Lapse(dead.ID)
		if err := s.Ask(t.Context(), []session.ID{lives.ID, dead.ID}); err != nil {
			t.Fatal(err)
		}
		if left, known := s.Known(lives.ID); !known || left <= 0 {
			t.Fatalf("a living session: got %v left, known: %v", left, known)
		}
		if left, known := s.Known(dead.ID); !known || left > 0 {
			t.Fatalf("an ended session: got %v left, known: %v", left, known)
		}
	})
}

func TestAWatchReportsTheEndOnceItIsCertain(t *testing.T) {
	t.Parallel()
	m := recordtest.NewMemory(recordtest.Options{})
	s, _ := open(t, m)
	other, _ := open(t, m)
	sess := present(t, other, time.Minute)
	reported := make(chan time.Duration, 1)
	s.Watch(sess.ID, "key", func() {
		left, _ := s.Known(sess.ID)
		reported <- left
	})
	s.Watch(sess.ID, "another", func() { t.Error("the canceled watch notified") })
	s.Unwatch(sess.ID, "another")
	m.Lapse(sess.ID)
	select {
	case left := <-reported:
		if left > 0 {
			t.Fatalf("the watch notified with %v left", left)
		}
	case <-time.After(patience):
		t.Fatal("the watch did not notify")
	}
}

// A notification that comes during Close can cause a watch. Close waits for the running
// goroutines: a new one at that time sometimes panicked.
func TestASetThatIsClosedWatchesNothing(t *testing.T) {
	t.Parallel()
	s, _ := open(t, recordtest.NewMemory(recordtest.Options{}))
	s.Close(t.Context())
	s.Watch(session.NewID(), "key", func() { t.Error("the watch notified after Close") })
	if n := s.WatchedForTest(); n != 0 {
		t.Fatalf("%d sessions are watched, want none", n)
	}
}

func TestACallIsReportedByTheNextRenewal(t *testing.T) {
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
		t.Fatalf("got %+v, want one call", st)
	}
}

// A renewal that was sent before may be under way.
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
			t.Errorf("got %d renewals, want 2: the number of calls was read before the call", renewals)
		}
	})
}

// The next server may have forgotten writes, or bring some back. So nothing more goes into a session of the server before, and it
// ends once all known entries have left it.
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
			t.Fatalf("got %+v, want it not suspect: the server is the same", st)
		}
		m.Fork()()
		if st := sess.Wait(t.Context(), sess.Renew()); !st.Suspect || st.Over || !other.State().Suspect {
			t.Fatalf("got %+v and %+v, want both suspect, and neither ended", st, other.State())
		}
		next := present(t, s, ttl)
		if next == sess || next.State().Suspect || s.Begun(ttl) != next {
			t.Fatal("the present session is suspect, want a new one")
		}
		next.Enter()
		time.Sleep(6 * ttl)
		if sess.Over() || next.Over() {
			t.Fatal("a session that keeps something has ended")
		}
		sess.Leave()
		time.Sleep(3 * ttl)
		if left, known := s.Known(sess.ID); known && left > 0 || next.Over() {
			t.Fatalf("the session keeps nothing, but %v are left", left)
		}
	})
}

const clocklessTTL = time.Minute

// If a server refuses at once, as one that is down does, requests are sent with pauses.
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
			if ends.Add(1) > 1000 { // otherwise no time would pass in the bubble
				return recordtest.Answered
			}
			return recordtest.Lost
		})
		const ttl = 10 * time.Second
		present(t, s, ttl) // which keeps nothing
		time.Sleep(6 * ttl)
		if n := ends.Load(); n < 2 || n > 60 {
			t.Errorf("its end was sent %d times in %v, want about once a second", n, 6*ttl)
		}
	})
}
