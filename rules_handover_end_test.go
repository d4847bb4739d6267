package holdfast

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A renewal that is under way at a hand-over belongs to the lease that has the
// hold when the answer comes.
func TestHandOver_ALossGoesToTheLeaseThatHasTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		var log bytes.Buffer
		locks := locker(t, withNotifications{s}, &Options{
			TTL: 9 * time.Second, HandOver: &HandOver{Times: 64, For: time.Minute},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		l := lock(t, locks, "a")
		next := waits(t, locks.Mutex("a").Lock)
		s.on(func(c *call) fate {
			if c.op == "renew" {
				return fate{back: 500 * time.Millisecond, renew: func(_ int, r *store.Renewal) { r.Err = ErrLost }}
			}
			return fate{}
		})
		time.Sleep(3*time.Second + 100*time.Millisecond)
		same(t, "running renewals", s.underway("renew"), 1)
		release(t, l)
		mine := next.handed()
		same(t, "valid", mine.Valid(), true)
		<-mine.Lost()
		err := mine.Release()
		is(t, err, ErrLost)
		synctest.Wait()
		for what, text := range map[string]string{"error": err.Error(), "log": log.String()} {
			if !strings.Contains(text, fmt.Sprint(mine.Token())) || strings.Contains(text, fmt.Sprint(l.Token())) {
				t.Errorf("the %s does not name token %d and no other: %s", what, mine.Token(), text)
			}
		}
		if over(l.Lost()) {
			t.Error("the lease was lost after its release")
		}
		is(t, l.Release(), ErrReleased)
	})
}

func TestHandOver_AfterALossNothingIsHandedOn(t *testing.T) {
	for name, end := range map[string]func(*link){
		"broken by an operator": func(s *link) {
			e := stored(s.mem, "a").Entries[0]
			if err := s.mem.BreakHold(context.Background(), store.Break{Name: "a", ID: e.ID, Token: e.Token, Reason: "because"}); err != nil {
				s.t.Fatal(err)
			}
		},
		"gone from the store": func(s *link) { s.mem.Break("a") },
		"renewals fail":       func(s *link) { s.renewalsFail(time.Now().Add(6 * time.Second)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLink(t)
				locks := locker(t, withNotifications{s}, &Options{TTL: 6 * time.Second, HandOver: &HandOver{Times: 64, For: time.Hour}})
				l := lock(t, locks, "a")
				all := inLine(t, locks, 2)
				end(s)
				<-l.Lost()
				synctest.Wait()
				lost := time.Now()
				is(t, l.Release(), ErrLost)
				next := all[0].got()
				if took := all[0].at.Sub(lost); took > time.Second {
					t.Errorf("the next was granted %v after the loss, want at most 1s", took)
				}
				if next.ID() == l.ID() || next.Token() <= l.Token()+1 {
					t.Fatal("the hold was handed over after it was lost")
				}
				release(t, next)
				same(t, "id", all[1].handed().ID(), next.ID()) // this call works
				release(t, all[1].lease)
			})
		})
	}
}

// The same while the outcome of a release is indeterminate.
func TestHandOver_NothingIsHandedOnWhileAReleaseIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		s.on(func(c *call) fate {
			if c.op == "release" {
				return fate{there: time.Second, fail: errLink}
			}
			return fate{}
		})
		locks := locker(t, withNotifications{s}, &Options{TTL: 6 * time.Second})
		l := lock(t, locks, "a")
		done := make(chan error)
		go func() { done <- l.Release() }()
		synctest.Wait()
		next := waits(t, locks.Mutex("a").Lock)
		next.waiting()
		is(t, <-done, ErrUnavailable)
		if mine := next.got(); mine.ID() == l.ID() {
			t.Fatal("the hold was handed over during its release")
		}
		s.on(nil)
		release(t, next.lease)
	})
}

// A claim that gives up waiting for a hold of its own process gets an error with
// the holder, as if the store had answered.
func TestHandOver_AWaiterThatGivesUpGetsTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, &Options{Note: "me"})
		l := lock(t, locks, "a")
		next := waits(t, locks.Mutex("a").Lock)
		time.Sleep(10 * time.Millisecond)
		release(t, l)
		mine := next.handed()
		_, err := locks.With(&Options{Wait: 5 * time.Millisecond}).Mutex("a").Lock(t.Context())
		is(t, err, context.DeadlineExceeded, ErrHeld)
		h := heldBy(t, err)
		same(t, "token", h.Token, mine.Token())
		same(t, "note", h.Note, "me")
		same(t, "expires", h.Expires, mine.Deadline())
		same(t, "asks", len(s.made("ask")), 0)
		release(t, mine)
		same(t, "local waiters left", locks.kept(), 0)
	})
}

// A waiter leaves at the moment at which the name is handed over to it.
func TestHandOver_CanceledInTheSameMomentLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, inProcess := range []bool{false, true} {
			s := newLink(t)
			s.desc.InProcess = inProcess
			locks := locker(t, withNotifications{s}, nil)
			granted, cancelled := 0, 0
			for range 1000 {
				l := lock(t, locks, "a")
				all := inLine(t, locks, 3)
				go all[0].cancel()
				go all[1].cancel()
				release(t, l)
				for _, w := range all[:2] {
					if w.wait(); w.err == nil {
						granted++
						release(t, w.lease)
					} else {
						cancelled++
						is(t, w.err, context.Canceled)
					}
				}
				release(t, all[2].got())
				synctest.Wait()
				same(t, "local waiters left", locks.kept(), 0)
				empty(t, s.mem)
			}
			t.Logf("%d granted, %d canceled", granted, cancelled)
		}
	})
}

// A lease that its waiter never sees is handed over to the next, or released.
func TestHandOver_AHoldHandedToAWaiterThatLeftGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		l := lock(t, locks, "a")
		all := inLine(t, locks, 3)
		for _, w := range all[:2] { // it is handed over to the first, which passes it on, and so on
			w.cancel()
		}
		release(t, l)
		all[0].failed(context.Canceled)
		all[1].failed(context.Canceled)
		release(t, all[2].handed())
		same(t, "operations", s.ops(), "try release")

		l = lock(t, locks, "a")
		last := waits(t, locks.Mutex("a").Lock)
		last.cancel()
		release(t, l)
		last.wait()
		synctest.Wait()
		empty(t, s.mem)
		same(t, "local waiters left", locks.kept(), 0)
	})
}

func TestHandOver_CloseEndsTheChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks, err := New(withNotifications{s}, &Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		l := lock(t, locks, "a")
		all := inLine(t, locks, 5)
		release(t, l)
		mine := all[0].handed()
		if err := locks.Close(); err != nil {
			t.Fatal(err)
		}
		for _, w := range all[1:] {
			w.failed(ErrClosed)
		}
		is(t, mine.Release(), ErrReleased, ErrClosed)
		same(t, "releases", len(s.made("release", "release all")), 1)
		empty(t, s.mem)
	})
}

// The hold is lost while it is being released: there is nothing to hand over.
func TestHandOver_NothingIsHandedOnThatIsLostDuringItsRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, &Options{TTL: 6 * time.Second, HandOver: &HandOver{Times: 64, For: time.Hour}})
		l := lock(t, locks, "a")
		next := waits(t, locks.Mutex("a").Lock)
		give := l.engine().Probe().Leave() // the first half of its release
		s.mem.Break("a")
		time.Sleep(2500 * time.Millisecond) // more than half of its time is left
		next.waiting()
		is(t, give(), ErrLost) // the second half
		if next.got().ID() == l.ID() {
			t.Fatal("the hold was handed over, although it was lost during its release")
		}
		release(t, next.lease)
	})
}

func TestHandOver_NothingIsHandedOnOnceTheLockerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		l := lock(t, locks, "a")
		next := waits(t, locks.Mutex("a").Lock)
		give := l.engine().Probe().Leave()
		locks.engine.Refuse() // as Close begins
		if l.engine().Probe().HandOnTo(&locks.Mutex("a").claimed) {
			t.Error("the hold was handed over, although the Locker is closing")
		}
		_ = give()
		next.failed(ErrClosed)
	})
}

// After a while without other claims the next waiter can use the whole block of a
// lease. Unused tokens are returned.
func TestHandOver_TheRestOfABlockIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		l := lock(t, locks, "a")
		next := waits(t, locks.Mutex("a").Lock)
		same(t, "block", stored(s.mem, "a").Last-l.Token(), 63)
		release(t, l)
		release(t, next.handed())
		again := lock(t, locks, "a") // at the same instant: by the clock it would be l's
		same(t, "token", again.Token(), l.Token()+2)
		release(t, again)
	})
}
