package holdfast

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestAnIndeterminateAskIsRepeatedThenWithdrawn(t *testing.T) { // rule 5
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
				t.Fatalf("%d calls, want at least 5", len(all))
			}
			empty(t, s.mem)
		})
	}
}

func TestAnUnansweredAskIsIndeterminate(t *testing.T) { // rule 5
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

func TestAKeptPositionIsAskedForUntilItWouldLapse(t *testing.T) { // rule 5
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
			t.Fatalf("gave up after %v, want the TTL of a position or a little less", d)
		}
		synctest.Wait()
		same(t, "entries left", len(stored(s.mem, "a").Entries), 1)
	})
}

func TestADefiniteErrorLeavesNoPositionBehind(t *testing.T) { // rule 5
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

// By our own clock: the store may have dropped the position already, or granted it
// to a waiter that did not poll in time.
func TestAPositionThatLapsedIsAskedForWithANewID(t *testing.T) { // rule 5
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
			t.Fatal("the expired position was asked for again, with its id")
		}
		same(t, "withdrawn", s.made("withdraw")[0].id, asks[0].id)
		same(t, "waiting", len(stored(s.mem, "a").Entries), 2)
		s.onNotification(nil)
		o.release()
		w.got() // notifications reach the new id
	})
}

// B16 of section 16: a position removed from outside.
func TestAPositionThatIsLostIsAskedForWithANewID(t *testing.T) { // rule 5
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
			t.Fatal("the lost position was asked for again, with its id")
		}
		o.release()
		release(t, w.got())
		synctest.Wait()
		empty(t, s.mem)
	})
}

func TestAStoreThatLosesEveryPositionIsUnavailable(t *testing.T) { // rule 5
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

// B115.
func TestALastAskBeforeTheContextEnds(t *testing.T) { // rule 5
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

// B109, B115, B95: however long the pauses between polls are.
func TestAWaitKeepsItsPositionUntilItsContextEnds(t *testing.T) { // rule 5
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
				t.Fatal("the position was not kept: more than 1s between two asks")
			}
		}
	})
}

// B35: the notification that carries the grant and the end of the context come at once.
func TestAfterTheEndOfItsContextNothingIsGranted(t *testing.T) { // rule 5
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
			t.Fatal("each time it was granted, although the context had ended")
		}
	})
}

// B35: the answer and the end of the context come at once.
func TestAnAnswerAtTheEndOfTheContextIsUsedOrReleased(t *testing.T) { // rule 5
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

// B35, on a store that answers on the caller's goroutine.
func TestASynchronousGrantAfterTheContextIsReleased(t *testing.T) { // rule 5
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
