package holdfast

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

const third = store.MaxPositionTTL / 3 // of a position's time

func TestRule5_SubscribeThenPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		s.on(func(c *call) fate {
			if c.op == "watch" {
				return fate{there: time.Second, back: time.Second}
			}
			return fate{}
		})
		w := waits(t, locker(t, withNotifications{s}, nil).Mutex("a").Lock)
		time.Sleep(500 * time.Millisecond)
		o.release() // the notification of this goes nowhere
		w.got()
		same(t, "calls", s.ops(), "try watch ask")
		watch, ask := s.made("watch")[0], s.made("ask")[0]
		if ask.sent.Before(watch.done) {
			t.Fatal("looked before it was subscribed")
		}
	})
}

func TestRule5_ANameThatIsFreeNeedsNoSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		for range 3 {
			l, err := locks.Mutex("a").Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			release(t, l)
		}
		same(t, "calls", s.ops(), "try release try release try release")
	})
}

func TestRule5_OneSubscriptionForAllWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate { return fate{back: 50 * time.Millisecond} })
		locks := locker(t, withNotifications{s}, nil)
		var others []*another
		var waiters []*waiter
		for i := range 100 {
			name := fmt.Sprint(i)
			others = append(others, other(t, s.mem, name, time.Hour))
			waiters = append(waiters, waits(t, locks.With(nil).Mutex(name).Lock))
		}
		time.Sleep(time.Second)
		s.on(nil)
		for i, o := range others {
			o.release()
			release(t, waiters[i].got())
		}
		same(t, "subscriptions", len(s.made("watch")), 1)
		same(t, "asks", len(s.made("ask")), 100)
	})
}

func TestRule5_ASubscriptionThatFailedIsTriedAgainAndThenPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		s.on(func(c *call) fate {
			switch {
			case c.op == "watch" && c.n == 0:
				return fate{fail: errLink}
			case c.op == "watch":
				return fate{back: 300 * time.Millisecond}
			}
			return fate{}
		})
		locks := locker(t, withNotifications{s}, &Options{PollMin: 4 * time.Second, PollMax: 4 * time.Second})
		w := waits(t, locks.Mutex("a").Lock)
		time.Sleep(12 * time.Second)
		watches := s.made("watch")
		same(t, "subscriptions", len(watches), 2)
		if after := watches[1].sent.Sub(watches[0].sent); after < engine.ResubscribeAfter {
			t.Fatalf("tried again after %v", after)
		}
		var looked bool
		for _, c := range s.made("ask") {
			looked = looked || c.sent.Equal(watches[1].done)
		}
		if !looked {
			t.Fatal("subscribed, and did not look")
		}
		asked := len(s.made("ask"))
		o.release()
		w.got()
		same(t, "asks after the notification", len(s.made("ask")), asked)
	})
}

// As behind a pooler: it is no outage, so it is told once and tried seldom.
func TestRule5_WhereNobodyCanListenItIsSaidOnceAndTriedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := newLink(t)
		o := other(t, s.mem, "a", 10*time.Hour)
		s.on(func(c *call) fate {
			if c.op == "watch" && c.n < 3 {
				return fate{fail: fmt.Errorf("%w: nobody can listen", store.ErrUnsupported)}
			}
			return fate{}
		})
		locks := locker(t, withNotifications{s}, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		w := waits(t, locks.Mutex("a").Lock)
		time.Sleep(engine.NoNotifyFor - time.Second)
		same(t, "subscriptions", len(s.made("watch")), 1)
		time.Sleep(5 * engine.NoNotifyFor)
		same(t, "subscriptions", len(s.made("watch")), 4) // the last came through
		if n := strings.Count(log.String(), "no wake-ups"); n != 1 {
			t.Errorf("it is said %d times: %s", n, log.String())
		}
		o.release()
		w.got()
	})
}

// A try is for who may be woken later: where nobody can, it would be one more
// statement for each claim that is refused.
func TestRule5_WhereNobodyCanListenThePositionIsAskedForAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		other(t, s.mem, "a", time.Hour)
		deaf := true
		s.on(func(c *call) fate {
			if c.op == "watch" && deaf {
				return fate{fail: fmt.Errorf("%w: nobody can listen", store.ErrUnsupported)}
			}
			return fate{}
		})
		locks := locker(t, withNotifications{s}, &Options{PollMin: time.Minute, PollMax: time.Minute, Logger: slog.New(slog.DiscardHandler)})
		for _, want := range []string{"try watch ask", "try watch ask withdraw ask"} {
			w := waits(t, locks.With(nil).Mutex("a").Lock)
			synctest.Wait()
			same(t, "calls", s.ops(), want)
			w.cancel()
			w.failed(context.Canceled, ErrHeld)
			synctest.Wait()
		}
		deaf = false
		time.Sleep(engine.NoNotifyFor)
		w := waits(t, locks.Mutex("a").Lock)
		synctest.Wait()
		same(t, "calls", s.ops(), "try watch ask withdraw ask withdraw try watch ask")
		w.cancel()
		w.failed(context.Canceled, ErrHeld)
	})
}

func TestRule5_ANotificationCausesAPoll(t *testing.T) {
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
		same(t, "asks after a notification for somebody else", len(s.made("ask")), asked+3)
		w.waiting()
		w.cancel()
		w.failed(context.Canceled, ErrHeld)
	})
}

func TestRule5_ANotificationMayCarryTheGrant(t *testing.T) {
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

// A position that a session keeps lasts from the session's last renewal, which can be
// older than the ask. So does the lease that a notification makes of it.
func TestRule5_ANotifiedLeaseCountsFromWhenThePositionDoes(t *testing.T) {
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

// The answer to the second ask is slow, so that the notification is read late.
func slowSecondAsk(s *link, d time.Duration) {
	s.on(func(c *call) fate {
		if c.op == "ask" && c.n == 1 {
			return fate{back: d}
		}
		return fate{}
	})
}

func TestRule5_ANotifiedLeaseIsRenewedAtOnceWhenAThirdIsPast(t *testing.T) {
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

func TestRule5_ANotificationIsUsedWithoutAPollOnlyWhileHalfThePositionIsLeft(t *testing.T) {
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
func TestRule5_ANotificationWithAnOldTokenIsOnlyAPoll(t *testing.T) {
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

// B68.
func TestRule5_MinHoldIsShownBeforeTheCallerHasTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "renew" {
				return fate{there: time.Second, back: time.Second}
			}
			return fate{}
		})
		start := time.Now()
		l := lock(t, locker(t, s, &Options{MinHold: time.Minute}), "a")
		same(t, "calls", s.ops(), "try renew")
		same(t, "had it after", time.Since(start), 2*time.Second)
		same(t, "deadline", l.Deadline(), ends(start, 30*time.Second))
		release(t, l)
		if l.Valid() {
			t.Fatal("valid after its release")
		}
		o := other(t, s.mem, "a", time.Second)
		if o.a.Granted {
			t.Fatal("the name is free before its minimum hold is over")
		}
		same(t, "free in", o.a.Until, 58*time.Second)
		time.Sleep(58 * time.Second)
		o = other(t, s.mem, "a", time.Second)
		if !o.a.Granted {
			t.Fatal("the name is taken after its minimum hold")
		}
	})
}

func TestRule5_ANotificationDoesNotSpareTheMinHoldItsRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withNotifications{s}, &Options{MinHold: time.Minute}).Mutex("a").Lock)
		o.release()
		w.got()
		same(t, "calls", s.ops(), "try watch ask ask renew")
	})
}

func TestRule5_TheSafetyPollIsAtAThirdOfThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.onNotification(drop)
		start := time.Now()
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withNotifications{s}, nil).Mutex("a").Lock)
		time.Sleep(4*third + time.Second)
		want := fmt.Sprint([]time.Duration{0, third, 2 * third, 3 * third, 4 * third})
		same(t, "asks", fmt.Sprint(sent(s.made("ask"), start)), want)
		for _, c := range s.made("ask") {
			same(t, "id", c.id, s.made("ask")[0].id)
		}
		o.release()
		w.got()
		same(t, "granted though no notification came", w.at.Sub(start), 5*third)
	})
}

// Waiters for many names ask at the same instants, so that a store can take what
// they ask in one batch; none of them more often than at a third of the position's
// time, and none much later.
func TestRule5_PositionsAreKeptTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		const third = 10 * time.Second / 3
		for i := range 200 {
			name := fmt.Sprint(i)
			other(t, s.mem, name, time.Hour)
			waits(t, locks.Mutex(name).Lock)
			time.Sleep(17 * time.Millisecond)
		}
		begin := time.Now()
		time.Sleep(10 * third)
		instants, last := map[time.Time]bool{}, map[string]time.Time{}
		for _, c := range s.made("ask") {
			if before, ok := last[c.name]; ok {
				if gap := c.sent.Sub(before); gap < third || gap > third*11/10+time.Millisecond {
					t.Fatalf("%q was asked for %v after the last time", c.name, gap)
				}
			}
			last[c.name] = c.sent
			if c.sent.After(begin) {
				instants[c.sent.Round(time.Millisecond)] = true
			}
		}
		if n := len(instants); n < 10 || n > 101 { // of 2000 asks
			t.Errorf("asks at %d instants", n)
		}
	})
}

func TestRule5_PollsAtTheEndOfTheObstacleAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.onNotification(drop)
		start := time.Now()
		other(t, s.mem, "a", 2*time.Second) // and dies
		w := waits(t, locker(t, withNotifications{s}, nil).Mutex("a").Lock)
		w.got()
		same(t, "granted", w.at.Sub(start), 2*time.Second)
		same(t, "asks", len(s.made("ask")), 2)
	})
}

func TestRule5_AnIndeterminateAskIsRepeatedThenWithdrawn(t *testing.T) {
	for ttl, longest := range map[time.Duration]time.Duration{30 * time.Second: 5 * time.Second, 2 * time.Second: 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			s.on(func(c *call) fate {
				if c.op == "ask" {
					return fate{lose: errLink}
				}
				return fate{}
			})
			start := time.Now()
			_, err := locker(t, s, &Options{TTL: ttl}).Mutex("a").Lock(t.Context())
			is(t, err, ErrUnavailable, errLink)
			if d := time.Since(start); d > longest || d < longest*6/10 {
				t.Fatalf("gave up after %v, want %v", d, longest)
			}
			synctest.Wait()
			all := s.made()
			for i, c := range all {
				same(t, "id", c.id, all[0].id)
				same(t, "withdrawn", c.op == "withdraw", i == len(all)-1)
			}
			if len(all) < 5 {
				t.Fatalf("%d calls", len(all))
			}
			empty(t, s.mem)
		})
	}
}

func TestRule5_AnAskThatIsNotAnsweredIsIndeterminate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "try" {
				return fate{back: time.Hour}
			}
			return fate{}
		})
		start := time.Now()
		_, err := locker(t, s, nil).Mutex("a").TryLock(t.Context())
		is(t, err, ErrUnavailable)
		isNot(t, err, context.DeadlineExceeded, ErrHeld) // that bound is ours, not the caller's
		same(t, "gave up after", time.Since(start), 5*time.Second)
		synctest.Wait()
		empty(t, s.mem)
	})
}

func TestRule5_AKeptPlaceIsAskedForUntilItWouldLapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "ask" && c.n > 0 {
				return fate{fail: errLink}
			}
			return fate{}
		})
		start := time.Now()
		other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withNotifications{s}, nil).Mutex("a").Lock)
		w.failed(ErrUnavailable)
		if d := w.at.Sub(start); d > store.MaxPositionTTL || d < store.MaxPositionTTL*9/10 {
			t.Fatalf("gave up after %v", d)
		}
		synctest.Wait()
		same(t, "entries left", len(stored(s.mem, "a").Entries), 1)
	})
}

func TestRule5_ADefiniteErrorLeavesNoPositionBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "ask" && c.n > 0 {
				return fate{fail: store.ErrCorrupt}
			}
			return fate{}
		})
		other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withNotifications{s}, nil).Mutex("a").Lock)
		w.failed(ErrCorrupt)
		synctest.Wait()
		same(t, "entries left", len(stored(s.mem, "a").Entries), 1)
	})
}

// By our own clock: the store may have dropped it already, or have granted it
// to a waiter that did not look in time.
func TestRule5_APositionThatLapsedIsAskedForWithANewID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.onNotification(drop)
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withNotifications{s}, nil).Mutex("a").Lock)
		suspend(11 * time.Second)
		time.Sleep(third)
		synctest.Wait()
		asks := s.made("ask")
		same(t, "asks", len(asks), 2)
		if asks[0].id == asks[1].id {
			t.Fatal("the old id was asked for again")
		}
		same(t, "withdrawn", s.made("withdraw")[0].id, asks[0].id)
		same(t, "waiting", len(stored(s.mem, "a").Entries), 2)
		s.onNotification(nil)
		o.release()
		w.got() // notifications reach the new id
	})
}

// B16 of section 16: a position removed from outside.
func TestRule5_APositionThatIsLostIsAskedForWithANewID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "ask" && c.n == 1 {
				return fate{fail: store.ErrLost}
			}
			return fate{}
		})
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withNotifications{s}, nil).Mutex("a").Lock)
		time.Sleep(third)
		synctest.Wait()
		asks := s.made("ask")
		same(t, "asks", len(asks), 3)
		if asks[1].id == asks[2].id {
			t.Fatal("the lost id was asked for again")
		}
		o.release()
		release(t, w.got())
		synctest.Wait()
		empty(t, s.mem)
	})
}

func TestRule5_AStoreThatLosesEveryPositionIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "ask" {
				return fate{fail: store.ErrLost}
			}
			return fate{}
		})
		_, err := locker(t, s, nil).Mutex("a").Lock(t.Context())
		is(t, err, ErrUnavailable)
		isNot(t, err, ErrLost)
	})
}

// Pauses of polls grow by half from the least to the most, ±20 %.
func TestRule5_PollsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, s, nil).Mutex("a").Lock) // no notifications, no looks
		time.Sleep(10 * time.Second)
		asks := s.made("ask")
		pause, differ := 10*time.Millisecond, false
		for i := 1; i < len(asks); i++ {
			have := asks[i].sent.Sub(asks[i-1].sent)
			if have < pause*79/100 || have > pause*121/100 {
				t.Fatalf("pause %d is %v, want %v ± 20 %%", i, have, pause)
			}
			differ = differ || (have-pause).Abs() > pause/50
			pause = min(pause*3/2, 800*time.Millisecond)
		}
		if len(asks) < 20 || !differ {
			t.Fatalf("%d asks, jitter %v", len(asks), differ)
		}
		o.release()
		freed := time.Now()
		w.got()
		if late := w.at.Sub(freed); late > time.Second {
			t.Fatalf("got in %v after the release", late)
		}
	})
}

func TestRule5_PollsReadAndAskOnlyWhenThereIsRoomOrAThirdIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withPolls{s}, nil).Mutex("a").Lock)
		time.Sleep(3*third + time.Second)
		want := fmt.Sprint([]time.Duration{0, third, 2 * third, 3 * third})
		same(t, "asks", fmt.Sprint(sent(s.made("ask"), start)), want)
		if looks := len(s.made("poll")); looks < 15 {
			t.Fatalf("%d looks", looks)
		}
		o.release()
		freed := time.Now()
		w.got()
		if late := w.at.Sub(freed); late > time.Second {
			t.Fatalf("got in %v after the release", late)
		}
		same(t, "asks", len(s.made("ask")), 5)
	})
}

// B115.
func TestRule5_ALastAskBeforeTheContextEnds(t *testing.T) {
	for _, notifications := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			link := newLink(t)
			link.onNotification(drop)
			var s store.Store = link
			if notifications {
				s = withNotifications{link}
			}
			start := time.Now()
			o := other(t, link.mem, "a", time.Hour)
			locks := locker(t, s, &Options{PollMin: 30 * time.Second, PollMax: time.Minute, Wait: 2 * time.Second})
			w := waits(t, locks.Mutex("a").Lock)
			time.Sleep(1990 * time.Millisecond)
			o.release()
			w.got()
			same(t, "granted", w.at.Sub(start), 1995*time.Millisecond)
		})
	}
}

// B109, B115, B95: however long the pause of polls is.
func TestRule5_AWaitEndsWithItsContextAndKeepsItsPositionUntilThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		other(t, s.mem, "a", time.Hour)
		locks := locker(t, s, &Options{TTL: 3 * time.Second, PollMin: 30 * time.Second, PollMax: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := locks.Mutex("a").Lock(ctx)
		same(t, "gave up after", time.Since(start), 20*time.Second)
		is(t, err, context.DeadlineExceeded, ErrHeld)
		asks := s.made("ask")
		for i, c := range asks {
			same(t, "id", c.id, asks[0].id)
			if i > 0 && c.sent.Sub(asks[i-1].sent) > time.Second {
				t.Fatal("the position was not kept")
			}
		}
	})
}

// B35: the notification that carries the grant and the end of the context come at once.
func TestRule5_AfterTheEndOfItsContextNothingIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		cancelled := 0
		for range 100 {
			s.onNotification(nil)
			o := other(t, s.mem, "a", time.Hour)
			w := waits(t, locks.Mutex("a").Lock)
			s.onNotification(func(h store.Notification) []store.Notification {
				s.sink(h)
				w.cancel() // before the waiter can have run, nearly always
				return nil
			})
			o.release()
			if w.wait(); w.err == nil {
				release(t, w.lease)
			} else {
				is(t, w.err, context.Canceled, ErrHeld)
				cancelled++
			}
			synctest.Wait()
			empty(t, s.mem)
		}
		if cancelled == 0 {
			t.Fatal("granted each time, though the context had ended")
		}
	})
}

// B35: the answer and the end of the context come at once.
func TestRule5_AnAnswerAtTheEndOfTheContextIsUsedOrGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate { return fate{back: time.Second} })
		locks := locker(t, s, nil)
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			l, err := locks.Mutex("a").Lock(ctx)
			if err == nil {
				release(t, l)
			} else {
				is(t, err, context.Canceled)
			}
			time.Sleep(2 * time.Second)
			empty(t, s.mem)
		}
	})
}

// B35, on a store that answers without leaving the caller's goroutine.
func TestRule5_AnAnswerInProcessAfterTheEndOfTheContextIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		locks := locker(t, mem, nil)
		for _, lock := range []func(context.Context) (*Lease, error){locks.Mutex("a").Lock, locks.Mutex("a").TryLock} {
			ctx, cancel := context.WithCancel(t.Context())
			mem.Fail(func(string, string) error { cancel(); return nil })
			_, err := lock(ctx)
			is(t, err, context.Canceled)
			empty(t, mem)
		}
	})
}
