package session_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
)

// entered is a session that keeps something, of a process with its own server.
func entered(t *testing.T, ttl time.Duration) (*recordtest.Memory, *session.Set, *recordtest.Client, *session.Session) {
	t.Helper()
	m := recordtest.NewMemory(recordtest.Options{})
	s, c := open(t, m)
	sess := present(t, s, ttl)
	sess.Enter()
	return m, s, c, sess
}

// stuck leaves every renewal of a session without an answer while other sessions are answered.
func stuck(c *recordtest.Client, sess *session.Session) {
	c.Fates(func(q recordtest.Request) recordtest.Fate {
		if q.Op == recordtest.OpRenew && q.Session == sess.ID {
			return recordtest.Hangs
		}
		return recordtest.Answered
	})
}

// If a session's renewals are not answered, and another session's are, its entries move to the other in time.
func TestASessionIsSuspectWhileItLastsIfItAloneCannotBeRenewed(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{time.Second, 3 * time.Second, 30 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			m, s, c, sess := entered(t, ttl)
			stuck(c, sess)
			for !sess.State().Suspect {
				if sess.Over() {
					t.Fatalf("TTL %v: the session ended before it was suspect", ttl)
				}
				time.Sleep(ttl / 1000)
			}
			st := sess.State()
			if left := st.Renewed.Add(st.Lasts).Sub(store.Now()); left < ttl/5 {
				t.Errorf("TTL %v: only %v are left to move its entries", ttl, left)
			}
			next := present(t, s, ttl)
			if st := next.State(); next == sess || st.Suspect || st.Over || s.Begun(ttl) != next {
				t.Fatalf("TTL %v: there is no session for the entries that must move: %+v", ttl, st)
			}
			next.Enter()
			sess.Leave()
			time.Sleep(4*ttl + 10*time.Second)
			if left, known := s.Known(sess.ID); known && left > 0 || next.Over() || next.State().Suspect {
				t.Fatalf("TTL %v: the session keeps nothing, but %v are left; the other: %+v", ttl, left, next.State())
			}
			if n := len(m.Sessions()); n != 1 {
				t.Errorf("TTL %v: got %d sessions, want the one that keeps something", ttl, n)
			}
		})
	}
}

// An outage of the server makes no session suspect: otherwise all holds would have to be written again after it.
func TestNoSessionIsSuspectBecauseTheServerIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 30 * time.Second
		m, s, c, sess := entered(t, ttl)
		for round := range 20 {
			for _, fate := range []recordtest.Fate{recordtest.Hangs, recordtest.Lost, recordtest.Unanswered} {
				c.Fates(func(recordtest.Request) recordtest.Fate { return fate })
				time.Sleep(ttl/4 + time.Duration(round)*ttl/100) // with the time before and after, less than its TTL
				c.Fates(nil)
				time.Sleep(ttl)
				if st := sess.State(); st.Suspect || st.Over || st.Failing || present(t, s, ttl) != sess {
					t.Fatalf("got %+v after an outage in which the fate of all requests is %d; want it not suspect", st, fate)
				}
			}
		}
		sess.Leave()
		time.Sleep(4 * ttl)
		if n := len(m.Sessions()); n != 0 {
			t.Errorf("%d sessions are left, but none keeps anything", n)
		}
	})
}

// One unanswered renewal proves little: a connection may have been cut.
func TestNoSessionIsSuspectAfterOneRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 30 * time.Second
		m, _, c, sess := entered(t, ttl)
		tries, failed := 0, false
		c.Fates(func(q recordtest.Request) recordtest.Fate {
			if q.Op == recordtest.OpRenew && q.Session == sess.ID {
				tries++
				if failed = !failed && rand.N(3) > 0; failed {
					return recordtest.Hangs
				}
			}
			return recordtest.Answered
		})
		for range 3000 {
			time.Sleep(rand.N(ttl))
			sess.Wait(t.Context(), sess.Renew()) // as what it keeps is
		}
		if st := sess.State(); st.Suspect || st.Over || tries < 3000 {
			t.Errorf("got %+v, although no two of %d renewals failed in a row; want it not suspect", st, tries)
		}
		if n := len(m.Sessions()); n > 2 {
			t.Errorf("%d sessions are left, want at most 2", n)
		}
	})
}

// A caller that needs the time for a move does not wait for a renewal that will not be answered.
func TestNoCallWaitsForASessionThatCannotBeRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, _, c, sess := entered(t, 30*time.Second)
		stuck(c, sess)
		for !sess.State().Failing {
			time.Sleep(time.Millisecond)
		}
		if sess.Fresh() != nil {
			t.Error("a new entry waits for the next renewal, although the last one failed")
		}
		for !sess.State().Suspect {
			time.Sleep(time.Millisecond)
		}
		began := store.Now()
		session.RenewAll(t.Context(), map[*session.Session]bool{sess: true})
		if waited := store.Now().Sub(began); waited > 0 {
			t.Errorf("the wait took %v, want none", waited)
		}
	})
}

// On a busy machine an answer takes longer than a sixth of a short TTL, and more sessions would make it busier.
func TestNoSessionIsSuspectThatLastsForLessThanASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, _, c, sess := entered(t, 999*time.Millisecond)
		stuck(c, sess)
		for !sess.Over() {
			if sess.State().Suspect || len(m.Sessions()) > 1 {
				t.Fatalf("got %+v and %d sessions, want one that is not suspect", sess.State(), len(m.Sessions()))
			}
			time.Sleep(time.Millisecond)
		}
	})
}
