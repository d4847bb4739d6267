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

// entered is a session that keeps something, of a process on a server of its own.
func entered(t *testing.T, ttl time.Duration) (*recordtest.Memory, *session.Set, *recordtest.Client, *session.Session) {
	t.Helper()
	m := recordtest.NewMemory(recordtest.Options{})
	s, c := open(t, m)
	sess := present(t, s, ttl)
	sess.Enter()
	return m, s, c, sess
}

// stuck has every renewal of a session go without an answer for as long as others are answered.
func stuck(c *recordtest.Client, sess *session.Session) {
	c.Fates(func(q recordtest.Request) recordtest.Fate {
		if q.Op == recordtest.OpRenew && q.Session == sess.ID {
			return recordtest.Hangs
		}
		return recordtest.Answered
	})
}

// A session whose renewals are not answered is left for another while it lasts, if the server answers that one.
func TestASessionIsSuspectWhileItLastsIfItAloneCannotBeRenewed(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{time.Second, 3 * time.Second, 30 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			m, s, c, sess := entered(t, ttl)
			stuck(c, sess)
			for !sess.State().Suspect {
				if sess.Over() {
					t.Fatalf("%v: it has ended, and nothing was told of it before", ttl)
				}
				time.Sleep(ttl / 1000)
			}
			st := sess.State()
			if left := st.Renewed.Add(st.Lasts).Sub(store.Now()); left < ttl/5 {
				t.Errorf("%v: only %v are left for what has to leave it", ttl, left)
			}
			next := present(t, s, ttl)
			if st := next.State(); next == sess || st.Suspect || st.Over || s.Begun(ttl) != next {
				t.Fatalf("%v: what has to leave it has nowhere to go: %+v", ttl, st)
			}
			next.Enter()
			sess.Leave()
			time.Sleep(4*ttl + 10*time.Second)
			if left, known := s.Known(sess.ID); known && left > 0 || next.Over() || next.State().Suspect {
				t.Fatalf("%v: it has %v left, though it keeps nothing; the other: %+v", ttl, left, next.State())
			}
			if n := len(m.Sessions()); n != 1 {
				t.Errorf("%v: %d sessions, want the one that keeps something", ttl, n)
			}
		})
	}
}

// An outage of the server makes none suspect: else all that is held had to be written anew when it is over.
func TestNoSessionIsSuspectBecauseTheServerIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 30 * time.Second
		m, s, c, sess := entered(t, ttl)
		for round := range 20 {
			for _, fate := range []recordtest.Fate{recordtest.Hangs, recordtest.Lost, recordtest.Unanswered} {
				c.Fates(func(recordtest.Request) recordtest.Fate { return fate })
				time.Sleep(ttl/4 + time.Duration(round)*ttl/100) // with what passes before and after, less than its TTL
				c.Fates(nil)
				time.Sleep(ttl)
				if st := sess.State(); st.Suspect || st.Over || st.Failing || present(t, s, ttl) != sess {
					t.Fatalf("%+v after an outage in which all is %d", st, fate)
				}
			}
		}
		sess.Leave()
		time.Sleep(4 * ttl)
		if n := len(m.Sessions()); n != 0 {
			t.Errorf("%d sessions are left of none that keeps anything", n)
		}
	})
}

// One renewal that is not answered tells little: a connection was cut, say.
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
			t.Errorf("%+v after no two of %d renewals failed one after the other", st, tries)
		}
		if n := len(m.Sessions()); n > 2 {
			t.Errorf("%d sessions", n)
		}
	})
}

// Whoever needs the time for something else does not wait for a renewal that is not going to be answered.
func TestNoCallWaitsForASessionThatCannotBeRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, _, c, sess := entered(t, 30*time.Second)
		stuck(c, sess)
		for !sess.State().Failing {
			time.Sleep(time.Millisecond)
		}
		if sess.Fresh() != nil {
			t.Error("whoever goes into it is to wait for the next renewal, though the last one failed")
		}
		for !sess.State().Suspect {
			time.Sleep(time.Millisecond)
		}
		began := store.Now()
		session.RenewAll(t.Context(), map[*session.Session]bool{sess: true})
		if waited := store.Now().Sub(began); waited > 0 {
			t.Errorf("it is waited for it for %v", waited)
		}
	})
}

// On a busy machine an answer takes longer than a sixth of so little, and others that were begun for that would make it busier.
func TestNoSessionIsSuspectThatLastsForLessThanASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, _, c, sess := entered(t, 999*time.Millisecond)
		stuck(c, sess)
		for !sess.Over() {
			if sess.State().Suspect || len(m.Sessions()) > 1 {
				t.Fatalf("%+v, %d sessions", sess.State(), len(m.Sessions()))
			}
			time.Sleep(time.Millisecond)
		}
	})
}
