package holdfast

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

func TestANotificationCausesAPoll(t *testing.T) { // rule 5
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withNotifications{s}, nil).Mutex("a").Lock)
		asked := len(s.made("ask"))
		id := s.made("ask")[0].id
		for i, h := range []store.Notification{{}, {Name: "a", ID: id}, {Name: "a", ID: id, Token: 1}} {
			time.Sleep(time.Second)
			s.tell(h)
			same(t, "asks", len(s.made("ask")), asked+i+1)
		}
		s.tell(store.Notification{Name: "a", ID: store.NewProcess().NewID(), Token: 1 << 62})
		same(t, "asks after a notification for another waiter", len(s.made("ask")), asked+3)
		w.waiting()
		w.cancel()
		w.failed(context.Canceled, ErrHeld)
	})
}

func TestANotificationMayCarryTheGrant(t *testing.T) { // rule 5
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withNotifications{s}, nil).Mutex("a").Lock)
		asked := time.Now()
		time.Sleep(2 * time.Second)
		o.release()
		l := w.got()
		same(t, "calls", s.ops(), "try watch ask")
		same(t, "granted", w.at.Sub(asked), 2*time.Second)
		same(t, "token", l.Token(), stored(s.mem, "a").Entries[0].Token)
		same(t, "deadline", l.Deadline(), ends(asked, store.MaxPositionTTL))
		time.Sleep(third - 2*time.Second)
		synctest.Wait()
		same(t, "calls", s.ops(), "try watch ask renew")
		same(t, "renewed", s.made("renew")[0].sent.Sub(asked), third)
		same(t, "deadline", l.Deadline(), ends(asked.Add(third), 30*time.Second))
		release(t, l)
	})
}

// A position in a session counts from the session's last renewal, which can be
// older than the ask. So does a lease that a notification grants.
func TestANotifiedLeaseCountsFromWhenThePositionDoes(t *testing.T) { // rule 5
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(*call) fate {
			renewed := store.Now().Add(-2 * time.Second)
			return fate{answer: func(a *store.Answer) { a.From = renewed }}
		})
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withNotifications{s}, nil).Mutex("a").Lock)
		asked := time.Now()
		time.Sleep(time.Second)
		o.release()
		l := w.got()
		same(t, "calls", s.ops(), "try watch ask")
		same(t, "granted", w.at.Sub(asked), time.Second)
		same(t, "deadline", l.Deadline(), ends(asked.Add(-2*time.Second), store.MaxPositionTTL))
		release(t, l)
	})
}

// The same if the session, and so the position, is shorter than was asked for.
func TestANotifiedLeaseLastsAsLongAsThePositionDoes(t *testing.T) { // rule 5
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(*call) fate {
			return fate{answer: func(a *store.Answer) {
				if !a.Granted {
					a.TTL = 6 * time.Second
				}
			}}
		})
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withNotifications{s}, nil).Mutex("a").Lock)
		asked := time.Now()
		time.Sleep(time.Second)
		o.release()
		l := w.got()
		same(t, "deadline", l.Deadline(), ends(asked, 6*time.Second))
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "calls", s.ops(), "try watch ask renew")
		release(t, l)
	})
}

// A store may save requests for a claim that will wait when refused. A try needs an exact answer.
func TestTheStoreKnowsWhetherATryWillWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		l := locker(t, withNotifications{s}, nil)
		if _, err := l.Mutex("a").TryLock(t.Context()); !errors.Is(err, ErrHeld) {
			t.Fatal(err)
		}
		w := waits(t, l.Mutex("a").Lock)
		o.release()
		release(t, w.got())
		var waiting []bool
		for _, c := range append(s.made("try"), s.made("ask")...) {
			waiting = append(waiting, c.claim.Waits)
		}
		same(t, "calls that say they will wait", fmt.Sprint(waiting), "[false true false]")
	})
}

// The answer to the second ask is slow, so that the notification is read late.
func slowSecondAsk(s *link, d time.Duration) {
	s.on(func(c *call) fate {
		if c.op == "ask" && c.n == 1 {
			return fate{back: d}
		}
		return fate{}
	})
}

func TestANotifiedLeaseIsRenewedAtOnceIfAThirdHasPassed(t *testing.T) { // rule 5
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		slowSecondAsk(s, 4*time.Second)
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withNotifications{s}, nil).Mutex("a").Lock)
		time.Sleep(5 * time.Second)
		o.release()
		w.got()
		synctest.Wait()
		same(t, "calls", s.ops(), "try watch ask ask renew")
		asked := s.made("ask")[1]
		same(t, "renewed", s.made("renew")[0].sent.Sub(asked.sent), 4*time.Second)
	})
}

func TestANotificationSparesAPollForHalfThePosition(t *testing.T) { // rule 5
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		slowSecondAsk(s, 5100*time.Millisecond)
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withNotifications{s}, nil).Mutex("a").Lock)
		time.Sleep(5 * time.Second)
		o.release()
		l := w.got()
		same(t, "calls", s.ops(), "try watch ask ask ask")
		same(t, "deadline", l.Deadline(), ends(s.made("ask")[2].sent, 30*time.Second))
	})
}

// A notification about an earlier grant, or a false one.
func TestANotificationWithAnOldTokenIsOnlyAPoll(t *testing.T) { // rule 5
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withNotifications{s}, nil).Mutex("a").Lock)
		ask := s.made("ask")[0]
		for _, token := range []int64{o.a.Token, o.a.Token - 1, 1} {
			s.tell(store.Notification{Name: "a", ID: ask.id, Token: token})
			w.waiting()
		}
		same(t, "asks", len(s.made("ask")), 4)
		o.release()
		w.got()
	})
}

func TestANotificationDoesNotSpareTheMinHoldItsRenewal(t *testing.T) { // rule 5
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withNotifications{s}, &Options{MinHold: time.Minute}).Mutex("a").Lock)
		o.release()
		w.got()
		same(t, "calls", s.ops(), "try watch ask ask renew")
	})
}
