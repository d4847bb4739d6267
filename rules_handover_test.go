package holdfast

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// handed is the lease that the waiter must have been handed by now.
func (w *waiter) handed() *Lease {
	w.t.Helper()
	synctest.Wait()
	select {
	case <-w.done:
		return w.got()
	default:
		w.t.Fatal("it was not handed over")
		return nil
	}
}

func TestHandOver_GoesToTheNextWithoutAWordToTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		l := lock(t, locks, "a")
		first, token := l.ID(), l.Token()
		all := inLine(t, locks, 10)
		for i, w := range all {
			w.waiting()
			release(t, l)
			l = w.handed()
			same(t, "id", l.ID(), first)
			same(t, "token", l.Token(), token+int64(i)+1)
			if !l.Valid() {
				t.Fatal("not valid")
			}
		}
		same(t, "operations", s.ops(), "try")
		release(t, l)
		same(t, "operations", s.ops(), "try release")
		same(t, "newest token", s.made("release")[0].holds[0].Used, token+10)
		same(t, "kept for nobody", locks.kept(), 0)
		empty(t, s.mem)
	})
}

// A writer waits elsewhere all the while: its token is larger than those of all
// who are handed the name before it, and so is that of an upgrade after it.
func TestHandOver_TokensIncreaseAcrossProcessesHandOversAndUpgrades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks, elsewhere := locker(t, withNotifications{s}, nil), locker(t, withNotifications{linkTo(t, s.mem)}, nil)
		newest := int64(0)
		larger := func(token int64) {
			t.Helper()
			if token <= newest {
				t.Fatalf("token %d after %d", token, newest)
			}
			newest = token
		}
		for range 3 {
			l := lock(t, locks, "a")
			larger(l.Token())
			writer := waits(t, elsewhere.Mutex("a").Lock)
			for range 10 {
				next := waits(t, locks.RWMutex("a").Write().Lock)
				release(t, l)
				l = next.handed()
				larger(l.Token())
			}
			writer.waiting()
			release(t, l)
			theirs := writer.got()
			larger(theirs.Token())
			release(t, theirs)

			up, err := locks.RWMutex("a").Upgradeable().Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			larger(up.Token())
			if err := up.Upgrade(t.Context()); err != nil {
				t.Fatal(err)
			}
			larger(up.Token())
			release(t, up.Lease)
		}
	})
}

func TestHandOver_AnotherProcessGetsInWithinTheTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, o := range []*Options{nil, {HandOver: &HandOver{Times: 5, For: time.Hour}}} {
			s := newLink(t)
			locks := locker(t, withNotifications{s}, o)
			l := lock(t, locks, "a")
			elsewhere := waits(t, locker(t, withNotifications{linkTo(t, s.mem)}, nil).Mutex("a").Lock)
			all := inLine(t, locks, 100)
			most := 64
			if o != nil {
				most = 5
			}
			for _, w := range all[:most-1] {
				elsewhere.waiting()
				release(t, l)
				l = w.handed()
			}
			release(t, l)
			theirs := elsewhere.got()
			time.Sleep(time.Second)
			all[most-1].waiting()
			same(t, "entries", len(stored(s.mem, "a").Entries), 2) // of all who wait here one has asked
			release(t, theirs)
			for _, w := range all[most-1:] {
				release(t, w.got())
			}
		}
	})
}

func TestHandOver_AnotherProcessGetsInWithinTheTime(t *testing.T) {
	bounded(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		locks := locker(t, withNotifications{s}, nil)
		l := lock(t, locks, "a")
		elsewhere := waits(t, locker(t, withNotifications{linkTo(t, s.mem)}, nil).Mutex("a").Lock)
		all := inLine(t, locks, 5)
		time.Sleep(30 * time.Millisecond)
		release(t, l)
		l = all[0].handed()
		time.Sleep(19 * time.Millisecond)
		release(t, l)
		l = all[1].handed()
		same(t, "asks", len(s.made("ask")), 0)
		time.Sleep(time.Millisecond)
		synctest.Wait() // the next goes and asks for a position, behind the other
		same(t, "asks", len(s.made("ask")), 1)
		same(t, "asked at", s.made("ask")[0].sent.Sub(start), 50*time.Millisecond)
		release(t, l)
		all[2].waiting()
		theirs := elsewhere.got()
		time.Sleep(time.Second)
		release(t, theirs)
		for _, w := range all[2:] {
			release(t, w.got())
		}
	})
}

// Also of a hold that may be handed on for less than one before it.
func TestHandOver_TheShorterTimeOfALaterHoldCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, &Options{HandOver: &HandOver{Times: 2, For: time.Hour}})
		first := lock(t, locks, "a")
		second := waits(t, locks.Mutex("a").Lock)
		brief := locks.With(&Options{HandOver: &HandOver{Times: 64, For: 50 * time.Millisecond}})
		all := inLine(t, brief, 3)
		release(t, first)
		release(t, second.handed())
		l := all[0].got()
		if l.ID() == first.ID() {
			t.Fatal("handed over more often than twice")
		}
		asks := len(s.made("ask"))
		time.Sleep(49 * time.Millisecond)
		synctest.Wait()
		same(t, "asks", len(s.made("ask")), asks)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		same(t, "entries", len(stored(s.mem, "a").Entries), 2) // ahead of whoever comes from elsewhere now
		elsewhere := waits(t, locker(t, withNotifications{linkTo(t, s.mem)}, nil).Mutex("a").Lock)
		release(t, l)
		l = all[1].got()
		elsewhere.waiting()
		time.Sleep(time.Second)
		release(t, l)
		release(t, elsewhere.got())
		release(t, all[2].got())
		same(t, "kept for nobody", locks.kept(), 0)
	})
}

// The store's own deadline is what counts: it is not told of the next one.
func TestHandOver_TheDeadlineIsInherited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		locks := locker(t, withNotifications{s}, &Options{TTL: 6 * time.Second, HandOver: &HandOver{Times: 64, For: time.Minute}})
		l := lock(t, locks, "a")
		all := inLine(t, locks, 2)
		time.Sleep(time.Second)
		release(t, l)
		l = all[0].handed()
		same(t, "deadline", l.Deadline(), ends(start, 6*time.Second))
		s.renewalsFail(start.Add(time.Hour))
		<-l.Lost()
		same(t, "lost", time.Now(), ends(start, 6*time.Second))
		is(t, l.Release(), ErrLost)
		all[1].cancel()
		all[1].wait()
	})
}

func TestHandOver_OnlyWhileMoreThanHalfOfTheTTLIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		start := time.Now()
		s.renewalsFail(start.Add(3500 * time.Millisecond))
		locks := locker(t, withNotifications{s}, &Options{TTL: 6 * time.Second, HandOver: &HandOver{Times: 64, For: time.Minute}})
		l := lock(t, locks, "a")
		all := inLine(t, locks, 4)
		time.Sleep(2900 * time.Millisecond)
		release(t, l)
		l = all[0].handed()
		time.Sleep(100 * time.Millisecond)
		release(t, l) // half of it is over
		next := all[1].got()
		if next.ID() == l.ID() {
			t.Fatal("handed over with less than half of the TTL left")
		}
		// And more than half is left again once it is renewed.
		time.Sleep(4 * time.Second)
		release(t, next)
		same(t, "id", all[2].handed().ID(), next.ID())
		release(t, all[2].lease)
		release(t, all[3].handed())
	})
}

// Each lease of a chain is its own: it ends by its own release, and by no other.
func TestHandOver_EachLeaseIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		l := lock(t, locks, "a")
		ctx := l.Context(t.Context())
		next := waits(t, locks.Mutex("a").Lock)
		release(t, l)
		mine := next.handed()
		is(t, context.Cause(ctx), ErrReleased)
		same(t, "valid", fmt.Sprint(l.Valid(), mine.Valid()), "false true")
		same(t, "context", mine.Context(t.Context()).Err(), nil)
		is(t, l.Release(), ErrReleased) // a late second release
		same(t, "operations", s.ops(), "try")
		same(t, "valid", mine.Valid(), true)
		if over(l.Lost()) || over(mine.Lost()) {
			t.Fatal("lost")
		}
		same(t, "holds renewed", locks.engine.Holds(), 1)
		release(t, mine)
	})
}

// A renewal that is under way when the name is handed on is that of the lease
// that has it when the answer comes.
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
		same(t, "renewals under way", s.underway("renew"), 1)
		release(t, l)
		mine := next.handed()
		same(t, "valid", mine.Valid(), true)
		<-mine.Lost()
		err := mine.Release()
		is(t, err, ErrLost)
		synctest.Wait()
		for what, text := range map[string]string{"error": err.Error(), "log": log.String()} {
			if !strings.Contains(text, fmt.Sprint(mine.Token())) || strings.Contains(text, fmt.Sprint(l.Token())) {
				t.Errorf("the %s does not name token %d alone: %s", what, mine.Token(), text)
			}
		}
		if over(l.Lost()) {
			t.Error("lost after its release")
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
					t.Errorf("the next got in %v after the loss", took)
				}
				if next.ID() == l.ID() || next.Token() <= l.Token()+1 {
					t.Fatal("the hold was handed on after its loss")
				}
				release(t, next)
				same(t, "id", all[1].handed().ID(), next.ID()) // this one is good
				release(t, all[1].lease)
			})
		})
	}
}

// Nor while it is not clear what became of a release.
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
			t.Fatal("handed over")
		}
		s.on(nil)
		release(t, next.lease)
	})
}

func TestHandOver_WhoAsksForSomethingElseAsksTheStore(t *testing.T) {
	for name, o := range map[string]*Options{
		"another TTL":  {TTL: 7 * time.Second},
		"a lock delay": {LockDelay: time.Second},
		"a min hold":   {MinHold: time.Second},
		"no renewal":   {NoRenew: On},
		"none wanted":  {HandOver: &HandOver{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLink(t)
				locks := locker(t, withNotifications{s}, nil)
				asksItself(t, s, locks, locks.With(o).Mutex("a").Lock)
			})
		})
	}
	t.Run("a reader", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			locks := locker(t, withNotifications{s}, nil)
			asksItself(t, s, locks, locks.RWMutex("a").Read().Lock)
		})
	})
}

// asksItself checks that the other is not handed what the locker has, whether it
// is the first in line or not, and that nobody overtakes it.
func asksItself(t *testing.T, s *link, locks *Locker, other func(context.Context) (*Lease, error)) {
	t.Helper()
	for _, before := range []int{0, 2} {
		l := lock(t, locks, "a")
		same(t, "entries", len(stored(s.mem, "a").Entries), 1)
		first := inLine(t, locks, before)
		w := waits(t, other)
		behind := waits(t, locks.Mutex("a").Lock)
		for _, w := range first {
			release(t, l)
			l = w.handed()
		}
		synctest.Wait()
		same(t, "entries", len(stored(s.mem, "a").Entries), 2) // it has asked for a position
		release(t, l)
		mine := w.got()
		if mine.ID() == l.ID() {
			t.Fatal("handed over")
		}
		behind.waiting()
		release(t, mine)
		release(t, behind.got())
		time.Sleep(time.Minute) // a minimum hold is over
	}
}

// Waiters that differ in nothing that the store has of the hold are handed it;
// of who has it the store is told with the next renewal.
func TestHandOver_ItsOwnerAndTokenReachTheStoreWithTheNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, &Options{Note: "the first"})
		l := lock(t, locks, "a")
		next := waits(t, locks.With(&Options{Note: "the second", Wait: time.Minute, RenewEvery: time.Second}).Mutex("a").Lock)
		release(t, l)
		mine := next.handed()
		same(t, "note", stored(s.mem, "a").Entries[0].Owner.Note, "the first")
		time.Sleep(11 * time.Second)
		same(t, "note", stored(s.mem, "a").Entries[0].Owner.Note, "the second")
		asked := s.made("renew")[0].holds[0]
		same(t, "identity", asked.Token, l.Token())
		same(t, "newest token", asked.Used, mine.Token())
		release(t, mine)
	})
}

func TestHandOver_MaxHoldIsEachLeasesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, &Options{MaxHold: 30 * time.Millisecond})
		l := lock(t, locks, "a")
		all := inLine(t, locks, 2)
		time.Sleep(20 * time.Millisecond)
		release(t, l)
		l = all[0].handed()
		time.Sleep(20 * time.Millisecond)
		same(t, "valid", l.Valid(), true)
		start := time.Now()
		release(t, l)
		l = all[1].handed()
		<-l.Lost()
		same(t, "lost after", time.Since(start), 30*time.Millisecond)
		is(t, l.Release(), ErrLost)
		synctest.Wait()
		empty(t, s.mem)
	})
}

func TestHandOver_OffWhenItsBoundsAreZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, &Options{HandOver: &HandOver{}})
		l := lock(t, locks, "a")
		next := waits(t, locks.Mutex("a").Lock)
		same(t, "entries", len(stored(s.mem, "a").Entries), 2)
		release(t, l)
		if next.got().ID() == l.ID() {
			t.Fatal("handed over")
		}
		same(t, "tokens asked for", s.made("try")[0].claim.Block, 1)
		release(t, next.lease)
		same(t, "kept for nobody", locks.kept(), 0)
	})
}

// Who gives up waiting for a hold of his own process is told who has it, as if
// the store had said it.
func TestHandOver_WhoGivesUpIsToldWhoHolds(t *testing.T) {
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
		same(t, "kept for nobody", locks.kept(), 0)
	})
}

// A waiter that leaves in the very moment in which it is handed the name.
func TestHandOver_CancelledInTheSameMomentLosesNothing(t *testing.T) {
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
				same(t, "kept for nobody", locks.kept(), 0)
				empty(t, s.mem)
			}
			t.Logf("%d were granted, %d cancelled", granted, cancelled)
		}
	})
}

// A lease that its waiter never sees goes on to the next, or back to the store.
func TestHandOver_WhatAWaiterThatHasLeftIsHandedGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		l := lock(t, locks, "a")
		all := inLine(t, locks, 3)
		for _, w := range all[:2] { // the first is handed it, and passes it on to the next, and so on
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
		same(t, "kept for nobody", locks.kept(), 0)
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

// A try takes nothing from those who wait here, and is handed nothing.
func TestHandOver_ATryIsRefusedWhileTheNameGoesRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		l := lock(t, locks, "a")
		for range 10 {
			next := waits(t, locks.Mutex("a").Lock)
			release(t, l)
			_, err := locks.Mutex("a").TryLock(t.Context())
			is(t, err, ErrHeld)
			l = next.handed()
		}
		release(t, l)
	})
}

func TestHandOver_ASemaphoreIsHandedOnOnlyAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		sem := locker(t, withNotifications{s}, nil).Semaphore("a", 3)
		all := func(ctx context.Context) (*Lease, error) { return sem.Acquire(ctx, 3) }
		l, err := all(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		next := waits(t, all)
		release(t, l)
		l = next.handed()
		part := waits(t, func(ctx context.Context) (*Lease, error) { return sem.Acquire(ctx, 2) })
		same(t, "entries", len(stored(s.mem, "a").Entries), 2)
		release(t, l)
		l = part.got()
		same(t, "tokens asked for", s.made("ask")[1].claim.Block, 1)
		release(t, l)
	})
}

// It is lost while it is being released: nothing is left to hand on.
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
			t.Fatal("handed over")
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
			t.Error("handed over")
		}
		_ = give()
		next.failed(ErrClosed)
	})
}

// When the bounds are reached the next asks in the same moment in which the
// release is sent; in memory right after it, as then no position is needed.
func TestHandOver_ThenReleaseAndAskGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, inProcess := range []bool{false, true} {
			s := newLink(t)
			s.desc.InProcess = inProcess
			locks := locker(t, withNotifications{s}, &Options{HandOver: &HandOver{Times: 2, For: time.Second}})
			if !inProcess {
				locks.engine.Subscribe(t.Context()) // as the first who has to wait there would
			}
			l := lock(t, locks, "a")
			all := inLine(t, locks, 3)
			release(t, l)
			l = all[0].handed()
			if !inProcess {
				s.on(func(*call) fate { return fate{there: time.Millisecond, back: time.Millisecond} })
			}
			start := time.Now()
			release(t, l)
			next := all[1].got()
			if took := time.Since(start); took > 2*time.Millisecond { // one round trip
				t.Errorf("the swap took %v", took)
			}
			if ask := s.made("try", "ask")[1]; ask.sent != start {
				t.Errorf("asked %v after the release was sent", ask.sent.Sub(start))
			}
			if inProcess {
				same(t, "operations", s.ops(), "try release try")
			}
			release(t, next)
			release(t, all[2].handed())
		}
	})
}

// After a while in which nobody else came the block of a lease is as good as
// new for who comes next, and what of it was not used is given back.
func TestHandOver_WhatIsLeftOfABlockIsGivenBack(t *testing.T) {
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

// Its time is what its owner says then, which is not what the next asked for.
func TestHandOver_WhatIsRenewedByHandIsNotHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		l := lock(t, locks, "a")
		next := waits(t, locks.Mutex("a").Lock)
		if err := l.Renew(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		release(t, l)
		if next.got().ID() == l.ID() {
			t.Fatal("handed over")
		}
		release(t, next.lease)
	})
}

// To who observes, each lease of the chain begins and ends, with its own token.
func TestHandOver_EachLeaseIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		var mu sync.Mutex
		var seen []string
		start := time.Now()
		locks := locker(t, withNotifications{s}, &Options{Observer: func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == EventWaiting {
				return
			}
			seen = append(seen, fmt.Sprint(e.Kind, " ", e.Token-start.UnixMicro(), " ", e.After))
		}})
		l := lock(t, locks, "a")
		next := waits(t, locks.Mutex("a").Lock)
		time.Sleep(20 * time.Millisecond)
		release(t, l)
		mine := next.handed()
		time.Sleep(10 * time.Millisecond)
		release(t, mine)
		synctest.Wait()
		slices.Sort(seen) // what two goroutines tell at a time is in no order
		same(t, "events", strings.Join(seen, ", "), "granted 0 0s, handed over 1 20ms, released 0 20ms, released 1 10ms")
	})
}

// Several names renew themselves while they are taken, and then perhaps not
// any more: nobody is handed what will not be renewed.
func TestHandOver_NotOfSeveralNamesWithoutRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		all, err := locks.With(&Options{NoRenew: On}).All(locks.Mutex("a"), locks.Mutex("b")).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := waits(t, locks.Mutex("a").Lock)
		if err := all.Release(); err != nil {
			t.Fatal(err)
		}
		mine := next.got()
		time.Sleep(time.Minute)
		same(t, "valid", mine.Valid(), true)
		release(t, mine)
	})
}

// What the store says of a leader is what others see of him.
func TestHandOver_NotOfALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		locks := locker(t, withNotifications{s}, nil)
		term, err := locks.With(&Options{Note: "first"}).Election("a").Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := waits(t, locks.With(&Options{Note: "second"}).Election("a").Campaign)
		release(t, term)
		mine := next.got()
		same(t, "note", stored(s.mem, "a").Entries[0].Owner.Note, "second")
		release(t, mine)
	})
}
