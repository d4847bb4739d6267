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
	"github.com/holdfast-go/holdfast/store"
)

const third = store.MaxPositionTTL / 3 // of a position's time

func TestSubscribeThenPoll(t *testing.T) { // rule 5
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
		o.release() // the notification of this is not received
		w.got()
		same(t, "calls", s.ops(), "try watch ask")
		watch, ask := s.made("watch")[0], s.made("ask")[0]
		if ask.sent.Before(watch.done) {
			t.Fatal("it polled before it had subscribed")
		}
	})
}

func TestANameThatIsFreeNeedsNoSubscription(t *testing.T) { // rule 5
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

func TestOneSubscriptionForAllWaiters(t *testing.T) { // rule 5
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

func TestASubscriptionThatFailedIsTriedAgainAndThenPolled(t *testing.T) { // rule 5
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
			t.Fatalf("tried again after %v, too soon", after)
		}
		var looked bool
		for _, c := range s.made("ask") {
			looked = looked || c.sent.Equal(watches[1].done)
		}
		if !looked {
			t.Fatal("it subscribed, but did not poll")
		}
		asked := len(s.made("ask"))
		o.release()
		w.got()
		same(t, "asks after the notification", len(s.made("ask")), asked)
	})
}

// As behind a pooler: it is no outage, so it is logged once and seldom tried again.
func TestWithoutNotificationsItIsLoggedOnceAndRetried(t *testing.T) { // rule 5
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
			t.Errorf("logged %d times, want once: %s", n, log.String())
		}
		o.release()
		w.got()
	})
}

// The first ask is a try only if notifications can follow. Otherwise it would be
// one more statement for each refused claim.
func TestWithoutNotificationsThePositionIsAskedForFirst(t *testing.T) { // rule 5
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

// B68.
func TestMinHoldIsShownBeforeTheCallerHasTheLease(t *testing.T) { // rule 5
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
		same(t, "returned after", time.Since(start), 2*time.Second)
		same(t, "deadline", l.Deadline(), ends(start, 30*time.Second))
		release(t, l)
		if l.Valid() {
			t.Fatal("the lease is valid after its release")
		}
		o := other(t, s.mem, "a", time.Second)
		if o.a.Granted {
			t.Fatal("the name is free before its MinHold has passed")
		}
		same(t, "free in", o.a.Until, 58*time.Second)
		time.Sleep(58 * time.Second)
		o = other(t, s.mem, "a", time.Second)
		if !o.a.Granted {
			t.Fatal("the name is taken after its MinHold has passed")
		}
	})
}

func TestTheSafetyPollIsAtAThirdOfThePosition(t *testing.T) { // rule 5
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
		same(t, "granted without a notification, after", w.at.Sub(start), 5*third)
	})
}

// Waiters for many names ask at the same instants, so that a store can take their
// asks in one batch. None asks more often than after a third of the position's time,
// and none much later.
func TestPositionsAreKeptTogether(t *testing.T) { // rule 5
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
					t.Fatalf("%q was asked for again after %v, want a third of the position's TTL", c.name, gap)
				}
			}
			last[c.name] = c.sent
			if c.sent.After(begin) {
				instants[c.sent.Round(time.Millisecond)] = true
			}
		}
		if n := len(instants); n < 10 || n > 101 { // of 2000 asks
			t.Errorf("asks at %d instants, want 10 to 101", n)
		}
	})
}

func TestPollsAtTheEndOfTheObstacleAhead(t *testing.T) { // rule 5
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

// Pauses of polls grow by half from the least to the most, ±20 %.
func TestPollsBackOff(t *testing.T) { // rule 5
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, s, nil).Mutex("a").Lock) // no notifications, no polls
		time.Sleep(10 * time.Second)
		asks := s.made("ask")
		pause, differ := 2*time.Millisecond, false
		for i := 1; i < len(asks); i++ {
			have := asks[i].sent.Sub(asks[i-1].sent)
			if have < pause*79/100 || have > pause*121/100 {
				t.Fatalf("pause %d is %v, want %v ± 20 %%", i, have, pause)
			}
			differ = differ || (have-pause).Abs() > pause/50
			pause = min(pause*5/4, 800*time.Millisecond)
		}
		if len(asks) < 20 || !differ {
			t.Fatalf("%d asks, want at least 20; jitter: %v", len(asks), differ)
		}
		o.release()
		freed := time.Now()
		w.got()
		if late := w.at.Sub(freed); late > time.Second {
			t.Fatalf("granted %v after the release, want at most 1s", late)
		}
	})
}

func TestPollsAskOnlyIfItFitsOrAThirdHasPassed(t *testing.T) { // rule 5
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		o := other(t, s.mem, "a", time.Hour)
		w := waits(t, locker(t, withPolls{s}, nil).Mutex("a").Lock)
		time.Sleep(3*third + time.Second)
		want := fmt.Sprint([]time.Duration{0, third, 2 * third, 3 * third})
		same(t, "asks", fmt.Sprint(sent(s.made("ask"), start)), want)
		if looks := len(s.made("poll")); looks < 15 {
			t.Fatalf("%d polls, want at least 15", looks)
		}
		o.release()
		freed := time.Now()
		w.got()
		if late := w.at.Sub(freed); late > time.Second {
			t.Fatalf("granted %v after the release, want at most 1s", late)
		}
		same(t, "asks", len(s.made("ask")), 5)
	})
}
