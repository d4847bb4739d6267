package session_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// If answers take a while, the entries that must leave a session have as much time as otherwise, because the spare session is renewed first.
func TestASessionIsSuspectInTimeOnASlowLink(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{time.Second, 3 * time.Second, 30 * time.Second, time.Hour} {
		for _, trip := range []time.Duration{time.Millisecond, ttl / 100, ttl / 30, ttl / 20} {
			synctest.Test(t, func(t *testing.T) {
				m := recordtest.NewMemory(recordtest.Options{})
				s, c := open(t, m)
				var locked atomic.Bool
				sess := present(t, s, ttl)
				sess.Enter()
				c.Fates(func(q recordtest.Request) recordtest.Fate {
					if locked.Load() && q.Op == recordtest.OpRenew && q.Session == sess.ID {
						return recordtest.Hangs
					}
					time.Sleep(min(trip, time.Second))
					return recordtest.Answered
				})
				time.Sleep(5 * ttl) // so that the time for an answer is known
				locked.Store(true)
				for !sess.State().Suspect {
					if sess.Over() {
						t.Fatalf("TTL %v, round trip %v: the session ended before it was suspect", ttl, trip)
					}
					if time.Sleep(ttl / 10_000); sess.State().Failing {
						sess.Wait(t.Context(), sess.Renew()) // as what it keeps is
					}
				}
				st := sess.State()
				if left := st.Renewed.Add(st.Lasts).Sub(store.Now()); left < ttl/5 {
					t.Errorf("TTL %v, round trip %v: only %v are left to move its entries", ttl, trip, left)
				}
			})
		}
	}
}

// A cut connection is opened again within a moment. Requests that fail at once until then prove nothing, however many.
func TestNoSessionIsSuspectAfterManyRenewalsInAMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 30 * time.Second
		_, _, c, sess := entered(t, ttl)
		var cut atomic.Bool
		var tries atomic.Int32
		c.Fates(func(q recordtest.Request) recordtest.Fate {
			if cut.Load() && q.Op == recordtest.OpRenew && q.Session == sess.ID {
				tries.Add(1)
				return recordtest.Lost
			}
			return recordtest.Answered
		})
		for range 10 {
			cut.Store(true)
			tries.Store(0)
			for tries.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(ttl / 10)
			cut.Store(false)
			if tries.Load() < 3 {
				t.Errorf("got %d tries, want at least 3", tries.Load())
			}
			time.Sleep(ttl)
			if st := sess.State(); st.Suspect || st.Over || st.Failing {
				t.Fatalf("got %+v after a moment in which its renewals failed, want it not suspect", st)
			}
		}
	})
}

// An unanswered request that was sent in an outage proves nothing, although the spare session was answered meanwhile, whether it existed before or not.
func TestNoSessionIsSuspectForWhatWasSentInAnOutage(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const ttl = 6 * time.Second
			_, _, c, sess := entered(t, ttl)
			if before {
				stuck(c, sess)
				for !sess.State().Failing {
					time.Sleep(time.Millisecond)
				}
				c.Fates(nil)
				sess.Wait(t.Context(), sess.Renew())
			}
			over := make(chan struct{})
			var renewals atomic.Int32
			c.Fates(func(q recordtest.Request) recordtest.Fate {
				switch {
				case q.Op == recordtest.OpRenew && q.Session == sess.ID:
					if renewals.Add(1) <= 2 {
						return recordtest.Hangs
					}
				case q.Op == recordtest.OpRenew || q.Op == recordtest.OpBegin:
					<-over
				}
				return recordtest.Answered
			})
			for renewals.Load() < 2 {
				time.Sleep(time.Millisecond)
			}
			close(over)
			time.Sleep(ttl)
			if st := sess.State(); st.Suspect || st.Over || st.Failing || renewals.Load() < 3 {
				t.Errorf("got %+v after %d renewals, two of which were sent in an outage; want it not suspect", st, renewals.Load())
			}
		})
	}
}

// An existing spare session is renewed as soon as a renewal fails, not when it is due.
func TestASessionIsSuspectInTimeDespiteASpareOne(t *testing.T) {
	t.Parallel()
	const ttl = 30 * time.Second
	for pause := time.Duration(0); pause < ttl; pause += ttl / 20 {
		synctest.Test(t, func(t *testing.T) {
			_, _, c, sess := entered(t, ttl)
			stuck(c, sess)
			for !sess.State().Failing {
				time.Sleep(time.Millisecond)
			}
			c.Fates(nil)
			time.Sleep(pause)
			stuck(c, sess)
			for !sess.State().Suspect {
				if sess.Over() {
					t.Fatalf("%v after a renewal: the session ended before it was suspect", pause)
				}
				time.Sleep(ttl / 1000)
			}
			st := sess.State()
			if left := st.Renewed.Add(st.Lasts).Sub(store.Now()); left < ttl/3 {
				t.Errorf("%v after a renewal: only %v are left to move its entries", pause, left)
			}
		})
	}
}

// A waiter has no entry yet in the session that its hold will go into. That must be one that can be renewed.
func TestASessionIsSuspectThatIsToKeepSomething(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 30 * time.Second
		m := recordtest.NewMemory(recordtest.Options{})
		s, c := open(t, m)
		sess := present(t, s, ttl)
		stuck(c, sess)
		time.Sleep(ttl * 3 / 4)
		if st, next := sess.State(), present(t, s, ttl); !st.Suspect || next == sess || next.State().Failing {
			t.Errorf("got %+v, want it suspect; the present session is %+v", st, next.State())
		}
	})
}

// If sessions can begin but not be renewed, no more are begun once the last used one has ended.
func TestUnneededSessionsAreNotKeptAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 30 * time.Second
		m := recordtest.NewMemory(recordtest.Options{})
		s, c := open(t, m)
		present(t, s, ttl)
		c.Fates(func(q recordtest.Request) recordtest.Fate {
			if q.Op == recordtest.OpRenew {
				return recordtest.Hangs
			}
			return recordtest.Answered
		})
		time.Sleep(5 * ttl)
		if n := len(m.Sessions()); n > 0 {
			t.Errorf("%d sessions are left, want none", n)
		}
	})
}
